package model

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// What a model is trained for decides the class that stands on top of it. These are the ends of the names of the
// classes of transformers.
const (
	classCausalLM       = "ForCausalLM"
	classLMHead         = "LMHeadModel"
	classMaskedLM       = "ForMaskedLM"
	classClassification = "ForSequenceClassification"
	classTokens         = "ForTokenClassification"
	classQuestions      = "ForQuestionAnswering"
	classChoices        = "ForMultipleChoice"
	classBase           = "Model"
)

// headClasses are the classes of each kind of head; families have some of them.
var headClasses = map[string][]string{
	"language-model": {classCausalLM, classLMHead, classConditional},
	"masked-lm":      {classMaskedLM},
	"classification": {classClassification, "ForImageClassification"},
	// one class a token, and the two ends of an answer
	"token-classification": {classTokens},
	"question-answering":   {classQuestions},
	"multiple-choice":      {classChoices},
	"none":                 {classBase},
}

// headKinds are the kinds of heads in the order in which they are listed.
var headKinds = []string{"language-model", "masked-lm", "classification", "token-classification", "question-answering",
	"multiple-choice", "none"}

// classNames are the classes of f that are modelled.
func (f *family) classNames() []string {
	if f.classes == nil {
		return causalLM
	}
	return f.classes
}

// class finds the first of names among the classes of f.
func (f *family) class(names ...string) (string, bool) {
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
	if a.family == nil {
		return
	}
	if h != nil {
		a.setHead(h, pointer, errs)
	}
	if a.Class == classChoices && a.Choices == 0 && errs.Err() == nil {
		errs.Add(pointer+"/choices", "required", "a model for multiple choice reads every answer of a question as a "+
			"sequence; how many there are is said by choices, and in no config.json")
	}
}

func (a *Architecture) setHead(h *Head, pointer string, errs *invalid.List) {
	if h.Kind != "" {
		class, ok := a.family.class(headClasses[h.Kind]...)
		if !ok {
			errs.Add(pointer+"/kind", "unsupported", "the head %.40q is not modelled for %s; %s", h.Kind, a.Family,
				a.family.kinds())
			return
		}
		a.Class = class
		a.Pooled = a.family.pools(class)
		if a.Labels == 0 && a.classes() {
			a.Labels = 2
		}
	}
	if h.Labels > 0 {
		a.Labels = h.Labels
		switch a.Class {
		case classClassification, classTokens:
		case classImage:
			a.Vocabulary = a.Labels
		default:
			errs.Add(pointer+"/labels", "conflict", "labels belong to the heads \"classification\" and "+
				"\"token-classification\"")
		}
	}
	switch {
	case h.Choices == 0:
	case a.Class != classChoices:
		errs.Add(pointer+"/choices", "conflict", "choices belong to the head \"multiple-choice\"")
	case h.Choices > maxChoices:
		errs.Add(pointer+"/choices", "out_of_range", "choices is %d; it is from 1 to %d", h.Choices, maxChoices)
	default:
		a.Choices = h.Choices
	}
	if p := h.Pooler; p != nil && *p != a.Pooled {
		if a.Class != classBase || !a.family.pools(classBase) {
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
	case a.family != nil && a.family.logits != nil:
		return a.family.logits(batch)
	case a.Class == classClassification || a.Class == classImage:
		return fmt.Sprintf("%d × %d labels", batch, a.Labels)
	case a.Class == classChoices:
		return fmt.Sprintf("%d questions × %d answers", batch/max(a.Choices, 1), a.Choices)
	case a.Class == classTokens:
		return fmt.Sprintf("%d × %d tokens × %d labels", batch, tokens, a.Labels)
	case a.Class == classQuestions:
		return fmt.Sprintf("%d × %d tokens × 2, the start and the end of an answer", batch, tokens)
	case a.Class == classBase:
		return fmt.Sprintf("%d × %d tokens × %d, the output itself", batch, tokens, a.Hidden)
	}
	return ""
}

// kinds lists the heads that f has, for an error.
func (f *family) kinds() string {
	var have []string
	for _, kind := range headKinds {
		if _, ok := f.class(headClasses[kind]...); ok {
			have = append(have, kind)
		}
	}
	if len(have) == 0 {
		return "it comes with its own; leave head out"
	}
	return "modelled: " + strings.Join(have, ", ")
}

// pools says whether class has a pooler.
func (f *family) pools(class string) bool {
	for _, c := range f.pooled {
		if c == class {
			return true
		}
	}
	return false
}

// classConditional is the class of an encoder with a decoder.
const classConditional = "ForConditionalGeneration"

const classImage = "ForImageClassification"

// classifyingLM are the classes of decoders with both heads, scoringLM of those with the one for sequences.
var (
	classifyingLM = []string{classCausalLM, classLMHead, classClassification, classTokens}
	scoringLM     = []string{classCausalLM, classLMHead, classClassification}
)

// classes says whether the model gives classes instead of words.
func (a *Architecture) classes() bool {
	return a.Class == classClassification || a.Class == classTokens
}

// classesOfDecoder says whether the model is a decoder that gives classes instead of words.
func (a *Architecture) classesOfDecoder() bool {
	if a.family == nil || !a.classes() {
		return false
	}
	_, causal := a.family.class(classCausalLM)
	_, masked := a.family.class(classMaskedLM) // an encoder, of which some have a class for each
	return causal && !masked
}

// Scores says whether the model is a decoder that gives every sequence its classes.
func (a *Architecture) Scores() bool {
	return a.Class == classClassification && a.classesOfDecoder()
}

// Score puts a score of one label in the place of the head, or of more of them.
func (a *Architecture) Score() {
	if a.Scores() {
		a.Class = classCausalLM
	}
	a.Scored = true
}

// scoreDropout is that of GenericForTokenClassification: classifier_dropout, else hidden_dropout, else 0.1.
func (c *config) scoreDropout() float64 {
	for _, key := range [...]string{"classifier_dropout", "hidden_dropout"} {
		if _, ok := c.value(key); ok {
			return c.probability(key)
		}
	}
	return defaultScoreDropout
}

const defaultScoreDropout = 0.1

// labels is the number of classes: as many as have a name, else num_labels, which is 2 unless it is given.
// Source: transformers/configuration_utils.py (PretrainedConfig), 4.57.
func (c *config) labels() int64 {
	if names, ok := c.given["id2label"].(map[string]any); ok && len(names) > 0 {
		return int64(len(names))
	}
	if _, ok := c.value("num_labels"); !ok {
		return 2
	}
	return c.integer("num_labels", maxRows)
}

// causalLM are the classes of decoders.
var causalLM = []string{classCausalLM, classLMHead}
