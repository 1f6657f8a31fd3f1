package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// MPTFamily is MPT, which tells positions by ALiBi.
var MPTFamily = arch.Family{ModelType: "mpt", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "n_heads", Hidden: "d_model", KV: "n_heads", Dim: "d_model"},
	Defaults: map[string]any{
		"d_model": 2048.0, "n_heads": 16.0, "n_layers": 24.0, "max_seq_len": 2048.0, "vocab_size": 50368.0,
		"use_cache":           false,
		"tie_word_embeddings": true},
	Read: readMPT,
	Spelled: map[string]string{"num_hidden_layers": "n_layers", "hidden_size": "d_model",
		"num_attention_heads":     "n_heads",
		"max_position_embeddings": "max_seq_len"},
	Build: buildMPT,
}

// mptOptions is what only MPT's configuration says.
type mptOptions struct {
	// clips bounds queries, keys and values.
	clips bool
}

// readMPT reads MPT's keys. Its alibi is built whatever attn_config says of it, and the MLP is four times as wide as
// the layers.
func readMPT(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer(either(c, "num_hidden_layers", "n_layers"), arch.MaxLayers)
	a.Hidden = c.Integer(either(c, "hidden_size", "d_model"), arch.MaxWidth)
	a.Heads = c.Integer(either(c, "num_attention_heads", "n_heads"), arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = 4 * a.Hidden
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions, a.LearnedPositions = c.Integer("max_seq_len", arch.MaxRows), true
	a.WholeLogits = true
	a.UseCache, a.Tied, a.EagerOnly = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings"), true
	attention := c.Part("attn_config", map[string]any{"attn_pdrop": 0.0})
	a.AttentionDropout = attention.Probability("attn_pdrop")
	a.ResidualDropout = a.AttentionDropout
	clips := attention.Positive("clip_qkv")
	if clip, _ := attention.Value("clip_qkv"); clip != nil && clip != 0.0 && !clips {
		c.Errs.Add(attention.Pointer+"/clip_qkv", "wrong_type", "clip_qkv is a positive number or null, not %s",
			arch.Describe(clip))
	}
	a.Own = mptOptions{clips: clips}
	return a
}

// mpt is transformers' MptForCausalLM (modeling_mpt.py, 4.57).
type mpt struct {
	a           *arch.Architecture
	own         mptOptions
	embed       step.Weight
	head        arch.Linear
	layers      []mptBlock
	final       arch.Norm
	alibi, mask step.T
	cache       []step.T
}

type mptBlock struct {
	norm1, norm2       arch.Norm
	qkv, out, up, down arch.Linear
}

func buildMPT(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &mpt{a: a, own: a.Own.(mptOptions), layers: make([]mptBlock, b.Recorded)}
	m.embed = b.Embedding("wte", a.Vocabulary, d)
	b.StackAt("transformer.blocks", func(i int64) {
		l := &m.layers[i]
		l.norm1 = b.Norm("norm_1", d, false)
		l.qkv, l.out = b.Linear("attn.Wqkv", d, 3*d, false), b.Linear("attn.out_proj", d, d, false)
		l.norm2 = b.Norm("norm_2", d, false)
		l.up, l.down = b.Linear("ffn.up_proj", d, a.FFN, false), b.Linear("ffn.down_proj", a.FFN, d, false)
	})
	m.final = b.Norm("norm_f", d, false)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *mpt) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *mpt) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	m.alibi = mptAlibi(t, m.a.Heads, m.a.MaxPositions)
	m.mask = mptMask(t, embedded.Dtype())
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), t.Hold(embedded),
		step.Besides{Captured: []step.T{m.alibi, m.mask}}, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, *probabilities, embedded, m.alibi, m.mask)
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

