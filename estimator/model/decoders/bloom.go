package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// BloomFamily is BLOOM, which tells positions by ALiBi.
var BloomFamily = arch.Family{ModelType: "bloom", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "n_head", Hidden: "hidden_size", KV: "n_head", Dim: "hidden_size"},
	Defaults: map[string]any{
		"vocab_size": 250880.0, "hidden_size": 64.0, "n_layer": 2.0, "n_head": 8.0, "hidden_dropout": 0.0,
		"attention_dropout":                        0.0,
		"apply_residual_connection_post_layernorm": false, "use_cache": true, "tie_word_embeddings": true,
		"seq_length": 2048.0},
	Read: readBloom,
	Spelled: map[string]string{"num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
		"max_position_embeddings": "seq_length", "residual_dropout": "hidden_dropout"},
	Build: buildBloom,
}

// bloomOptions is what only Bloom's configuration says.
type bloomOptions struct {
	// normedResidual adds what a norm made, not what went into it.
	normedResidual bool
}

func readBloom(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer(either(c, "num_hidden_layers", "n_layer"), arch.MaxLayers)
	a.Hidden = c.Integer(either(c, "n_embed", "hidden_size"), arch.MaxWidth)
	a.Heads = c.Integer(either(c, "num_attention_heads", "n_head"), arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = 4 * a.Hidden
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("seq_length", arch.MaxRows)
	a.ResidualDropout, a.AttentionDropout = c.Probability("hidden_dropout"), c.Probability("attention_dropout")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.WholeLogits = true
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias, a.EagerOnly = true, true, true, true, true
	a.Own = bloomOptions{normedResidual: c.Boolean("apply_residual_connection_post_layernorm")}
	if c.Optional("pretraining_tp", arch.MaxWidth) > 1 && c.Boolean("slow_but_exact") {
		c.Errs.Add(c.Pointer+"/slow_but_exact", "unsupported",
			"products in pretraining_tp slices are not modelled; set slow_but_exact to false")
	}
	return a
}

// either is the first of two names of a number if the file has it, else the second.
func either(c *arch.Config, name, otherwise string) string {
	if _, ok := c.Given[name]; ok {
		return name
	}
	return otherwise
}

// bloom is transformers' BloomForCausalLM (modeling_bloom.py, 4.57).
type bloom struct {
	a                    *arch.Architecture
	own                  bloomOptions
	embed                step.Weight
	head                 arch.Linear
	embeddingNorm, final arch.Norm
	layers               []bloomBlock
	mask, alibi          step.T
	cache                []step.T
}

type bloomBlock struct {
	inputNorm, postAttentionNorm arch.Norm
	qkv, dense, up, down         arch.Linear
}

func buildBloom(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &bloom{a: a, own: a.Own.(bloomOptions), layers: make([]bloomBlock, b.Recorded)}
	m.embed = b.Embedding("word_embeddings", a.Vocabulary, d)
	m.embeddingNorm = b.Norm("word_embeddings_layernorm", d, true)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.inputNorm = b.Norm("input_layernorm", d, true)
		l.qkv, l.dense = b.Linear("self_attention.query_key_value", d, 3*d, true),
			b.Linear("self_attention.dense", d, d, true)
		l.postAttentionNorm = b.Norm("post_attention_layernorm", d, true)
		l.up, l.down = b.Linear("mlp.dense_h_to_4h", d, a.FFN, true), b.Linear("mlp.dense_4h_to_h", a.FFN, d, true)
	})
	m.final = b.Norm("ln_f", d, true)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *bloom) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *bloom) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	var besides []step.T
	if !t.Recipe.Software.Has(blocks.MasksByLibrary) {
		besides = append(besides, t.Input(t.Shape.Tokens, step.I64)) // cache_position
	}
	x := m.embeddingNorm.Layer(t, embedded)
	m.alibi = blocks.Alibi(t, m.a.Heads, false, x.Dtype())
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		m.mask = *blocks.CausalMask(t, 0, embedded.Dtype())
	} else {
		m.mask = *blocks.TriangularMask(t, embedded.Dtype())
	}
	besides = append(besides, m.alibi, m.mask)
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), x, step.Besides{Captured: besides}, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, *probabilities, embedded)
	for _, b := range besides {
		t.Drop(b)
	}
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

func (m *bloom) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.inputNorm.Layer(t, x)
	residual := x
	if m.own.normedResidual {
		residual = h
	}
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, h, residual)

	t.In(step.PartNorm)
	normed := l.postAttentionNorm.Layer(t, attn)
	t.Drop(h)
	residual = attn
	if m.own.normedResidual {
		residual = normed
	}
	t.In(step.PartMLP)
	y := m.mlp(t, l, normed, residual)
	t.Drop(normed, attn)
	t.AlsoReturns(probabilities)
	return y
}

// attention returns its output with the residual, and the probabilities.
func (m *bloom) attention(t *step.Tape, l *bloomBlock, x, residual step.T) (step.T, step.T) {
	qkv := l.qkv.Forward(t, x)
	width := qkv.Numel() / 3
	queries, keys, values := t.Slice(qkv, width), t.Slice(qkv, width), t.Slice(qkv, width)
	keys, values = blocks.AppendKV(t, &m.cache, keys, values)
	q, k, v := m.matrices(t, queries), m.matrices(t, keys), m.matrices(t, values)
	t.Drop(queries, keys, values)

	scores := t.BiasedScores(m.alibi, q, k, t.Shape.N()*m.a.Heads*t.Shape.Tokens)
	masked := t.Add(scores, m.mask, step.LabelAttentionScores)
	p := t.Probabilities(masked, q.Dtype())
	probabilities := t.Dropout(p, m.a.AttentionDropout)
	t.Drop(p)
	context := t.BMM(probabilities, v, width, step.LabelAttentionOutput)
	if m.a.Heads > 1 {
		context = t.MergeHeads(context)
	}
	out := dropoutAdd(t, l.dense.Forward(t, context), residual, m.a.ResidualDropout)
	t.Drop(context, masked, scores, q, k, v, qkv)
	return out, probabilities
}

// matrices is x as a batch of matrices, one for each head: a single head needs no copy.
func (m *bloom) matrices(t *step.Tape, x step.T) step.T {
	if m.a.Heads == 1 {
		return t.Hold(x)
	}
	return t.Batched(x)
}

func (m *bloom) mlp(t *step.Tape, l *bloomBlock, x, residual step.T) step.T {
	up := l.up.Forward(t, x)
	act := t.BloomGELU(up)
	t.Drop(up)
	y := dropoutAdd(t, l.down.Forward(t, act), residual, m.a.ResidualDropout)
	t.Drop(act)
	return y
}

// dropoutAdd is residual + dropout(x). It takes over x.
func dropoutAdd(t *step.Tape, x, residual step.T, p float64) step.T {
	dropped := t.DropoutFunction(x, p)
	y := t.Add(residual, dropped, step.LabelResidual)
	t.Drop(dropped, x)
	return y
}

func (m *bloom) PlainHead() bool { return !m.a.Classes() }
