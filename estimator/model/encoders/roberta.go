package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// RobertaFamily is RoBERTa.
var RobertaFamily = likeRoBERTa("roberta", 50265, buildRoBERTa)

// likeRoBERTa is a family that is written like RoBERTa, of so many words unless a file says otherwise.
func likeRoBERTa(modelType string, words float64, build func(b *arch.Builder) step.Network) arch.Family {
	return arch.Family{
		ModelType: modelType,
		Keys:      arch.CommonKeys,
		Classes: []string{arch.ClassCausalLM, arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens,
			arch.ClassQuestions,
			arch.ClassChoices, arch.ClassBase},
		Pooled: []string{arch.ClassChoices, arch.ClassBase},
		Defaults: map[string]any{
			"vocab_size": words, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
			"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
			"attention_probs_dropout_prob": 0.1,
			"max_position_embeddings":      512.0, "type_vocab_size": 2.0, "position_embedding_type": "absolute",
			"pad_token_id":        1.0,
			"tie_word_embeddings": true},
		Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
			a, o := readBERT(c, a)
			o.PositionsLast = true
			a.Own = o
			padding := padding(c, &a)
			if a.MaxPositions = o.PositionRows - padding - 1; a.MaxPositions < 1 && o.PositionRows > 0 {
				c.Errs.Add(c.Pointer+"/max_position_embeddings", "out_of_range",
					"max_position_embeddings is %d; positions begin behind pad_token_id %d", o.PositionRows, padding)
			}
			a.Pooled = a.Described.Pools(a.Class)
			return a
		},
		Spelled: bertSpelled, Numbers: bertNumbers,
		Build: build,
	}
}

// robertaPadding is the id of the padding token, behind which the positions begin.
const robertaPadding = 1

// padding is pad_token_id, which is a row of the table of words.
func padding(c *arch.Config, a *arch.Architecture) int64 {
	if v, _ := c.Value("pad_token_id"); v == 0.0 {
		return 0
	}
	return c.Integer("pad_token_id", float64(max(a.Vocabulary-1, 1)))
}

// buildRoBERTa is transformers' RobertaModel with a head: BERT, but for the positions and the heads
// (modeling_roberta.py, 4.57).
func buildRoBERTa(b *arch.Builder) step.Network {
	m := bertModel(b)
	robertaHead(b, m, func() step.Weight { return m.words })
	return m
}

// robertaHead declares the head of m; words is what declares the table of words, or has.
func robertaHead(b *arch.Builder, m *bert, words func() step.Weight) {
	d := b.A.Hidden
	m.positionIDs = countedPositions
	switch b.A.Class {
	case arch.ClassClassification:
		h := classificationHead{a: b.A, dense: b.Linear("classifier.dense", d, d, true),
			out: b.Linear("classifier.out_proj", d, b.A.Labels, true)}
		m.classify = h.logits
	case arch.ClassChoices:
		m.classify = pooledClassifier(b, b.A.ResidualDropout)
	case arch.ClassMaskedLM, arch.ClassCausalLM:
		m.masked = blocks.BuildMaskedHead(b, words,
			blocks.MaskedNames{Dense: "lm_head.dense", Norm: "lm_head.layer_norm", Out: "lm_head.decoder"})
		m.masked.Activation = "gelu"
	case arch.ClassTokens:
		m.tokens = blocks.BuildTokenHead(b, headDropout(b.A))
	case arch.ClassQuestions:
		m.tokens = blocks.BuildTokenHead(b, 0)
	}
}

// countedPositions is create_position_ids_from_input_ids: tokens that are no padding, counted in 32-bit integers.
func countedPositions(t *step.Tape, ids step.T) step.T {
	n := ids.Numel()
	in := func(bytes int64) step.T { return t.Input(bytes, step.Bool) }
	given := in(n)
	mask := in(4 * n)
	t.Drop(given)
	counted := t.WideningSum(ids)
	narrow := in(4 * n)
	t.Drop(counted)
	shifted := in(4 * n)
	t.Drop(narrow)
	masked := in(4 * n)
	t.Drop(shifted)
	wide := in(8 * n)
	positions := t.Input(n, step.I64)
	t.Drop(wide, mask, masked)
	return positions
}

// classificationHead is RobertaClassificationHead: a layer and tanh over the first token, with dropout before each
// of its two layers.
type classificationHead struct {
	a          *arch.Architecture
	dense, out arch.Linear
	// activate is what stands in the place of tanh, nil for that.
	activate func(t *step.Tape, x step.T) step.T
}

func (h classificationHead) logits(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
	t.In(step.PartMLP)
	first := t.FirstToken(x, h.a.Hidden)
	dropped := t.Dropout(first, headDropout(h.a))
	t.Drop(first)
	dense := h.dense.Forward(t, dropped)
	t.Drop(dropped)
	var act step.T
	if h.activate != nil {
		act = h.activate(t, dense)
	} else {
		act = t.Tanh(dense, step.LabelActivation)
	}
	t.Drop(dense)
	again := t.Dropout(act, headDropout(h.a))
	t.Drop(act)
	logits = h.out.Forward(t, again)
	t.Drop(again)
	return logits, t.Buffered(0, step.F32)
}
