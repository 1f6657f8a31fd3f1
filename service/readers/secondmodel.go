package readers

import (
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

var (
	assignsTo = regexp.MustCompile(`^\s*([A-Za-z_][\w.]*)\s*(?::[^=]+)?=[^=]`)
	trainsNow = regexp.MustCompile(`^[^#'"]*\w\.train\(`)
	// rewrites is a method of a trainer's subclass that puts the program's own step in the place of the library's
	// (transformers 5.23 trainer.py: what train() calls for each micro-batch).
	rewrites   = regexp.MustCompile(`^\s+(?:async\s+)?def\s+(compute_loss|training_step|concatenated_forward|get_batch_loss_metrics)\s*\(`)
	subclasses = regexp.MustCompile(`^class\s+(\w+)\s*\([^)]*\b\w*Trainer\b[^)]*\)\s*:`)
)

// heldModels are arguments of trl's trainers for models beside the trained one, which their kinds of training count.
var heldModels = []string{"ref_model", "reference_model", "teacher_model", "value_model", "reward_model", "reward_funcs",
	"judge"}

// modelsBeside asks about models that a program loads beside the one that it trains, as distillation does: their
// weights lie on the card too. Not those of another branch, which are assigned to the same name; not those that a
// trainer is handed for its kind of training; not those that are loaded when the training is over.
func (r *reading) modelsBeside(trained decode.Call) {
	lines := strings.Split(string(r.code.Source), "\n")
	name := func(c decode.Call) string {
		if c.Line > len(lines) {
			return ""
		}
		if m := assignsTo.FindStringSubmatch(lines[c.Line-1]); m != nil {
			return m[1]
		}
		return ""
	}
	over := len(lines) + 1
	for i, l := range lines {
		if trainsNow.MatchString(l) {
			over = i + 1
			break
		}
	}
	own, handed := name(trained), r.handedModels()
	for _, c := range r.code.Calls {
		if !loadsModel.MatchString(c.Name) || loadsAdapters.MatchString(c.Name) || c.Line == trained.Line ||
			c.Line > over {
			continue
		}
		other := name(c)
		if other == own || other != "" && handed[other] {
			continue
		}
		which := c.Name
		if len(c.Position) > 0 {
			which = c.Position[0].Text
		}
		for _, key := range []string{"model_name", "pretrained_model_name_or_path"} {
			if v, ok := c.Keywords.Peek(key); ok {
				which = v.Text
			}
		}
		at := setting.Span{File: r.code.File, Line: c.Line}
		r.d.ask("/reserve_bytes", "How many bytes does the model of "+clip(which)+" take beside the trained one?",
			where(at)+": "+c.Name+" loads it and is not what is trained")
	}
}

// handedModels are the names that the trainer is handed for what its kind of training holds.
func (r *reading) handedModels() map[string]bool {
	names := map[string]bool{}
	for _, c := range r.code.Calls {
		if !strings.HasSuffix(c.Name, "Trainer") {
			continue
		}
		for _, key := range heldModels {
			if v, ok := c.Keywords.Peek(key); ok {
				for _, n := range className.FindAllString(v.Text, -1) {
					names[n] = true
				}
			}
		}
		if trlKinds[strings.ToLower(strings.TrimSuffix(c.Name, "Trainer"))].reference && len(c.Position) > 1 {
			names[c.Position[1].Text] = true
		}
	}
	return names
}

// ownSteps doubts a program whose trainer computes its loss itself.
func (r *reading) ownSteps() {
	class := ""
	for i, l := range strings.Split(string(r.code.Source), "\n") {
		switch m := rewrites.FindStringSubmatch(l); {
		case m != nil && class != "":
			r.d.uncertain("/training", "what %s.%s keeps (%s) is not in the answer, which is of the library's own step", class,
				m[1], where(setting.Span{File: r.code.File, Line: i + 1}))
		case l != "" && l[0] != ' ' && l[0] != '\t' && l[0] != '#' && l[0] != ')':
			class = ""
			if m := subclasses.FindStringSubmatch(l); m != nil {
				class = m[1]
			}
		}
	}
}
