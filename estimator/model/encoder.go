package model

import "github.com/vramplan/vramplan/estimator/step"

// What the text encoders of transformers share around their layers.

// encoderBatch is input_ids, an all-ones attention_mask and labels: one a token, one a sequence for a classifier, or
// the two ends of an answer.
func encoderBatch(t *step.Tape, a *Architecture) []step.T {
	if a.Class == classQuestions {
		ids, mask := t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)
		return []step.T{ids, mask, t.Input(t.Shape.Batch, step.I64), t.Input(t.Shape.Batch, step.I64)}
	}
	if a.Class == classChoices {
		ids, mask := t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)
		return []step.T{ids, mask, t.Input(a.questions(t), step.I64)}
	}
	if a.Class != classClassification {
		return batchWithMask(t)
	}
	d := step.I64
	if a.Labels == 1 {
		d = step.F32 // a regression
	}
	n := t.Shape.N()
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(t.Shape.Batch, d)}
}

// encoderMask is the extended attention mask: for sdpa a look at the all-ones mask, after which there is none, and for
// eager an additive one that is broadcast over heads and queries.
// Sources: transformers/modeling_attn_mask_utils.py (_prepare_4d_attention_mask_for_sdpa), modeling_utils.py
// (get_extended_attention_mask), 4.57; transformers/masking_utils.py (create_bidirectional_mask), 5.23.
func encoderMask(t *step.Tape, embedded step.DType) *step.T {
	n := t.Shape.N()
	if t.Recipe.Software.MasksByLibrary {
		return crossedMask(t, t.Shape.Tokens, embedded)
	}
	if t.Recipe.Attention != step.AttentionEager {
		ones := t.Input(n, step.Bool)
		all := t.Input(1, step.Bool)
		t.Drop(all, ones)
		if t.Recipe.ExplicitMask {
			return expandedMask(t, embedded)
		}
		return nil
	}
	mask := t.Input(n, t.Recipe.Stored)
	inverted := t.Input(n, t.Recipe.Stored)
	extended := t.Input(n, t.Recipe.Stored)
	t.Drop(mask, inverted)
	return &extended
}

// crossedMask is create_bidirectional_mask for so many queries: a look at the mask, and where some tokens are padding a
// mask for every query, boolean for sdpa and additive in d for eager attention. It returns nil where there is none.
// Source: transformers/masking_utils.py (sdpa_mask, eager_mask, _ignore_bidirectional_mask_sdpa), 5.23.
func crossedMask(t *step.Tape, queries int64, d step.DType) *step.T {
	b, n := t.Shape.Batch, t.Shape.Tokens
	given := t.Input(b*n, step.Bool)
	t.Drop(t.Input(1, step.Bool))
	if !t.Recipe.ExplicitMask {
		t.Drop(given)
		return nil
	}
	indices := [...]step.T{t.Input(b, step.I64), t.Input(1, step.I64), positionNumbersOf(t, queries),
		positionNumbers(t)}
	one := t.Input(1, step.Bool)
	all := t.Input(queries, step.Bool)
	valid := t.Input(queries, step.Bool)
	t.Drop(all, one)
	padding := paddingOfKeys(t, n)
	mask := t.Input(b*queries*n, step.Bool)
	t.Drop(padding, valid)
	for _, index := range indices {
		t.Drop(index)
	}
	if t.Recipe.Attention == step.AttentionEager {
		mask = additive(t, mask, d)
	}
	t.Drop(given)
	return &mask
}

