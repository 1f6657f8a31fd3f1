package tool

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Number puts a whole number into a field, asks where it is not known, and reports whether there was a value.
func (r *Job) Number(pointer, ask string, keys ...string) bool {
	v, ok := r.In.Get(keys...)
	if !ok {
		return false
	}
	r.NumberOf(pointer, ask, v)
	return true
}

// NumberOf puts a whole number into a field, or asks where it is not known.
func (r *Job) NumberOf(pointer, ask string, v setting.Value) {
	n, isInt := v.Int()
	if v.Unknown != "" || !isInt || n < 1 {
		why := v.Unknown
		if why == "" {
			why = fmt.Sprintf("%s is %q", v.Origin.Key, v.String())
		}
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.Out.Ask(pointer, ask, why)
		return
	}
	r.Out.Put(pointer, n, v)
}

const (
	AskMicroBatch   = "How many sequences does one GPU take at a time?"
	AskLength       = "How many tokens has a sequence?"
	AskAccumulation = "How many micro-batches make an optimizer step?"
)

// Flag is a switch's value; one that is not there is not given.
func (r *Job) Flag(keys ...string) setting.Value {
	v, _ := r.In.Get(keys...)
	return v
}

// Model reads which model is trained.
func (r *Job) Model(keys ...string) {
	v, ok := r.In.Get(keys...)
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", "nothing names it")
		return
	}
	models.Of(r.Launch, r.Out, v)
}

// Loose takes words, and those that begin with one that ends in "*", for read, and leaves a doubt about each that is
// there, that no reader followed and that says more than no: they move memory in a way that is not replayed.
func (r *Job) Loose(words ...string) {
	table := setting.New()
	table.Still(words...)
	for _, key := range r.In.Rest() {
		v, _ := r.In.Peek(key)
		if !table.IsStill(key) {
			continue
		}
		if n, ok := v.Int(); v.Off() || ok && n == 1 && strings.HasSuffix(key, "_degree") {
			continue
		}
		r.Out.Doubts.Add(draft.Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
			Why: "may change what a GPU holds, and is not followed", Enlarges: true})
		say := v.Origin.Key + " changes nothing that a GPU holds: it is not followed"
		if at := v.Origin.At.Where(); at != "" {
			say = v.Origin.Key + " (" + at + ") changes nothing that a GPU holds: it is not followed"
		}
		r.Out.AssumeOf(draft.Assumption{Say: say, Uncertain: true, Tainted: true})
	}
	r.In.Read(words...)
}

// objectives are kinds of training beside fine-tuning and pretraining, by the words of programs and files.
var objectives = regexp.MustCompile(`(?i)(^|[^a-z])(dpo|grpo|ppo|orpo|kto|simpo|cpo|rloo|ipo|bco|nash_md|xpo|gkd|prm|online_dpo|reinforce|rlhf|rft|reward|reward_model(?:ing)?|rm|distill\w*|embedding|reranker)([^a-z]|$)`)

// ObjectiveOf names the kind of training in a program's name, or "".
func ObjectiveOf(name string) string {
	m := objectives.FindStringSubmatch(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	if m == nil || strings.HasPrefix(strings.ToLower(m[2]), "distill") {
		return ""
	}
	return strings.ToLower(m[2])
}

// RefuseObjective refuses a kind of training by its name.
func (r *Job) RefuseObjective(name string, at setting.Span) {
	r.Out.Refuse("objective", at, "%s is another kind of training than the next token's loss: what it holds besides the "+
		"trained model (a reference, rewards, generation) cannot be told from these files", strings.ToUpper(name))
}

// StrangeAt notes code at a place; where nobody knows the place it is the command's.
func (r *Job) StrangeAt(at setting.Span, word, why string) {
	if !at.Known() {
		at = r.At
	}
	r.Out.Strange = append(r.Out.Strange, draft.Doubt{File: at.File, Line: at.Line, Word: word, Why: why})
}
