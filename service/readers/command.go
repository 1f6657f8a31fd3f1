package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// word is one word of a command line, with the places of its pieces.
type word struct {
	setting.Value
	// many is true for an unknown word that may be several words or none.
	many   bool
	pieces []piece
	// shown is the word as it stands in the source.
	shown string
}

// piece is a part of a word that stems from one place; at is nowhere where it was worked out.
type piece struct {
	text string
	at   setting.Span
	// sure is false where the text is another one if the environment says so.
	sure bool
}

// text is what the word says, as far as it is known.
func (w word) text() string { return w.Text }

// known reports whether the word is fixed, or assumed.
func (w word) known() bool { return w.Unknown == "" }

// open reports whether the word may be several, options among them: $EXTRA_ARGS. --key=$VALUE is one option, and
// $REPOSITORY/train.py a program.
func (w word) open() bool {
	return w.mayBeGone() || w.many && !w.known() && !strings.HasPrefix(w.Text, "-") && !strings.HasSuffix(w.Text, ".py")
}

// mayBeGone reports whether the word is none unless the environment says otherwise: ${EXTRA:-}.
func (w word) mayBeGone() bool { return w.many && w.known() && w.Text == "" }

// cut is the word without its first n bytes: the value of --key=value. It stands in one place if its text is one piece.
func (w word) cut(n int) word {
	out := w
	out.Text = w.Text[n:]
	out.Any = out.Text
	out.pieces = nil
	for _, p := range w.pieces {
		if n >= len(p.text) {
			n -= len(p.text)
			continue
		}
		if n > 0 {
			p.text = p.text[n:]
			if p.at.Known() && p.at.End-p.at.Start >= n {
				p.at.Start += n
			}
			n = 0
		}
		out.pieces = append(out.pieces, p)
	}
	out.place()
	return out
}

// place sets the word's span: that of its only piece, if that stands somewhere as it is. Otherwise it is an empty span
// where the word begins.
func (w *word) place() {
	if len(w.pieces) == 1 && w.pieces[0].at.Known() &&
		w.pieces[0].at.End-w.pieces[0].at.Start == len(w.pieces[0].text) {
		w.Origin.At = w.pieces[0].at
		return
	}
	w.Origin.At.End = w.Origin.At.Start
}

// command is one launch line of a script.
type command struct {
	words []word
	// wrappers are the programs in front that were stripped: srun, env, singularity …
	wrappers []string
	env      func(name string) (word, bool)
	at       setting.Span
	// dir is the directory in which it runs.
	dir string
	// maybe says why the command may not run; empty where it surely does.
	maybe string
	// lost says why nobody knows in which directory it runs; empty where that is known.
	lost string
	// open reads a file as the command would find it; the text and its name.
	open func(name string, dirs ...string) (string, []byte, error)
	// slurm is what the batch script asks the scheduler for.
	slurm *setting.Settings
	// asked are the same in Slurm's words, a component each, and components the numbers of those; none where nobody
	// knows.
	asked      []slurm.Options
	components []int
	// pods is true where that is Kubernetes and not Slurm.
	pods bool
	// ranks is the number of processes that mpirun starts; nil where it starts none, or does not say.
	ranks *setting.Value
	// files is where configurations are looked for.
	files *files
	// displaced are files that were not where the command would find them.
	displaced *displacedFiles
	// taken is what was assumed of the programs in front, which is in doubt by itself.
	taken []string
	// doubts are those about the command as a whole: whether it runs, and in which environment.
	doubts []Doubt
	// ways are the commands that it may be instead, by decisions that only the environment knows.
	ways []command
}

// options reads words as argparse and HfArgumentParser do: --key value …, --key=value, and --key alone, which is true.
// Of a key that is given twice the last wins. Dashes in keys are underscores. Words before the first option are
// positional. switches never take a value. openWords are unknown words that may hold more options.
func options(words []word, switches map[string]bool) (s *setting.Settings, positional, openWords []word) {
	s = setting.New()
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.open() || !w.known() && !strings.HasPrefix(w.Text, "-") {
			openWords = append(openWords, w)
			continue
		}
		if !isOption(w.Text) {
			positional = append(positional, w)
			continue
		}
		key, _, hasValue := strings.Cut(w.Text, "=")
		name := optionKey(key)
		if hasValue {
			v := w.cut(len(key) + 1).argument(key)
			s.Set(name, v)
			continue
		}
		var values []word
		for !switches[name] && i+1 < len(words) && !isOption(words[i+1].Text) {
			if words[i+1].many && !words[i+1].known() && len(values) > 0 {
				break
			}
			i++
			values = append(values, words[i])
		}
		s.Set(name, valueOf(w, key, values))
	}
	return s, positional, openWords
}

// isOption reports whether a word begins an option; negative numbers do not.
func isOption(s string) bool {
	return len(s) > 1 && s[0] == '-' && (s[1] < '0' || s[1] > '9') && s[1] != '.'
}

func optionKey(key string) string {
	return strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
}

// valueOf is an option's value: true without words, a word, or a list.
func valueOf(option word, key string, values []word) setting.Value {
	switch len(values) {
	case 0:
		v := option.Value
		v.Any, v.Text = true, ""
		v.Origin.Kind, v.Origin.Key = setting.Argument, key
		v.Origin.At.Start = v.Origin.At.End
		return v
	case 1:
		return values[0].argument(key)
	}
	v := values[0].argument(key)
	list := make([]any, 0, len(values))
	texts := make([]string, 0, len(values))
	for _, w := range values {
		list = append(list, w.Text)
		texts = append(texts, w.Text)
		if !w.known() && v.Unknown == "" {
			v.Unknown = w.Unknown
		}
	}
	v.Any, v.Text = list, strings.Join(texts, " ")
	v.Origin.At.End = v.Origin.At.Start
	return v
}

// argument is a word as the value of an option.
func (w word) argument(key string) setting.Value {
	v := w.Value
	v.Any = w.Text
	v.Origin.Kind, v.Origin.Key = setting.Argument, key
	return v
}

// overrides reads words of the form key=value, as Hydra and OmegaConf take them; +key=value adds, ~key removes.
func overrides(words []word) *setting.Settings {
	s := setting.New()
	for _, w := range words {
		key, _, ok := strings.Cut(w.Text, "=")
		if !ok || isOption(w.Text) {
			continue
		}
		v := w.cut(len(key) + 1).argument(key)
		v.Any = hydraValue(v.Text)
		s.Set(strings.TrimLeft(key, "+~"), v)
	}
	return s
}

// hydraValue types an override: null, truth values and numbers as YAML, lists in square brackets.
func hydraValue(s string) any {
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

// name is how a message calls the word.
func (w word) name() string {
	switch {
	case w.mayBeGone() && w.shown != "":
		return w.shown
	case w.Text != "":
		return w.Text
	case w.shown != "":
		return w.shown
	}
	return "a word that is not known"
}
