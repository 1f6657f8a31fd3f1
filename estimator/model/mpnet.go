package model

import "github.com/vramplan/vramplan/estimator/step"

var mpnetFamily = family{modelType: "mpnet",
	keys:    commonKeys,
	classes: []string{classBase},
	pooled:  []string{classBase},
	defaults: map[string]any{
		"vocab_size": 30527.0, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
		"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512.0,
		"relative_attention_num_buckets": 32.0, "tie_word_embeddings": true, "type_vocab_size": 1.0},
	uncompiled: "torch.compile is not modelled for mpnet",
	read: func(c *config, a *Architecture) {
		o := c.bert(a)
		o.typeVocabulary = 0 // which BERT's descendants have
		o.buckets = c.integer("relative_attention_num_buckets", maxRows)
		a.own = o
		if a.MaxPositions = o.positionRows - robertaPadding - 1; a.MaxPositions < 1 && o.positionRows > 0 {
			c.errs.Add(c.pointer+"/max_position_embeddings", "out_of_range",
				"max_position_embeddings is %d; positions begin behind the padding token %d", o.positionRows,
				robertaPadding)
		}
		a.EagerOnly, a.Uncheckpointed, a.Pooled = true, true, a.family.pools(a.Class)
	},
	build: buildMPNet,
}

// mpnet is transformers' MPNetModel (modeling_mpnet.py, 4.57): BERT with positions in the scores, too.
type mpnet struct {
	bert
	distances step.Weight
	bias      step.T
}

func buildMPNet(b *builder) step.Network {
	a, o, d := b.a, b.a.encoder(), b.a.Hidden
	m := &mpnet{bert: bert{a: a, layers: make([]bertLayer, b.recorded), types: step.NoWeight}}
	m.positionIDs = countedPositions
	m.words, m.positions = b.embedding("embeddings.word_embeddings", a.Vocabulary, d),
		b.embedding("embeddings.position_embeddings", o.positionRows, d)
	m.norm = b.norm("embeddings.LayerNorm", d, true)
	b.buffer("embeddings.position_ids", o.positionRows, step.I64)
	b.stack(func(i int64) { m.layers[i] = b.mpnetLayer() })
	m.distances = b.embedding("encoder.relative_attention_bias", o.buckets, a.Heads)
	if a.Pooled {
		m.pooler = b.linear("pooler.dense", d, d, true)
	}
	return m
}

func (b *builder) mpnetLayer() bertLayer {
	d, f := b.a.Hidden, b.a.FFN
	var l bertLayer
	l.q, l.k, l.v = b.linear("attention.attn.q", d, d, true), b.linear("attention.attn.k", d, d, true),
		b.linear("attention.attn.v", d, d, true)
	l.out, l.attentionNorm = b.linear("attention.attn.o", d, d, true), b.norm("attention.LayerNorm", d, true)
	l.up, l.down = b.linear("intermediate.dense", d, f, true), b.linear("output.dense", f, d, true)
	l.lastNorm = b.norm("output.LayerNorm", d, true)
	return l
}

func (m *mpnet) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	mask := t.Input(t.Shape.N(), t.Recipe.Stored)
	extended := t.Input(t.Shape.N(), t.Recipe.Stored)
	t.Drop(mask)
	embedded := m.embeddings(t, batch[0])
	tokens := t.Shape.Tokens
	buckets := t.Input(tokens*tokens, step.I64)
	looked := t.BucketBias(buckets, m.distances)
	m.bias = t.ExpandedBias(looked)
	t.Drop(looked, buckets)
	m.mask = &extended
	x := runEncoder(t, m.a, len(m.layers), t.Hold(embedded),
		step.Besides{Arguments: []step.T{extended}, Captured: []step.T{m.bias}}, m.layer)
	t.Drop(m.bias)
	pooled, forget := m.pooled(t, x)
	t.Drop(embedded, extended)
	forget()
	return m.loss(t, x, pooled, batch[2:])
}

// layer is MPNetLayer.
func (m *mpnet) layer(t *step.Tape, i int, x step.T) step.T {
	l, heads := &m.layers[i], m.a.geometry()
	t.In(step.PartAttention)
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, true)
	q := t.Heads(l.q.forward(t, x), copiesQV)
	k := l.k.keys(t, x, copiesK)
	v := t.Heads(l.v.forward(t, x), copiesQV)
	context, locals := t.BiasedAttention(q, k, v, m.bias, *m.mask, heads, m.a.AttentionDropout)
	projected := l.out.forward(t, context)
	t.Drop(append(locals, q, k, v, context)...)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(projected)
	sum := t.Add(dropped, x, step.LabelResidual)
	attended := l.attentionNorm.layer(t, sum)
	t.Drop(sum, dropped)

	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	y := m.output(t, l.down, l.lastNorm, act, attended)
	t.Drop(act, attended)
	return y
}

func (m *mpnet) embeds() {}
