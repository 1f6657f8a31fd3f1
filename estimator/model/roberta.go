package model

import "github.com/vramplan/vramplan/estimator/step"

var robertaFamily = likeRoBERTa("roberta", 50265, buildRoBERTa)

// likeRoBERTa is a family that is written like RoBERTa, of so many words unless a file says otherwise.
func likeRoBERTa(modelType string, words float64, build func(b *builder) step.Network) family {
	return family{
		modelType: modelType,
		keys:      commonKeys,
		classes: []string{classCausalLM, classMaskedLM, classClassification, classTokens, classQuestions,
			classChoices, classBase},
		pooled: []string{classChoices, classBase},
		defaults: map[string]any{
			"vocab_size": words, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
			"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
			"attention_probs_dropout_prob": 0.1,
			"max_position_embeddings":      512.0, "type_vocab_size": 2.0, "position_embedding_type": "absolute",
			"pad_token_id":        1.0,
			"tie_word_embeddings": true},
		read: func(c *config, a *Architecture) {
			o := c.bert(a)
			o.positionsLast = true
			a.own = o
			padding := c.padding(a)
			if a.MaxPositions = o.positionRows - padding - 1; a.MaxPositions < 1 && o.positionRows > 0 {
				c.errs.Add(c.pointer+"/max_position_embeddings", "out_of_range",
					"max_position_embeddings is %d; positions begin behind pad_token_id %d", o.positionRows, padding)
			}
			a.Pooled = a.family.pools(a.Class)
		},
		spelled: bertSpelled, numbers: bertNumbers,
		build: build,
	}
}

// robertaPadding is the id of the padding token, behind which the positions begin.
const robertaPadding = 1

// padding is pad_token_id, which is a row of the table of words.
func (c *config) padding(a *Architecture) int64 {
	if v, _ := c.value("pad_token_id"); v == 0.0 {
		return 0
	}
	return c.integer("pad_token_id", float64(max(a.Vocabulary-1, 1)))
}

// buildRoBERTa is transformers' RobertaModel with a head: BERT, but for the positions and the heads
// (modeling_roberta.py, 4.57).
func buildRoBERTa(b *builder) step.Network {
	m := b.bertModel()
	b.robertaHead(m, func() step.Weight { return m.words })
	return m
}

// robertaHead declares the head of m; words is what declares the table of words, or has.
func (b *builder) robertaHead(m *bert, words func() step.Weight) {
	d := b.a.Hidden
	m.positionIDs = countedPositions
	switch b.a.Class {
	case classClassification:
		h := classificationHead{a: b.a, dense: b.linear("classifier.dense", d, d, true),
			out: b.linear("classifier.out_proj", d, b.a.Labels, true)}
		m.classify = h.logits
	case classChoices:
		m.classify = b.pooledClassifier(b.a.ResidualDropout)
	case classMaskedLM, classCausalLM:
		m.masked = b.maskedHead(words, "lm_head.")
		m.masked.activation = "gelu"
	case classTokens:
		m.tokens = b.tokenHead(b.a.headDropout())
	case classQuestions:
		m.tokens = b.tokenHead(0)
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
	a          *Architecture
	dense, out linear
	// activate is what stands in the place of tanh, nil for that.
	activate func(t *step.Tape, x step.T) step.T
}

func (h classificationHead) logits(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
	t.In(step.PartMLP)
	first := t.FirstToken(x, h.a.Hidden)
	dropped := t.Dropout(first, h.a.headDropout())
	t.Drop(first)
	dense := h.dense.forward(t, dropped)
	t.Drop(dropped)
	var act step.T
	if h.activate != nil {
		act = h.activate(t, dense)
	} else {
		act = t.Tanh(dense, step.LabelActivation)
	}
	t.Drop(dense)
	again := t.Dropout(act, h.a.headDropout())
	t.Drop(act)
	logits = h.out.forward(t, again)
	t.Drop(again)
	return logits, t.Buffered(0, step.F32)
}
