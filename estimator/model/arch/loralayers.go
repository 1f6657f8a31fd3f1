package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// Biases says which biases are trained beside the adapters (peft's bias).
type Biases uint8

// NoBiases, AllBiases of the model, and those of the layers that have adapters (lora_only).
const (
	NoBiases Biases = iota
	AllBiases
	BiasesOfAdapted
)

// RankPattern is the rank of the layers whose names a key of peft's rank_pattern matches.
type RankPattern struct {
	Key  string
	Rank int64

	re *regexp.Regexp
}

// plainKey is a key that means modules by the ends of their names, in all layers alike: no part of it is a number.
var plainKey = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// selects says that the job chooses modules by more than the names in target_modules.
func (l *LoRA) selects() bool { return l.Layers != nil || len(l.Ranks) > 0 || len(l.Excluded) > 0 }

// differs says that adapters are in some of the layers, or of another rank in some of them.
func (l *LoRA) differs() bool {
	return l.Layers != nil ||
		slices.ContainsFunc(l.Ranks, func(p *RankPattern) bool { return !plainKey.MatchString(p.Key) })
}

// readRanks reads the keys, which peft holds against the whole name of a module, and against what stands behind any of
// its points. Source: peft/utils/other.py (get_pattern_key), 0.21.
func (l *LoRA) readRanks(pointer string, errs *invalid.List) {
	for _, p := range l.Ranks {
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + p.Key + `)$`)
		if err != nil {
			errs.Add(pointer+"/rank_pattern", "unsupported", "%.200q is no regular expression that is understood here (RE2, "+
				"without lookaround): %v", p.Key, err)
			return
		}
		p.re = re
	}
}

// excludes says that the job leaves the module of this name out (exclude_modules).
func (l *LoRA) excludes(name string) bool { return ends(l.Excluded, name) }

// ends says whether name, or its end behind a point, is one of names.
func ends(names []string, name string) bool {
	return slices.ContainsFunc(names, func(end string) bool { return name == end || strings.HasSuffix(name, "."+end) })
}

// chooses says whether the module of this name is among the layers that get adapters (layers_to_transform): peft reads
// the number of a layer off a module's name, and leaves out those that stand in none.
// Source: peft/tuners/tuners_utils.py (check_target_module_exists), 0.21.
func (b *Builder) chooses() bool {
	l := b.A.LoRA
	return l.Layers == nil || b.layer > 0 && slices.Contains(l.Layers, b.layer-1)
}

// rankOf is the rank of the adapter of the module name.
func (b *Builder) rankOf(name string) int64 {
	l, whole := b.A.LoRA, name
	if b.layer > 0 && b.path != "" {
		whole = fmt.Sprintf("%s.%d.%s", b.path, b.layer-1, name)
	}
	rank, found := l.Rank, false
	for _, p := range l.Ranks {
		if p.re == nil || !p.re.MatchString(whole) {
			continue
		}
		if found && rank != p.Rank {
			b.ambiguous = whole
		}
		if b.used != nil {
			b.used[p.Key] = true
		}
		rank, found = p.Rank, true
	}
	return rank
}

// refuseSelection names what of the job's choice of modules is not modelled, or means nothing.
func (a *Architecture) refuseSelection(b *Builder, pointer string, errs *invalid.List) {
	l := a.LoRA
	if l.Biases != NoBiases {
		a.refuseBiases(pointer+"/bias", errs)
	}
	if !l.selects() {
		return
	}
	if l.folded || l.Fused.any() {
		errs.Add(pointer, "unsupported", "adapters on experts or routers are modelled in all layers and of one rank: leave "+
			"layers_to_transform, rank_pattern, alpha_pattern and exclude_modules out, or name other target_modules")
		return
	}
	apart := a.HasTower() || a.Decoder > 0 || a.Written != nil || !b.stacked || a.Class == ClassBase
	if l.Layers != nil && apart {
		errs.Add(pointer+"/layers_to_transform", "unsupported", "layers_to_transform is modelled for models of one stack "+
			"of layers below a head, and not for %s as it is here", a.Family)
	}
	for _, i := range l.Layers {
		if i >= a.Layers {
			errs.Add(pointer+"/layers_to_transform", "out_of_range", "layer %d was given; the model has %d layers, counted "+
				"from 0", i, a.Layers)
			break
		}
	}
	if b.adapted == 0 {
		return // said elsewhere
	}
	for _, p := range l.Ranks {
		switch {
		case (apart || b.path == "") && !plainKey.MatchString(p.Key):
			errs.Add(pointer+"/rank_pattern", "unsupported", "%.200q looks at the numbers of layers, or is an expression; for "+
				"%s the ends of modules' names are accepted, such as %q", p.Key, a.Family, leaf(b.linears[0]))
		case p.re != nil && !b.used[p.Key]:
			errs.Add(pointer+"/rank_pattern", "unknown_value", "%.200q matches no module that gets an adapter, and peft "+
				"passes it over; leave it out", p.Key)
		}
	}
	if b.ambiguous != "" {
		errs.Add(pointer+"/rank_pattern", "conflict", "several keys match %s; peft takes the one that was written first, "+
			"which a document does not say: write keys that do not overlap", b.ambiguous)
	}
	for _, end := range l.Excluded {
		if !plainKey.MatchString(end) {
			errs.Add(pointer+"/exclude_modules", "unsupported", "%.200q is an expression, or looks at the number of a layer; the ends of modules' names are "+
				"accepted, such as %q", end, leaf(b.linears[0]))
		}
	}
}

// refuseBiases refuses biases that are trained where no trace has shown them.
func (a *Architecture) refuseBiases(pointer string, errs *invalid.List) {
	l := a.LoRA
	switch {
	case l.Base != step.NotQuantised:
		errs.Add(pointer, "unsupported", "biases are trained on bases in bf16, fp16 and fp32; on a quantised one they are "+
			"not modelled: give none")
	case len(l.Saved) > 0:
		errs.Add(pointer, "unsupported", "trained biases are not modelled together with modules_to_save; leave one of them "+
			"out")
	case a.HasTower() || a.Decoder > 0 || a.Written != nil:
		errs.Add(pointer, "unsupported", "trained biases are modelled for models of one stack of layers, and not for %s as "+
			"it is here", a.Family)
	}
}

// MostRank is the highest rank that a module may have.
func (l *LoRA) MostRank() int64 {
	most := l.Rank
	for _, p := range l.Ranks {
		most = max(most, p.Rank)
	}
	return most
}
