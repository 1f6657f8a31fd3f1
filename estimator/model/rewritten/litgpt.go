package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/undescribed"
	"github.com/vramplan/vramplan/estimator/step"
)

// buildLitGPT is litgpt's GPT: one class for all of its models, of which a configuration says what they have.
// Sources: litgpt/model.py and, with adapters, lora.py (GPT, Block, CausalSelfAttention, the MLPs), 0.5.
type litGPT struct {
	a      *arch.Architecture
	c      litConfig
	head   arch.Linear
	embed  step.Weight
	layers []litBlock
	final  arch.Norm
}

// litConfigOf is what litgpt's Config says of a model, as far as models differ in what they allocate.
type litConfig struct {
	// layerNorm says nn.LayerNorm, otherwise litgpt's RMSNorm.
	layerNorm bool
	// parallel runs attention and MLP beside each other (parallel_residual), on one norm where that is shared.
	parallel, shared bool
	// gated says LLaMAMLP or GemmaMLP, otherwise GptNeoxMLP.
	gated bool
	// bias is that of all linear layers, headBias the head's, qkvBias the attention's alone (attn_bias).
	bias, headBias, qkvBias bool
	// scaled multiplies the embeddings (scale_embeddings).
	scaled bool
	// turned is rope_n_elem.
	turned int64
}

// litBlock is Block.
type litBlock struct {
	first, second  arch.Norm
	qkv, proj      arch.Linear
	gate, up, down arch.Linear
}

// litConfigOf is the configuration of a, and whether litgpt's own class is replayed for it. Models with bounded scores,
// windows, mixtures or norms of queries and keys are not; nor is what is compiled.
func litConfigOf(a *arch.Architecture) (litConfig, bool) {
	c := litConfig{gated: a.Gated, turned: a.RotaryWidth(), layerNorm: a.NormBias}
	switch a.Described {
	case &decoders.LlamaFamily, &decoders.MistralFamily, &decoders.Qwen2Family, &decoders.Phi3Family:
		c.qkvBias = a.QKVBias
	case &decoders.GemmaFamily:
		c.scaled = true
	case &decoders.GPTNeoXFamily:
		c.bias, c.parallel = a.MLPBias, blocks.Rotary(a).Parallel
	case &decoders.PhiFamily:
		c.bias, c.headBias, c.parallel, c.shared = true, true, true, true
	case &decoders.StableLMFamily:
		c.qkvBias, c.parallel, c.shared = a.QKVBias, blocks.Rotary(a).Parallel, blocks.Rotary(a).Parallel
	default:
		own, ok := a.Own.(*undescribed.Block)
		if !ok || !likeLitGPT(own, a) {
			return c, false
		}
		c.layerNorm, c.bias, c.headBias, c.qkvBias = own.LayerNorm, a.MLPBias, own.HeadBias, a.QKVBias
		c.parallel, c.shared, c.turned = own.Parallel, own.Parallel && own.Norms == 1, own.RotaryWidth
	}
	return c, a.LitGPT && !a.QKNorm && !a.Classes() && a.Class != arch.ClassBase
}

// WriteAsLitGPT makes a a model of litgpt's, which of those that its own class is not replayed for has the adapters and
// the way to quantise.
func WriteAsLitGPT(a *arch.Architecture) {
	a.Written, a.LitGPT, a.Castless = litGPTLibrary{}, true, true
}

type litGPTLibrary struct{}

func (litGPTLibrary) Modules(b *arch.Builder) step.Network {
	if c, ok := litConfigOf(b.A); ok {
		return buildLitGPT(b, c)
	}
	return b.A.Published(b)
}

// Whole is a: its models are not cut.
func (litGPTLibrary) Whole(a *arch.Architecture) *arch.Architecture { return a }

// OfLitGPT says whether litgpt's own class is replayed for a.
func OfLitGPT(a *arch.Architecture) bool {
	_, ok := litConfigOf(a)
	return ok
}

// likeLitGPT says whether litgpt's class can be what the dimensions describe.
func likeLitGPT(own *undescribed.Block, a *arch.Architecture) bool {
	return own.Position == "rope" && !own.PlainNorms && !own.EmbeddingNorm && !own.PostNorm && own.Norms <= 2 &&
		own.Experts == nil && own.LayerNorm == a.NormBias && a.OutBias == a.MLPBias
}

// buildLitGPT declares the modules in litgpt's order: the head is first.
func buildLitGPT(b *arch.Builder, c litConfig) step.Network {
	a, d := b.A, b.A.Hidden
	m := &litGPT{a: a, c: c, layers: make([]litBlock, b.Recorded)}
	m.head = litHead(b, c.headBias)
	m.embed = b.Embedding("embed_tokens", a.Vocabulary, d)
	b.Stack(func(i int64) {
		l := &m.layers[i]
		l.first = b.Norm("input_layernorm", d, c.layerNorm)
		litAttention(b, l, c)
		if !c.shared {
			l.second = b.Norm("post_attention_layernorm", d, c.layerNorm)
		}
		if c.gated {
			l.gate, l.up = b.Linear("mlp.gate_proj", d, a.FFN, c.bias), b.Linear("mlp.up_proj", d, a.FFN, c.bias)
		} else {
			l.up = b.Linear("mlp.up_proj", d, a.FFN, c.bias)
		}
		l.down = b.Linear("mlp.down_proj", a.FFN, d, c.bias)
	})
	m.final = b.Norm("norm", d, c.layerNorm)
	return m
}

// litHead is the head, which litgpt ties to nothing and Lightning quantises like every linear layer.
func litHead(b *arch.Builder, bias bool) arch.Linear {
	var m arch.Linear
	m.W, m.B = b.Pair("lm_head", b.A.Vocabulary, b.A.Hidden, bias)
	m.Quantised = b.Quantise(m.W)
	m.Adapter = b.HeadAdapter("lm_head", m.W, b.A.Hidden)
	return m
}