func (m *mpt) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.norm1.Layer(t, x)
	t.In(step.PartAttention)
	attn := m.attention(t, l, h)
	t.In(step.PartNorm)
	dropped := t.Dropout(attn, m.a.ResidualDropout)
	middle := t.Add(dropped, x, step.LabelResidual)
	t.Drop(dropped)
	normed := l.norm2.Layer(t, middle)
	t.Drop(h)

	t.In(step.PartMLP)
	up := l.up.Forward(t, normed)
	act := t.GELU(up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	dropped = t.Dropout(down, m.a.ResidualDropout)
	t.In(step.PartNorm)
	y := t.Add(dropped, middle, step.LabelResidual)
	t.Drop(dropped, down, act, normed, middle, attn)
	return y
}

func (m *mpt) attention(t *step.Tape, l *mptBlock, x step.T) step.T {
	qkv := l.qkv.Forward(t, x)
	if m.own.clips {
		clipped := t.ClampBetween(qkv)
		t.Drop(qkv)
		qkv = clipped
	}
	q, k, v := t.Split3(qkv)
	q, v = t.Heads(q, m.a.Heads > 1), t.Heads(v, m.a.Heads > 1)
	k, v = blocks.AppendKV(t, &m.cache, k, v)
	n := t.Shape.N() * m.a.Heads * t.Shape.Tokens
	product := t.HeadsProduct(q, k, m.a.Geometry(), n, step.LabelAttentionScores)
	scaled := t.MulScalar(product, step.LabelAttentionScores)
	t.Drop(product)
	biased := t.AddAlibi(scaled, m.alibi)
	t.Drop(scaled)
	scores := t.MaskedFill(biased, m.mask)
	t.Drop(biased)
	p := t.FloatProbabilities(scores, v.Dtype())
	probabilities := t.Dropout(p, m.a.AttentionDropout)
	t.Drop(p)
	context := t.ValuesProduct(probabilities, v, m.a.Geometry())
	if m.a.Heads > 1 {
		context = t.MergeHeads(context)
	}
	out := l.out.Forward(t, context)
	t.Drop(context, scores, q, k, v, qkv)
	t.AlsoReturns(probabilities)
	return out
}

// mptAlibi is build_mpt_alibi_tensor for the longest sequence.
func mptAlibi(t *step.Tape, heads, longest int64) step.T {
	power := int64(1) // the next power of two
	for power < heads {
		power *= 2
	}
	distances := t.Input(longest, step.F32)
	whole := t.Input(power, step.I64)
	float := t.Input(power, step.F32)
	t.Drop(whole)
	base := t.Input(power, step.F32)
	t.Drop(float)
	raised := t.Input(power, step.F32)
	t.Drop(t.Input(1, step.I64)) // the 2 that is raised
	inverse := t.Input(power, step.F32)
	slopes := t.Input(power, step.F32)
	t.Drop(inverse, raised)
	if power != heads {
		joined := t.Input(power, step.F32)
		t.Drop(slopes)
		slopes = joined
	}
	y := t.Input(heads*longest, step.F32)
	t.Drop(distances, base, slopes)
	return y
}

// mptMask is _prepare_4d_causal_attention_mask of the all-ones mask, in d, as booleans.
// Source: transformers/modeling_attn_mask_utils.py (AttentionMaskConverter.to_4d), 4.57.
func mptMask(t *step.Tape, d step.DType) step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		additive := *blocks.CausalMask(t, 0, d) // attention is always written out, and has one then
		mask := t.Input(b*n*n, step.Bool)
		t.Drop(additive)
		return mask
	}
	triangle := t.Input(n*n, step.F32)
	columns := t.Input(n, step.I64)
	next := t.Input(n, step.I64)
	below := t.Input(n*n, step.Bool)
	t.Drop(next, below)
	if d != step.F32 {
		cast := t.Input(n*n, d)
		t.Drop(triangle)
		triangle = cast
	}
	t.Drop(columns)
	given := t.Input(b*n*n, d)
	inverted := t.Input(b*n*n, d)
	absent := t.Input(b*n*n, step.Bool)
	expanded := t.Input(b*n*n, d)
	t.Drop(absent, given, inverted)
	masked := t.Input(b*n*n, step.Bool)
	joined := t.Input(b*n*n, d)
	t.Drop(masked, expanded, triangle)
	mask := t.Input(b*n*n, step.Bool)
	t.Drop(joined)
	return mask
}
