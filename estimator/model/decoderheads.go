package model

import "github.com/vramplan/vramplan/estimator/step"

// The heads for classes that decoders have of modeling_layers.py: GenericForSequenceClassification, whose score of the
// last token is what reward models are trained with, and GenericForTokenClassification.

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

// score declares the head for classes, which has a bias where every token gets one.
func (b *builder) score() linear {
	var m linear
	m.w, m.b = b.pair("score", b.a.Labels, b.a.Hidden, b.a.Class == classTokens)
	return m
}

// classify is what stands on a decoder whose output is x. It takes over x.
// Source: transformers/modeling_layers.py and loss/loss_utils.py, 4.57 and 5.23.
func (m *decoder) classify(t *step.Tape, x, labels step.T) (loss step.T, outputs []step.T) {
	if m.a.Class == classTokens {
		input := t.Dropout(x, m.a.ScoreDropout)
		logits := t.CloseSection(step.HeadSection, t.LinearMatrix(input, m.head.w, m.head.b, step.LabelLogits))
		wide := t.FloatLogits(logits)
		loss = t.CrossEntropy(wide, labels)
		t.Drop(wide)
		for _, cached := range m.cache { // the class returns none
			t.Drop(cached)
		}
		m.cache = nil
		t.Drop(input, x)
		return loss, []step.T{logits, t.Hold(loss)}
	}
	logits := t.CloseSection(step.HeadSection, t.LinearMatrix(x, m.head.w, m.head.b, step.LabelLogits))
	tokens, numbers, last := m.lastTokens(t)
	rows := t.Input(t.Shape.Batch, step.I64)
	pooled := t.PickTokens(logits, m.a.Labels, rows, last)
	t.Drop(rows)
	loss, outputs = classificationLoss(t, m.a, pooled, labels)
	t.Drop(x, logits, tokens, numbers, last)
	return loss, outputs
}

// lastTokens finds the rightmost token of every sequence that is no padding: which are none and their places, in 32
// bits, and the greatest product of the two.
func (m *decoder) lastTokens(t *step.Tape) (tokens, numbers, last step.T) {
	n := t.Shape.N()
	differ := t.Input(n, step.Bool)
	tokens = t.Input(n, step.F32) // of four bytes, as the 32-bit integers are
	t.Drop(differ)
	numbers = t.Input(t.Shape.Tokens, step.F32)
	product := t.Input(n, step.F32)
	last = t.Input(t.Shape.Batch, step.I64)
	t.Drop(product)
	return tokens, numbers, last
}
