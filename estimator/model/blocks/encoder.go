package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// What the text encoders of transformers share around their layers.

// EncoderBatch is input_ids, an all-ones attention_mask and labels: one a token, one a sequence for a classifier, or
// the two ends of an answer.
func EncoderBatch(t *step.Tape, a *arch.Architecture) []step.T {
	if a.Class == arch.ClassQuestions {
		ids, mask := t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)
		return []step.T{ids, mask, t.Input(t.Shape.Batch, step.I64), t.Input(t.Shape.Batch, step.I64)}
	}
	if a.Class == arch.ClassChoices {
		ids, mask := t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)
		return []step.T{ids, mask, t.Input(questions(a, t), step.I64)}
	}
	if a.Class != arch.ClassClassification {
		return BatchWithMask(t)
	}
	d := step.I64
	if a.Labels == 1 {
		d = step.F32 // a regression
	}
	n := t.Shape.N()
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(t.Shape.Batch, d)}
}

// EncoderMask is the extended attention mask: for sdpa a look at the all-ones mask, after which there is none, and for
// eager an additive one that is broadcast over heads and queries.
// Sources: transformers/modeling_attn_mask_utils.py (_prepare_4d_attention_mask_for_sdpa), modeling_utils.py
// (get_extended_attention_mask), 4.57; transformers/masking_utils.py (create_bidirectional_mask), 5.23.
func EncoderMask(t *step.Tape, embedded step.DType) *step.T {
	n := t.Shape.N()
	if t.Recipe.Software.Has(MasksByLibrary) {
		return CrossedMask(t, t.Shape.Tokens, embedded)
	}
	if t.Recipe.Attention != step.AttentionEager {
		ones := t.Input(n, step.Bool)
		all := t.Input(1, step.Bool)
		t.Drop(all, ones)
		if t.Recipe.ExplicitMask {
			return ExpandedMask(t, embedded)
		}
		return nil
	}
	mask := t.Input(n, t.Recipe.Stored)
	inverted := t.Input(n, t.Recipe.Stored)
	extended := t.Input(n, t.Recipe.Stored)
	t.Drop(mask, inverted)
	return &extended
}

// CrossedMask is create_bidirectional_mask for so many queries: a look at the mask, and where some tokens are padding a
// mask for every query, boolean for sdpa and additive in d for eager attention. It returns nil where there is none.
// Source: transformers/masking_utils.py (sdpa_mask, eager_mask, _ignore_bidirectional_mask_sdpa), 5.23.
func CrossedMask(t *step.Tape, queries int64, d step.DType) *step.T {
	b, n := t.Shape.Batch, t.Shape.Tokens
	given := t.Input(b*n, step.Bool)
	t.Drop(t.Input(1, step.Bool))
	if !t.Recipe.ExplicitMask {
		t.Drop(given)
		return nil
	}
	indices := [...]step.T{t.Input(b, step.I64), t.Input(1, step.I64), PositionNumbersOf(t, queries),
		PositionNumbers(t)}
	one := t.Input(1, step.Bool)
	all := t.Input(queries, step.Bool)
	valid := t.Input(queries, step.Bool)
	t.Drop(all, one)
	padding := PaddingOfKeys(t, n)
	mask := t.Input(b*queries*n, step.Bool)
	t.Drop(padding, valid)
	for _, index := range indices {
		t.Drop(index)
	}
	if t.Recipe.Attention == step.AttentionEager {
		mask = Additive(t, mask, d)
	}
	t.Drop(given)
	return &mask
}

// PaddingOfKeys looks the given mask up for every sequence and each of n keys.
func PaddingOfKeys(t *step.Tape, n int64) step.T {
	b := t.Shape.Batch
	j := t.Input(b*n, step.I64)
	i := j
	if b > 1 { // one index needs no copy to have the shape of the result
		i = t.Input(b*n, step.I64)
	} else {
		t.Hold(i)
	}
	padding := t.Input(b*n, step.Bool)
	t.Drop(j, i)
	return padding
}

// Additive is torch.where(mask, 0, the least number of d). It takes over mask.
func Additive(t *step.Tape, mask step.T, d step.DType) step.T {
	zero, least := t.Input(1, d), t.Input(1, d)
	y := t.Input(mask.Numel(), d)
	t.Drop(zero, least, mask)
	return y
}

// ExpandedMask is AttentionMaskConverter._expand_mask: an additive mask for every query of every sequence.
func ExpandedMask(t *step.Tape, d step.DType) *step.T { return ExpandedMaskOf(t, t.Shape.Tokens, d) }

// ExpandedMaskOf is the same for so many queries.
func ExpandedMaskOf(t *step.Tape, queries int64, d step.DType) *step.T {
	n := t.Shape.N() * queries
	expanded := t.Input(n, d)
	inverted := t.Input(n, d)
	where := t.Input(n, step.Bool)
	mask := t.Input(n, d)
	t.Drop(where, expanded, inverted)
	return &mask
}

// RunEncoder takes over x and runs n layers on it. A layer may return the attention's probabilities, too; the loop's
// variable for a layer's outputs holds them until the next layer has run.
func RunEncoder(t *step.Tape, a *arch.Architecture, n int, x step.T, besides step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) step.T {
	x, held := RunEncoderHolding(t, a, n, x, besides, layer)
	t.Drop(held)
	return x
}

