package model

import "github.com/vramplan/vramplan/estimator/step"

var distilBERTFamily = family{modelType: "distilbert",
	keys:    fieldNames{heads: "n_heads", hidden: "dim", kv: "n_heads", dim: "dim"},
	classes: []string{classMaskedLM, classClassification, classTokens, classQuestions, classChoices, classBase},
	defaults: map[string]any{
		"vocab_size": 30522.0, "dim": 768.0, "n_layers": 6.0, "n_heads": 12.0, "hidden_dim": 3072.0,
		"activation": "gelu",
		"dropout":    0.1, "attention_dropout": 0.1, "seq_classif_dropout": 0.2, "qa_dropout": 0.1,
		"max_position_embeddings": 512.0,
		"sinusoidal_pos_embds":    false, "tie_word_embeddings": true},
	read: (*config).distilBERT,
	spelled: map[string]string{"num_hidden_layers": "n_layers", "hidden_size": "dim", "num_attention_heads": "n_heads",
		"intermediate_size": "hidden_dim"},
	numbers: func(p *Preset, c map[string]any) {
		c["dropout"], c["architectures"] = p.Dropout.Hidden, []any{classMaskedLM}
	},
	build: buildDistilBERT,
}

func (c *config) distilBERT(a *Architecture) {
	a.Layers = c.integer("n_layers", maxLayers)
	a.Hidden = c.integer("dim", maxWidth)
	a.Heads = c.integer("n_heads", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("hidden_dim", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation("activation", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.probability("dropout"), c.probability("attention_dropout")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.LearnedPositions = c.boolean("tie_word_embeddings"), true
	a.Labels = c.labels()
	c.refuseVariants()
	dropout := c.probability("seq_classif_dropout")
	a.own = &encoderOptions{positionRows: a.MaxPositions, classifierDropout: &dropout,
		questionDropout: c.probability("qa_dropout"), fixedPositions: c.boolean("sinusoidal_pos_embds")}
}

// distilBERT is transformers' DistilBertModel with a head (modeling_distilbert.py, 4.57): the embeddings are BERT's
// without segments.
type distilBERT struct {
	bert
	given step.T  // the attention mask as the batch has it
	mask  *step.T // and as attention takes it
}

func buildDistilBERT(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &distilBERT{bert: bert{a: a, layers: make([]bertLayer, b.recorded), types: step.NoWeight}}
	m.words, m.positions = b.embedding("embeddings.word_embeddings", a.Vocabulary, d),
		b.embedding("embeddings.position_embeddings", a.encoder().positionRows, d)
	if a.encoder().fixedPositions {
		b.p.List[m.positions.Index].Frozen = true
	}
	m.norm = b.norm("embeddings.LayerNorm", d, true)
	b.buffer("embeddings.position_ids", a.encoder().positionRows, step.I64)
	b.stack(func(i int64) { m.layers[i] = b.distilBERTLayer() })
	switch a.Class {
	case classClassification, classChoices:
		first, second := b.linear("pre_classifier", d, d, true), b.linear("classifier", d, a.outputs(), true)
		m.classify = func(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
			return m.classes(t, x, first, second)
		}
	case classMaskedLM:
		m.masked = b.projectorHead(func() step.Weight { return m.words }, "vocab_")
	case classTokens:
		m.tokens = b.tokenHead(a.ResidualDropout)
	case classQuestions:
		m.tokens = b.tokenHead(a.encoder().questionDropout)
	}
	return m
}

func (b *builder) distilBERTLayer() bertLayer {
	d, f := b.a.Hidden, b.a.FFN
	var l bertLayer
	l.q, l.k, l.v = b.linear("attention.q_lin", d, d, true), b.linear("attention.k_lin", d, d, true),
		b.linear("attention.v_lin", d, d, true)
	l.out, l.attentionNorm = b.linear("attention.out_lin", d, d, true), b.norm("sa_layer_norm", d, true)
	l.up, l.down = b.linear("ffn.lin1", d, f, true), b.linear("ffn.lin2", f, d, true)
	l.lastNorm = b.norm("output_layer_norm", d, true)
	return l
}

func (m *distilBERT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	embedded := m.embeddings(t, batch[0])
	m.given = batch[1]
	var besides step.Besides
	if m.fills(t) {
		besides.Arguments = []step.T{m.given}
	} else if m.mask = encoderMask(t, embedded.Dtype()); m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x := runEncoder(t, m.a, len(m.layers), t.Hold(embedded), besides, m.layer)
	t.Drop(embedded)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	return m.loss(t, x, nil, batch[2:])
}

// layer is TransformerBlock.
func (m *distilBERT) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartAttention)
	attended := m.attention(t, l, x)
	middle := addNorm(t, l.attentionNorm, attended, x)
	t.Drop(attended)

	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, middle)
	down := l.down.forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	y := addNorm(t, l.lastNorm, dropped, middle)
	t.Drop(dropped, middle)
	dropProbabilities(t)
	return y
}

// fills says that attention is written out as releases before transformers 5 do it, which fill the scores of padding.
func (m *distilBERT) fills(t *step.Tape) bool {
	return t.Recipe.Attention == step.AttentionEager && !t.Recipe.Software.ReassignsScores
}

// addNorm is n(h + x).
func addNorm(t *step.Tape, n norm, h, x step.T) step.T {
	t.In(step.PartNorm)
	sum := t.Add(h, x, step.LabelResidual)
	y := n.layer(t, sum)
	t.Drop(sum)
	return y
}

// attention is DistilBertSdpaAttention or MultiHeadSelfAttention, with their last linear layer, or
// DistilBertSelfAttention of transformers 5, which writes the formula out as BERT does.
func (m *distilBERT) attention(t *step.Tape, l *bertLayer, x step.T) step.T {
	heads := m.a.geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, m.mask != nil)
	q := t.Heads(l.q.forward(t, x), copiesQV)
	k := l.k.keys(t, x, copiesK)
	v := t.Heads(l.v.forward(t, x), copiesQV)
	var y step.T
	var locals []step.T
	switch {
	case m.fills(t):
		scaled := t.MulScalar(q, step.LabelAttentionScores)
		t.Drop(q)
		q = scaled
		y, locals = t.FilledAttention(q, k, v, heads, m.a.AttentionDropout)
	case t.Recipe.Attention == step.AttentionEager:
		var probabilities, scores step.T
		y, probabilities, scores = t.EncoderAttention(q, k, v, heads, m.mask, m.a.AttentionDropout)
		t.Drop(scores)
		t.AlsoReturns(probabilities)
	default:
		y = t.TokensFirst(t.SDPA(q, k, v, heads, m.mask, m.a.AttentionDropout), heads, m.mask != nil)
	}
	out := l.out.forward(t, y)
	t.Drop(append(locals, y, q, k, v)...)
	return out
}

// classes are the logits of DistilBertForSequenceClassification: a layer and ReLU over the first token, and a second
// layer.
func (m *distilBERT) classes(t *step.Tape, x step.T, first, second linear) (logits, input step.T) {
	t.In(step.PartMLP)
	token := t.FirstToken(x, m.a.Hidden)
	dense := first.forward(t, token)
	t.Drop(token)
	act := t.ReLU(dense)
	t.Drop(dense)
	dropped := t.Dropout(act, m.a.headDropout())
	t.Drop(act)
	return second.forward(t, dropped), dropped
}
