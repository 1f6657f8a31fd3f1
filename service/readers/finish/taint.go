package finish

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// lasting are the words that say how long a training is, of which 0 trains nothing.
var lasting = setting.SetOf("num_train_epochs", "num_epochs", "max_epochs", "epochs", "train.epochs", "max_steps",
	"train.max_steps", "train.max_tokens", "max_steps_per_epoch", "training.steps", "train_iters", "train_samples",
	"trainer.total_epochs", "trainer.total_training_steps")

// A word that the environment may change taints the job: it is in doubt, whichever reader takes it and whether any
// does, unless it is the value of a word that moves no memory. Readers say which those are (setting.Settings.Still);
// what they do not say leaves the doubt.

// doubtWords notes the words of the command that the environment may change.
func (r *closing) doubtWords() {
	args := len(r.Words) - len(r.Args)
	option, at := "", -2
	for i, w := range r.Words {
		key, given, isKey := w.Key()
		if isKey && !given {
			option, at = key, i
		}
		reason := w.Unknown + w.Assumed
		switch {
		case reason == "":
		case w.IsList(reason):
			r.taint(w, "", reason)
		case isKey:
			if !r.stills(i >= args, key) {
				r.taint(w, key, reason)
			}
		case at == i-1 && !argv.IsOption(w.Text): // the value of the option before it
			if r.table.Switches[option] && w.Open() {
				r.taint(w, "", reason)
			} else if !r.stills(i >= args, option) {
				r.taint(w, option, reason)
			}
		default:
			r.taint(w, "", reason)
		}
	}
}

// stills reports whether a word of the command moves no memory: one of the program's, or one of the launcher's.
func (r *closing) stills(programs bool, key string) bool {
	if programs {
		return r.In != nil && r.In.IsStill(key)
	}
	table := launch.Still[r.Launcher]
	return table[key] || table[key+"="]
}

// taint notes one word; key is the option whose value it is, "" where it may be any argument.
func (r *closing) taint(w argv.Word, key, reason string) {
	d := draft.Doubt{File: w.Origin.At.File, Line: w.Origin.At.Line, Word: w.Name(), Enlarges: !lasting[key]}
	switch {
	case key == "" && w.Open():
		d.Why = "may add arguments: " + reason
	case lasting[key]:
		d.Word, d.Why = key, "is known only when the script runs, and may be 0: "+reason
	case key != "":
		d.Word, d.Why = key, "is known only when the script runs: "+reason
	default:
		d.Why = "is known only when the script runs: " + reason
	}
	r.Out.Doubts.Add(d)
}

// doubtSettings notes values of files that are worked out when the job runs, and trainings of no step.
func (r *closing) doubtSettings() {
	if r.In == nil {
		return
	}
	for _, key := range r.In.Keys() {
		v, _ := r.In.Peek(key)
		if n, ok := v.Float(); ok && n <= 0 && v.Unknown == "" && lasting[key] && !strings.HasPrefix(key, "max_steps") {
			r.Out.Doubts.Add(draft.Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
				Why: fmt.Sprintf("is %v: nothing is trained", v.String())})
		}
		if v.Unknown == "" || v.Origin.Kind != setting.File || r.In.IsStill(key) {
			continue
		}
		r.Out.Doubts.Add(draft.Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
			Why: "is known only when the job runs: " + v.Unknown, Enlarges: true})
	}
}
