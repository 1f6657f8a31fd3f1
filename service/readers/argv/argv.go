// Package argv reads words of command lines: options as argparse takes them, overrides as Hydra does, each with the
// place where it stands.
package argv

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Word is one word of a command line, with the places of its pieces.
type Word struct {
	setting.Value
	// Many is true for an unknown word that may be several words or none.
	Many   bool
	Pieces []Piece
	// Shown is the word as it stands in the source.
	Shown string
}

// Piece is a part of a word that stems from one place; at is nowhere where it was worked out.
type Piece struct {
	Text string
	At   setting.Span
	// Sure is false where the text is another one if the environment says so.
	Sure bool
}

// Known reports whether the word is fixed, or assumed.
func (w Word) Known() bool { return w.Unknown == "" }

// Open reports whether the word may be several, options among them: $EXTRA_ARGS. --key=$VALUE is one option, and
// $REPOSITORY/train.py a program.
func (w Word) Open() bool {
	return w.MayBeGone() || w.Many && !w.Known() && !strings.HasPrefix(w.Text, "-") && !strings.HasSuffix(w.Text, ".py")
}

// MayBeGone reports whether the word is none unless the environment says otherwise: ${EXTRA:-}.
func (w Word) MayBeGone() bool { return w.Many && w.Known() && w.Text == "" }

// Cut is the word without its first n bytes: the value of --key=value. It stands in one place if its text is one piece.
func (w Word) Cut(n int) Word {
	out := w
	out.Text = w.Text[n:]
	out.Any = out.Text
	out.Pieces = nil
	for _, p := range w.Pieces {
		if n >= len(p.Text) {
			n -= len(p.Text)
			continue
		}
		if n > 0 {
			p.Text = p.Text[n:]
			if p.At.Known() && p.At.End-p.At.Start >= n {
				p.At.Start += n
			}
			n = 0
		}
		out.Pieces = append(out.Pieces, p)
	}
	out.Place()
	return out
}

// Place sets the word's span: that of its only piece, if that stands somewhere as it is. Otherwise it is an empty span
// where the word begins.
func (w *Word) Place() {
	if len(w.Pieces) == 1 && w.Pieces[0].At.Known() &&
		w.Pieces[0].At.End-w.Pieces[0].At.Start == len(w.Pieces[0].Text) {
		w.Origin.At = w.Pieces[0].At
		return
	}
	w.Origin.At.End = w.Origin.At.Start
}

// Options reads words as argparse and HfArgumentParser do: --key value …, --key=value, and --key alone, which is true.
// Of a key that is given twice the last wins. Dashes in keys are underscores. Words before the first option are
// positional. switches never take a value. openWords are unknown words that may hold more options.
func Options(words []Word, switches map[string]bool) (s *setting.Settings, positional, openWords []Word) {
	s = setting.New()
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.Open() || !w.Known() && !strings.HasPrefix(w.Text, "-") {
			openWords = append(openWords, w)
			continue
		}
		if !IsOption(w.Text) {
			positional = append(positional, w)
			continue
		}
		key, _, hasValue := strings.Cut(w.Text, "=")
		name := OptionKey(key)
		if hasValue {
			v := w.Cut(len(key) + 1).Argument(key)
			s.Set(name, v)
			continue
		}
		var values []Word
		for !switches[name] && i+1 < len(words) && !IsOption(words[i+1].Text) {
			if words[i+1].Many && !words[i+1].Known() && len(values) > 0 {
				break
			}
			i++
			values = append(values, words[i])
		}
		s.Set(name, valueOf(w, key, values))
	}
	return s, positional, openWords
}

// IsOption reports whether a word begins an option; negative numbers do not.
func IsOption(s string) bool {
	return len(s) > 1 && s[0] == '-' && (s[1] < '0' || s[1] > '9') && s[1] != '.'
}

// OptionKey is the name of an option without its dashes, those within it as underscores.
func OptionKey(key string) string {
	return strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
}

// valueOf is an option's value: true without words, a word, or a list.
func valueOf(option Word, key string, values []Word) setting.Value {
	switch len(values) {
	case 0:
		v := option.Value
		v.Any, v.Text = true, ""
		v.Origin.Kind, v.Origin.Key = setting.Argument, key
		v.Origin.At.Start = v.Origin.At.End
		return v
	case 1:
		return values[0].Argument(key)
	}
	v := values[0].Argument(key)
	list := make([]any, 0, len(values))
	texts := make([]string, 0, len(values))
	for _, w := range values {
		list = append(list, w.Text)
		texts = append(texts, w.Text)
		if !w.Known() && v.Unknown == "" {
			v.Unknown = w.Unknown
		}
	}
	v.Any, v.Text = list, strings.Join(texts, " ")
	v.Origin.At.End = v.Origin.At.Start
	return v
}

// Argument is a word as the value of an option.
func (w Word) Argument(key string) setting.Value {
	v := w.Value
	v.Any = w.Text
	v.Origin.Kind, v.Origin.Key = setting.Argument, key
	return v
}

// Overrides reads words of the form key=value, as Hydra and OmegaConf take them; +key=value adds, ~key removes.
func Overrides(words []Word) *setting.Settings {
	s := setting.New()
	for _, w := range words {
		key, _, ok := strings.Cut(w.Text, "=")
		if !ok || IsOption(w.Text) {
			continue
		}
		v := w.Cut(len(key) + 1).Argument(key)
		v.Any = HydraValue(v.Text)
		s.Set(strings.TrimLeft(key, "+~"), v)
	}
	return s
}

// HydraValue types an override: null, truth values and numbers as YAML, lists in square brackets.
func HydraValue(s string) any {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		var list []any
		for _, e := range strings.Split(strings.Trim(s, "[]"), ",") {
			if e = strings.Trim(strings.TrimSpace(e), `"'`); e != "" {
				list = append(list, e)
			}
		}
		return list
	}
	return setting.Scalar(strings.Trim(s, `"'`))
}

// Name is how a message calls the word.
func (w Word) Name() string {
	switch {
	case w.MayBeGone() && w.Shown != "":
		return w.Shown
	case w.Text != "":
		return w.Text
	case w.Shown != "":
		return w.Shown
	}
	return "a word that is not known"
}

// Fixed is a word of which nothing is open.
func (w Word) Fixed() Word {
	return Word{Value: setting.Value{Origin: w.Origin}}
}