// RunEncoderHolding is RunEncoder inside a function that goes on: it also returns what the loop's variable still holds.
func RunEncoderHolding(t *step.Tape, a *arch.Architecture, n int, x step.T, besides step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) (y, held step.T) {
	unit := int(a.UnitLayers())
	held = step.NoTensor
	for i := range n {
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T { return layer(t, i, x) }, besides)
		probabilities, ok := t.Second()
		t.Drop(held)
		if held = step.NoTensor; ok {
			held = probabilities
		}
	}
	t.EndLayers()
	return x, held
}

// ClassificationLoss is the loss that PretrainedConfig.problem_type is set to: cross-entropy, or a squared error for
// one label.
func ClassificationLoss(t *step.Tape, a *arch.Architecture, logits, labels step.T) (loss step.T, outputs []step.T) {
	if a.Labels == 1 {
		loss = t.SquaredError(logits, labels)
	} else {
		loss = t.CrossEntropy(logits, labels)
	}
	return loss, []step.T{logits, t.Hold(loss)}
}

// questions is how many questions of multiple choice a batch has.
func questions(a *arch.Architecture, t *step.Tape) int64 { return t.Shape.Batch / max(a.Choices, 1) }

// ClassesOrChoices is the loss of a classifier's logits, or of those of the answers of every question.
func ClassesOrChoices(t *step.Tape, a *arch.Architecture, logits, labels step.T) (loss step.T, outputs []step.T) {
	if a.Class != arch.ClassChoices {
		return ClassificationLoss(t, a, logits, labels)
	}
	loss = t.CrossEntropy(logits, labels)
	return loss, []step.T{logits, t.Hold(loss)}
}

// Outputs is how many numbers a classifier gives each sequence: one where they are answers of a question.
func Outputs(a *arch.Architecture) int64 {
	if a.Class == arch.ClassChoices {
		return 1
	}
	return a.Labels
}

// BaseLoss trains a model without a head: the mean of the pooled output, or of the last hidden states where there is
// none.
func BaseLoss(t *step.Tape, x step.T, pooled *step.T) (step.T, []step.T) {
	outputs := []step.T{t.Hold(x)}
	if t.Embeds() {
		return step.NoTensor, outputs
	}
	last := x
	if pooled != nil {
		outputs = append(outputs, t.Hold(*pooled))
		last = *pooled
	}
	loss := t.MeanLoss(last)
	return loss, append(outputs, t.Hold(loss))
}

// MaskedHead is BertOnlyMLMHead: a layer, an activation and a norm, then the vocabulary, tied to the embedding, with a
// bias of its own.
type MaskedHead struct {
	Dense      arch.Linear
	Activation string
	Norm       arch.Norm
	Out        arch.Linear // onto the words
}

// MaskedNames are what a head for masked words calls its modules.
type MaskedNames struct{ Dense, Norm, Out string }

// BuildMaskedHead declares the head for masked words.
func BuildMaskedHead(b *arch.Builder, words func() step.Weight, names MaskedNames) MaskedHead {
	h := ProjectorHead(b, words, names)
	OwnBias(b, h, h.Dense.W)
	return h
}

// ProjectorHead is MaskedHead whose bias is that of the last layer alone.
func ProjectorHead(b *arch.Builder, words func() step.Weight, names MaskedNames) MaskedHead {
	d := b.A.Hidden
	return MaskedHead{Dense: b.Linear(names.Dense, d, d, true), Activation: b.A.Activation,
		Norm: b.Norm(names.Norm, d, true), Out: b.OntoWords(names.Out, words, d, true)}
}

// untiesBias leaves the bias of a head for masked words beside that of its last layer where weights are not tied.
var untiesBias = release.Declare("unties-bias", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "where weights are not tied, transformers 5 has two biases in the head for masked words of BERT, " +
		"RoBERTa, ALBERT and DeBERTa, of which one has no use",
	Source: "modeling_utils.py (_tied_weights_keys, tie_weights), 4.57.6, 5.0.0 and 5.23.0",
	Shown:  "traces of ALBERT, BERT and DeBERTa whose head is not tied",
})

// OwnBias says that the bias of the layer onto the vocabulary is registered as that of the head's own, too, in front of
// first. Where nothing is tied, later releases leave that one without a use.
func OwnBias(b *arch.Builder, h MaskedHead, first step.Weight) {
	bias := h.Out.B
	if !b.A.Tied && b.A.Software.Has(untiesBias) {
		bias = b.Bias("bias", b.A.Vocabulary)
		b.P.List[bias.Index].Unreached = true
	}
	b.Ahead(bias, first)
}

// logits borrows x.
func (h MaskedHead) logits(t *step.Tape, x step.T) step.T {
	t.In(step.PartMLP)
	dense := h.Dense.Forward(t, x)
	act := arch.Activation(t, h.Activation, dense)
	t.Drop(dense)
	normed := h.Norm.Layer(t, act)
	t.Drop(act)
	logits := h.Out.Logits(t, normed)
	t.Drop(normed)
	return logits
}

// Loss is a cross-entropy of the logits, or the causal loss where the class is that of a language model.
func (h MaskedHead) Loss(t *step.Tape, a *arch.Architecture, x, labels step.T) (step.T, []step.T) {
	logits := h.logits(t, x)
	var loss step.T
	if a.Class == arch.ClassMaskedLM {
		loss = t.CrossEntropy(logits, labels)
	} else {
		loss = t.CausalLMLoss(logits, labels)
	}
	return loss, []step.T{logits, t.Hold(loss)}
}
