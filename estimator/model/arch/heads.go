package arch

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// What a model is trained for decides the class that stands on top of it. These are the ends of the names of the
// classes of transformers.
const (
	ClassCausalLM       = "ForCausalLM"
	ClassLMHead         = "LMHeadModel"
	ClassMaskedLM       = "ForMaskedLM"
	ClassClassification = "ForSequenceClassification"
	ClassTokens         = "ForTokenClassification"
	ClassQuestions      = "ForQuestionAnswering"
	ClassChoices        = "ForMultipleChoice"
	ClassBase           = "Model"
)

// headClasses are the classes of each kind of head; families have some of them.
var headClasses = map[string][]string{
	"language-model": {ClassCausalLM, ClassLMHead, ClassConditional},
	"masked-lm":      {ClassMaskedLM},
	"classification": {ClassClassification, "ForImageClassification"},
	// one class a token, and the two ends of an answer
	"token-classification": {ClassTokens},
	"question-answering":   {ClassQuestions},
	"multiple-choice":      {ClassChoices},
	"none":                 {ClassBase},
}

// headKinds are the kinds of heads in the order in which they are listed.
var headKinds = []string{"language-model", "masked-lm", "classification", "token-classification", "question-answering",
	"multiple-choice", "none"}

// classNames are the classes of f that are modelled.
func (f *Family) classNames() []string {
	if f.Classes == nil {
		return causalLM
	}
	return f.Classes
}

// Class finds the first of names among the classes of f.
func (f *Family) Class(names ...string) (string, bool) {
	for _, have := range f.classNames() {
		for _, name := range names {
			if have == name {
				return have, true
			}
		}
	}
	return "", false
}

// maxChoices bounds how many answers a question has.
const maxChoices = 1 << 20

// SetHead puts the head that a job asks for on the model. An empty kind leaves the one that the model comes with.
func (a *Architecture) SetHead(h *Head, pointer string, errs *invalid.List) {
	if a.Described == nil {
		return
	}
	if h != nil {
		a.setHead(h, pointer, errs)
	}
	if a.Class == ClassChoices && a.Choices == 0 && errs.Err() == nil {
		errs.Add(pointer+"/choices", "required", "a model for multiple choice reads every answer of a question as a "+
			"sequence; how many there are is said by choices, and in no config.json")
	}
}

func (a *Architecture) setHead(h *Head, pointer string, errs *invalid.List) {
	if h.Kind != "" {
		class, ok := a.Described.Class(headClasses[h.Kind]...)
		if !ok {
			errs.Add(pointer+"/kind", "unsupported", "the head %.40q is not modelled for %s; %s", h.Kind, a.Family,
				a.Described.kinds())
			return
		}
		a.Class = class
		a.Pooled = a.Described.Pools(class)
		if a.Labels == 0 && a.Classes() {
			a.Labels = 2
		}
	}
	if h.Labels > 0 {
		a.Labels = h.Labels
		switch a.Class {
		case ClassClassification, ClassTokens:
		case ClassImage:
			a.Vocabulary = a.Labels
		default:
			errs.Add(pointer+"/labels", "conflict", "labels belong to the heads \"classification\" and "+
				"\"token-classification\"")
		}
	}
	switch {
	case h.Choices == 0:
	case a.Class != ClassChoices:
		errs.Add(pointer+"/choices", "conflict", "choices belong to the head \"multiple-choice\"")
	case h.Choices > maxChoices:
		errs.Add(pointer+"/choices", "out_of_range", "choices is %d; it is from 1 to %d", h.Choices, maxChoices)
	default:
		a.Choices = h.Choices
	}
	if p := h.Pooler; p != nil && *p != a.Pooled {
		if a.Class != ClassBase || !a.Described.Pools(ClassBase) {
			errs.Add(pointer+"/pooler", "unsupported", "whether %s has a pooler follows from its head; leave it out",
				a.Family)
			return
		}
		a.Pooled = *p
	}
}