// litAttention is the one linear layer for queries, keys and values and the one behind attention.
func litAttention(b *arch.Builder, l *litBlock, c litConfig) {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.qkv.W, l.qkv.B = b.Pair("self_attn.qkv", q+2*kv, d, c.bias || c.qkvBias)
	l.qkv.Quantised = b.Quantise(l.qkv.W)
	l.qkv.Adapter = b.QKVAdapter([]string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
		[]int64{q, kv, kv}, d)
	l.proj = b.Linear("self_attn.o_proj", q, d, c.bias)
}

// Batch is input_ids and labels.
func (m *litGPT) Batch(t *step.Tape) []step.T {
	return []step.T{t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)}
}

func (m *litGPT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	for range 2 { // cosines and sines of as many positions as the longest sequence has
		t.Once(t.Shape.Tokens*m.c.turned, step.F32, step.LabelRotary)
	}
	x := t.Embedding(batch[0], m.embed, step.LabelEmbedding)
	if m.c.scaled {
		scaled := t.MulScalar(x, step.LabelEmbedding)
		t.Drop(x)
		x = scaled
	}
	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{}, m.block)
	t.In(step.PartNorm)
	normed := m.norm(t, m.final, x)
	t.Drop(x)
	logits := m.head.Logits(t, normed)
	switch {
	case t.Recipe.Loss.Listed:
		loss := t.ListedLoss(normed, batch[1])
		return loss, []step.T{t.Hold(loss)}
	case t.Recipe.Loss.Kind == step.LossChunkedWhole:
		t.Drop(normed)
		loss := t.SplitLoss(logits, batch[1])
		return loss, []step.T{t.Hold(loss)}
	}
	loss := t.CausalLMLoss(logits, batch[1])
	t.Drop(normed)
	return loss, []step.T{logits, t.Hold(loss)}
}

func (m *litGPT) norm(t *step.Tape, g arch.Norm, x step.T) step.T {
	if m.c.layerNorm {
		return g.Layer(t, x)
	}
	return t.ProductRMSNorm(x, g.W)
}

// block is Block.forward.
func (m *litGPT) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	normed := m.norm(t, l.first, x)
	t.In(step.PartAttention)
	attended := m.attention(t, l, normed)
	t.In(step.PartNorm)
	again := func(x step.T) {
		second := m.norm(t, l.second, x)
		t.Drop(normed)
		normed = second
	}
	if m.c.parallel && !m.c.shared {
		again(x)
	}
	sum := t.Add(attended, x, step.LabelResidual)
	if !m.c.parallel {
		again(sum)
	}
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, normed)
	t.In(step.PartNorm)
	y := t.Add(mlp, sum, step.LabelResidual)
	t.Drop(mlp, sum, normed, attended)
	return y
}

// attention is CausalSelfAttention.forward.
func (m *litGPT) attention(t *step.Tape, l *litBlock, x step.T) step.T {
	heads := m.a.Geometry()
	qkv := l.qkv.Forward(t, x)
	tokens := qkv.Numel() / (heads.Query + 2*heads.KV)
	parts := t.SplitParts(qkv, tokens*heads.Query, tokens*heads.KV, tokens*heads.KV)
	q, k := t.Heads(parts[0], heads.Query > 1), t.Heads(parts[1], heads.KV > 1)
	v := t.Heads(parts[2], heads.KV > 1 && heads.KV < heads.Query)
	turnedQ, turnedK := m.turn(t, q), m.turn(t, k)
	q, k = m.join(t, turnedQ, q), m.join(t, turnedK, k)
	if heads.KV < heads.Query {
		for _, x := range [...]*step.T{&k, &v} {
			repeated := t.RepeatInterleave(*x, heads)
			t.Drop(*x)
			*x = repeated
		}
		heads.KV = heads.Query
	}
	y := t.TokensFirst(t.SDPA(q, k, v, heads, nil, 0), heads, false)
	out := l.proj.Forward(t, y)
	t.Drop(qkv, q, k, v, turnedQ, turnedK, y)
	return out
}

// turn is apply_rope of the first elements of every head. It keeps x.
func (m *litGPT) turn(t *step.Tape, x step.T) step.T {
	first := t.Hold(x)
	if m.c.turned < m.a.HeadDim {
		t.Drop(first)
		first = t.Slice(x, x.Numel()/m.a.HeadDim*m.c.turned)
	}
	width := t.Shape.Tokens * m.c.turned
	turned := t.TurnedInFloat(first, t.Buffered(width, step.F32), t.Buffered(width, step.F32))
	t.Drop(first)
	return turned
}

// join puts the rest of every head behind what was turned of it; the rest may be nothing. It takes over x.
func (m *litGPT) join(t *step.Tape, turned, x step.T) step.T {
	rest := t.Slice(x, x.Numel()-turned.Numel())
	joined := t.JoinHeads(turned, rest)
	t.Drop(rest, x)
	return joined
}

// mlp is LLaMAMLP.forward, GemmaMLP's, or GptNeoxMLP's.
func (m *litGPT) mlp(t *step.Tape, l *litBlock, x step.T) step.T {
	if !m.c.gated {
		up := l.up.Forward(t, x)
		act := t.GELU(up)
		t.Drop(up)
		y := l.down.Forward(t, act)
		t.Drop(act)
		return y
	}
	gate, up := l.gate.Forward(t, x), l.up.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, gate)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act)
	y := l.down.Forward(t, product)
	t.Drop(product, gate, up)
	return y
}

// PlainHead says that the logits are the head's output as it is.
func (m *litGPT) PlainHead() bool { return true }