// paddingOfKeys looks the given mask up for every sequence and each of n keys.
func paddingOfKeys(t *step.Tape, n int64) step.T {
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

// additive is torch.where(mask, 0, the least number of d). It takes over mask.
func additive(t *step.Tape, mask step.T, d step.DType) step.T {
	zero, least := t.Input(1, d), t.Input(1, d)
	y := t.Input(mask.Numel(), d)
	t.Drop(zero, least, mask)
	return y
}

// expandedMask is AttentionMaskConverter._expand_mask: an additive mask for every query of every sequence.
func expandedMask(t *step.Tape, d step.DType) *step.T { return expandedMaskOf(t, t.Shape.Tokens, d) }

// expandedMaskOf is the same for so many queries.
func expandedMaskOf(t *step.Tape, queries int64, d step.DType) *step.T {
	n := t.Shape.N() * queries
	expanded := t.Input(n, d)
	inverted := t.Input(n, d)
	where := t.Input(n, step.Bool)
	mask := t.Input(n, d)
	t.Drop(where, expanded, inverted)
	return &mask
}

// runEncoder takes over x and runs n layers on it. A layer may return the attention's probabilities, too; the loop's
// variable for a layer's outputs holds them until the next layer has run.
func runEncoder(t *step.Tape, a *Architecture, n int, x step.T, besides step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) step.T {
	x, held := runEncoderHolding(t, a, n, x, besides, layer)
	t.Drop(held)
	return x
}

// runEncoderHolding is runEncoder inside a function that goes on: it also returns what the loop's variable still holds.
func runEncoderHolding(t *step.Tape, a *Architecture, n int, x step.T, besides step.Besides,
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

// classificationLoss is the loss that PretrainedConfig.problem_type is set to: cross-entropy, or a squared error for
// one label.
func classificationLoss(t *step.Tape, a *Architecture, logits, labels step.T) (loss step.T, outputs []step.T) {
	if a.Labels == 1 {
		loss = t.SquaredError(logits, labels)
	} else {
		loss = t.CrossEntropy(logits, labels)
	}
	return loss, []step.T{logits, t.Hold(loss)}
}

// questions is how many questions of multiple choice a batch has.
func (a *Architecture) questions(t *step.Tape) int64 { return t.Shape.Batch / max(a.Choices, 1) }

// classesOrChoices is the loss of a classifier's logits, or of those of the answers of every question.
func classesOrChoices(t *step.Tape, a *Architecture, logits, labels step.T) (loss step.T, outputs []step.T) {
	if a.Class != classChoices {
		return classificationLoss(t, a, logits, labels)
	}
	loss = t.CrossEntropy(logits, labels)
	return loss, []step.T{logits, t.Hold(loss)}
}

// outputs is how many numbers a classifier gives each sequence: one where they are answers of a question.
func (a *Architecture) outputs() int64 {
	if a.Class == classChoices {
		return 1
	}
	return a.Labels
}

// baseLoss trains a model without a head: the mean of the pooled output, or of the last hidden states where there is
// none.
func baseLoss(t *step.Tape, x step.T, pooled *step.T) (step.T, []step.T) {
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

// maskedHead is BertOnlyMLMHead: a layer, an activation and a norm, then the vocabulary, tied to the embedding, with a
// bias of its own.
type maskedHead struct {
	dense       linear
	activation  string
	norm        norm
	words, bias step.Weight
}

func (b *builder) maskedHead(words func() step.Weight, prefix string) maskedHead {
	h := b.projectorHead(words, prefix)
	b.ownBias(h, h.dense.w)
	return h
}

// projectorHead is maskedHead whose bias is that of the last layer alone.
func (b *builder) projectorHead(words func() step.Weight, prefix string) maskedHead {
	a, d := b.a, b.a.Hidden
	h := maskedHead{dense: b.linear(prefix+"dense", d, d, true), activation: a.Activation,
		norm: b.norm(prefix+"LayerNorm", d, true)}
	if a.Tied {
		h.words = words()
	} else {
		h.words = b.parameter("decoder.weight", a.Vocabulary, d)
	}
	h.bias = b.parameter("decoder.bias", a.Vocabulary, 1)
	return h
}

// ownBias says that the bias of the layer onto the vocabulary is registered as that of the head's own, too, in front of
// first. Where nothing is tied, later releases leave that one without a use.
func (b *builder) ownBias(h maskedHead, first step.Weight) {
	bias := h.bias
	if !b.a.Tied && b.a.Software.UntiesBias {
		bias = b.parameter("bias", b.a.Vocabulary, 1)
		b.p.List[bias.Index].Unreached = true
	}
	b.ahead(bias, first)
}

// logits borrows x.
func (h maskedHead) logits(t *step.Tape, x step.T) step.T {
	t.In(step.PartMLP)
	dense := h.dense.forward(t, x)
	act := activation(t, h.activation, dense)
	t.Drop(dense)
	normed := h.norm.layer(t, act)
	t.Drop(act)
	logits := t.Head(normed, h.words, h.bias)
	t.Drop(normed)
	return logits
}

// loss is a cross-entropy of the logits, or the causal loss where the class is that of a language model.
func (h maskedHead) loss(t *step.Tape, a *Architecture, x, labels step.T) (step.T, []step.T) {
	logits := h.logits(t, x)
	var loss step.T
	if a.Class == classMaskedLM {
		loss = t.CrossEntropy(logits, labels)
	} else {
		loss = t.CausalLMLoss(logits, labels)
	}
	return loss, []step.T{logits, t.Hold(loss)}
}