// Logits describes the outputs of the model that a loss is computed of, for a batch of sequences of so many tokens.
func (a *Architecture) Logits(batch, tokens int64) string {
	switch {
	case a.Described != nil && a.Described.Logits != nil:
		return a.Described.Logits(batch)
	case a.Class == ClassClassification || a.Class == ClassImage:
		return fmt.Sprintf("%d × %d labels", batch, a.Labels)
	case a.Class == ClassChoices:
		return fmt.Sprintf("%d questions × %d answers", batch/max(a.Choices, 1), a.Choices)
	case a.Class == ClassTokens:
		return fmt.Sprintf("%d × %d tokens × %d labels", batch, tokens, a.Labels)
	case a.Class == ClassQuestions:
		return fmt.Sprintf("%d × %d tokens × 2, the start and the end of an answer", batch, tokens)
	case a.Class == ClassBase:
		return fmt.Sprintf("%d × %d tokens × %d, the output itself", batch, tokens, a.Hidden)
	}
	return ""
}

// kinds lists the heads that f has, for an error.
func (f *Family) kinds() string {
	var have []string
	for _, kind := range headKinds {
		if _, ok := f.Class(headClasses[kind]...); ok {
			have = append(have, kind)
		}
	}
	if len(have) == 0 {
		return "it comes with its own; leave head out"
	}
	return "modelled: " + strings.Join(have, ", ")
}

// Pools says whether class has a pooler.
func (f *Family) Pools(class string) bool {
	for _, c := range f.Pooled {
		if c == class {
			return true
		}
	}
	return false
}

// ClassConditional is the class of an encoder with a decoder.
const ClassConditional = "ForConditionalGeneration"

// ClassImage is the class of pictures.
const ClassImage = "ForImageClassification"

// ClassifyingLM are the classes of decoders with both heads, ScoringLM of those with the one for sequences.
var (
	ClassifyingLM = []string{ClassCausalLM, ClassLMHead, ClassClassification, ClassTokens}
	ScoringLM     = []string{ClassCausalLM, ClassLMHead, ClassClassification}
)

// Classes says whether the model gives classes instead of words.
func (a *Architecture) Classes() bool {
	return a.Class == ClassClassification || a.Class == ClassTokens
}

// classesOfDecoder says whether the model is a decoder that gives classes instead of words.
func (a *Architecture) classesOfDecoder() bool {
	if a.Described == nil || !a.Classes() {
		return false
	}
	_, causal := a.Described.Class(ClassCausalLM)
	_, masked := a.Described.Class(ClassMaskedLM) // an encoder, of which some have a class for each
	return causal && !masked
}

// Scores says whether the model is a decoder that gives every sequence its classes.
func (a *Architecture) Scores() bool {
	return a.Class == ClassClassification && a.classesOfDecoder()
}

// Score puts a score of one label in the place of the head, or of more of them.
func (a *Architecture) Score() {
	if a.Scores() {
		a.Class = ClassCausalLM
	}
	a.Scored = true
}

// scoreDropout is that of GenericForTokenClassification: classifier_dropout, else hidden_dropout, else 0.1.
func (c *Config) scoreDropout() float64 {
	for _, key := range [...]string{"classifier_dropout", "hidden_dropout"} {
		if _, ok := c.Value(key); ok {
			return c.Probability(key)
		}
	}
	return defaultScoreDropout
}

const defaultScoreDropout = 0.1

// Labels is the number of classes: as many as have a name, else num_labels, which is 2 unless it is given.
// Source: transformers/configuration_utils.py (PretrainedConfig), 4.57.
func (c *Config) Labels() int64 {
	if names, ok := c.Given["id2label"].(map[string]any); ok && len(names) > 0 {
		return int64(len(names))
	}
	if _, ok := c.Value("num_labels"); !ok {
		return 2
	}
	return c.Integer("num_labels", MaxRows)
}

// causalLM are the classes of decoders.
var causalLM = []string{ClassCausalLM, ClassLMHead}
