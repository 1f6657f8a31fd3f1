package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// frozen is what of the model is not trained.
type frozen []namePattern

// namePattern means parameters by whole parts of their names, one after the other.
type namePattern []namePart

// namePart means one part of a name: a number from first to last where last is not negative, else a word, between
// whose pieces any characters may stand.
type namePart struct {
	pieces      []string
	first, last int64
}

// parseNamePattern reads words, numbers and ranges of numbers such as 0-15 with points between them.
func parseNamePattern(given string) (p namePattern, ok bool) {
	for word := range strings.SplitSeq(given, ".") {
		part := namePart{pieces: strings.Split(word, "*"), last: -1}
		if m := numbers.FindStringSubmatch(word); m != nil {
			part.first, _ = strconv.ParseInt(m[1], 10, 64)
			part.last = part.first
			if m[2] != "" {
				part.last, _ = strconv.ParseInt(m[2], 10, 64)
			}
			ok = part.first <= part.last
		} else {
			ok = starred.MatchString(word)
		}
		if !ok {
			return nil, false
		}
		p = append(p, part)
	}
	return p, true
}

var (
	numbers = regexp.MustCompile(`^([0-9]{1,6})(?:-([0-9]{1,6}))?$`)
	starred = regexp.MustCompile(`^[A-Za-z_*][A-Za-z0-9_*]*$`)
)

// matches says whether the parts stand anywhere in a name, which is read once for each part of the pattern.
func (p namePattern) matches(name []string) bool {
	for from := range max(len(name)-len(p)+1, 0) {
		found := true
		for i := 0; found && i < len(p); i++ {
			found = p[i].matches(name[from+i])
		}
		if found {
			return true
		}
	}
	return false
}

func (p namePart) matches(word string) bool {
	if p.last >= 0 {
		n, err := strconv.ParseInt(word, 10, 64)
		return err == nil && n >= p.first && n <= p.last
	}
	end := len(p.pieces) - 1
	if end == 0 {
		return p.pieces[0] == word
	}
	rest, ok := strings.CutPrefix(word, p.pieces[0])
	for _, piece := range p.pieces[1:end] {
		at := strings.Index(rest, piece)
		if !ok || at < 0 {
			return false
		}
		rest = rest[at+len(piece):]
	}
	return ok && strings.HasSuffix(rest, p.pieces[end])
}

// Freeze leaves the parameters out of training of which whole parts of the name, as named_parameters has it, match one
// of patterns. pointer is where the job asks for it. It says whether the layers get an input that has no gradient.
func (a *Architecture) Freeze(patterns []string, pointer string, errs *invalid.List) (input bool) {
	if a.Described == nil || a.Layers == 0 {
		return false // said already
	}
	var f frozen
	alike := true
	for i, given := range patterns {
		p, ok := parseNamePattern(given)
		if !ok {
			errs.Add(fmt.Sprintf("%s/%d", pointer, i), "unsupported", "%.200q is not understood; accepted: parts of names "+
				"with points between them, such as embed_tokens, layers.3, layers.0-15, layers.*.mlp", given)
			return false
		}
		f = append(f, p)
		alike = alike && plainKey.MatchString(given)
	}
	a.frozen, a.Irregular = f, a.Irregular || !alike
	b := Builder{A: a, Recorded: a.distinctLayers()}
	a.Modules(&b)
	if b.path == "" || ExpertsOf(a) != nil || a.HasTower() || a.Decoder > 0 || a.Written != nil || a.NanoGPT() || a.Class == ClassBase {
		errs.Add(pointer, "unsupported", "frozen parameters are modelled for decoders of transformers with a head and "+
			"without experts, and not for %s as it is here; leave freeze out", a.Family)
		return false
	}
	used, trained, layers := make([]bool, len(patterns)), false, false
	input = true
	b.named(func(p *step.Parameter, name string) {
		parts := strings.Split(name, ".")
		for i, pattern := range f {
			used[i] = used[i] || pattern.matches(parts)
		}
		trained, layers = trained || p.Trained(), layers || p.InLayer
		input = input && (layers || p.Frozen)
	})
	for i, given := range patterns {
		if !used[i] {
			errs.Add(fmt.Sprintf("%s/%d", pointer, i), "unknown_value", "%.200q is no whole part of the name of a parameter; "+
				"those of the model are called %.400s", given, strings.Join(b.examples(), ", "))
		}
	}
	if !trained {
		errs.Add(pointer, "conflict", "nothing is left to train: every parameter of the model matches")
	}
	return input
}

// freeze leaves what the job names out of training, once all parameters are declared.
func (b *Builder) freeze() {
	f := b.A.frozen
	if f == nil {
		return
	}
	b.named(func(p *step.Parameter, name string) {
		parts := strings.Split(name, ".")
		p.Frozen = p.Frozen || slices.ContainsFunc(f, func(n namePattern) bool { return n.matches(parts) })
	})
}

// named calls f for every parameter with its name, which a weight and its bias share in the list.
func (b *Builder) named(f func(p *step.Parameter, name string)) {
	layer := int64(-1)
	root, _ := strings.CutSuffix(b.path, b.path[strings.LastIndex(b.path, ".")+1:])
	for i := range b.P.List {
		p := &b.P.List[i]
		if p.First {
			layer++
		}
		if p.Buffer {
			continue
		}
		name := p.Name + ".weight"
		if i > 0 && b.P.List[i-1].Name == p.Name {
			name = p.Name + ".bias"
		}
		switch {
		case p.InLayer:
			name = fmt.Sprintf("%s.%d.%s", b.path, layer, name)
		case !slices.Contains([]string{"lm_head", "embed_out", "score", "classifier"}, p.Name):
			name = root + name
		}
		f(p, name)
	}
}

// examples are the names outside the layers and those of one layer.
func (b *Builder) examples() []string {
	var names []string
	b.named(func(p *step.Parameter, name string) {
		if !p.InLayer || strings.HasPrefix(name, b.path+".0.") {
			names = append(names, name)
		}
	})
	return names
}
