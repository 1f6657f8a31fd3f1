package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// MPNetFamily is MPNet.
var MPNetFamily = arch.Family{ModelType: "mpnet",
	Keys:    arch.CommonKeys,
	Classes: []string{arch.ClassBase},
	Pooled:  []string{arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 30527.0, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
		"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512.0,
		"relative_attention_num_buckets": 32.0, "tie_word_embeddings": true, "type_vocab_size": 1.0},
	Uncompiled: "torch.compile is not modelled for mpnet",
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a, o := readBERT(c, a)
		o.TypeVocabulary = 0 // which BERT's descendants have
		o.buckets = c.Integer("relative_attention_num_buckets", arch.MaxRows)
		a.Own = o
		if a.MaxPositions = o.PositionRows - robertaPadding - 1; a.MaxPositions < 1 && o.PositionRows > 0 {
			c.Errs.Add(c.Pointer+"/max_position_embeddings", "out_of_range",
				"max_position_embeddings is %d; positions begin behind the padding token %d", o.PositionRows,
				robertaPadding)
		}
		a.EagerOnly, a.Uncheckpointed, a.Pooled = true, true, a.Described.Pools(a.Class)
		return a
	},
	Build: buildMPNet,
}

// mpnet is transformers' MPNetModel (modeling_mpnet.py, 4.57): BERT with positions in the scores, too.
type mpnet struct {
	bert
	distances step.Weight
	bias      step.T
}

func buildMPNet(b *arch.Builder) step.Network {
	a, o, d := b.A, encoder(b.A), b.A.Hidden
	m := &mpnet{bert: bert{a: a, layers: make([]bertLayer, b.Recorded), types: step.NoWeight}}
	m.positionIDs = countedPositions
	m.words, m.positions = b.Embedding("embeddings.word_embeddings", a.Vocabulary, d),
		b.Embedding("embeddings.position_embeddings", o.PositionRows, d)
	m.norm = b.Norm("embeddings.LayerNorm", d, true)
	b.Buffer("embeddings.position_ids", o.PositionRows, step.I64)
	b.Stack(func(i int64) { m.layers[i] = mpnetLayer(b) })
	m.distances = b.Embedding("encoder.relative_attention_bias", o.buckets, a.Heads)
	if a.Pooled {
		m.pooler = b.Linear("pooler.dense", d, d, true)
	}
	return m
}

func mpnetLayer(b *arch.Builder) bertLayer {
	d, f := b.A.Hidden, b.A.FFN
	var l bertLayer
	l.q, l.k, l.v = b.Linear("attention.attn.q", d, d, true), b.Linear("attention.attn.k", d, d, true),
		b.Linear("attention.attn.v", d, d, true)
	l.out, l.attentionNorm = b.Linear("attention.attn.o", d, d, true), b.Norm("attention.LayerNorm", d, true)
	l.up, l.down = b.Linear("intermediate.dense", d, f, true), b.Linear("output.dense", f, d, true)
	l.lastNorm = b.Norm("output.LayerNorm", d, true)
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
	x := blocks.RunEncoder(t, m.a, len(m.layers), t.Hold(embedded),
		step.Besides{Arguments: []step.T{extended}, Captured: []step.T{m.bias}}, m.layer)
	t.Drop(m.bias)
	pooled, forget := m.pooled(t, x)
	t.Drop(embedded, extended)
	forget()
	return m.loss(t, x, pooled, batch[2:])
}

// layer is MPNetLayer.
func (m *mpnet) layer(t *step.Tape, i int, x step.T) step.T {
	l, heads := &m.layers[i], m.a.Geometry()
	t.In(step.PartAttention)
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, true)
	q := t.Heads(l.q.Forward(t, x), copiesQV)
	k := l.k.Keys(t, x, copiesK)
	v := t.Heads(l.v.Forward(t, x), copiesQV)
	context, locals := t.BiasedAttention(q, k, v, m.bias, *m.mask, heads, m.a.AttentionDropout)
	projected := l.out.Forward(t, context)
	t.Drop(append(locals, q, k, v, context)...)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(projected)
	sum := t.Add(dropped, x, step.LabelResidual)
	attended := l.attentionNorm.Layer(t, sum)
	t.Drop(sum, dropped)

	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	y := m.output(t, l.down, l.lastNorm, act, attended)
	t.Drop(act, attended)
	return y
}

func (m *mpnet) Embeds() {}
