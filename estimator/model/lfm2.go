package model

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// lfm2Family is LFM2: Llama's pattern with norms of queries and keys, in which some layers have a gated short
// convolution in place of attention.
// Source: transformers/models/lfm2/modeling_lfm2.py, configuration_lfm2.py, 5.23.
var lfm2Family = family{modelType: "lfm2", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 65536.0, "hidden_size": 2560.0, "intermediate_size": 12288.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "max_position_embeddings": 128000.0, "use_cache": true,
		"tie_word_embeddings": true, "conv_bias": false, "conv_L_cache": 3.0, "block_multiple_of": 256.0,
		"block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true, "hidden_act": "silu",
		"attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		if v, ok := c.given["block_ff_dim"]; ok { // which the class takes for intermediate_size
			c.given["intermediate_size"] = v
			c.read["block_ff_dim"] = true
		}
		c.tiedEmbedding()
		c.llama(a)
		a.Activation, a.AttentionDropout, a.QKNorm, a.UndroppedAttention = "silu", 0, true, true
		a.FFN = c.adjustedFFN(a.FFN)
		c.convolvedLayers(a)
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.makeMask, with.tablesFirst, with.attend = declareLFM2, lfm2Mask, true, shortConvolved
		if b.a.Software.CachesConvolutions {
			return b.decoder(with)
		}
		with.storesStates, with.opensCache = true, lfm2Cache
		if !b.a.Software.MasksConvolutions {
			with.makeMask, with.tablesAgain = causalMask, true
		}
		return b.decoder(with)
	}}

// tiedEmbedding reads whether the head is the embedding's, as LFM2 calls it.
func (c *config) tiedEmbedding() {
	if v, ok := c.given["tie_embedding"]; ok {
		c.given["tie_word_embeddings"] = v
		c.read["tie_embedding"] = true
	}
}

// adjustedFFN is the width of Lfm2MLP: two thirds of the file's, rounded up, unless that says otherwise.
func (c *config) adjustedFFN(width int64) int64 {
	if !c.boolean("block_auto_adjust_ff_dim") {
		return width
	}
	width = 2 * width / 3
	if _, ok := c.value("block_ffn_dim_multiplier"); !ok {
		return width
	}
	factor, ok := c.factor("block_ffn_dim_multiplier", maxWidth)
	if !ok {
		return width
	}
	of := c.integer("block_multiple_of", maxWidth)
	return min((int64(factor*float64(width))+of-1)/of*of, maxRows)
}

// declareLFM2 lists the modules of Lfm2DecoderLayer.
func declareLFM2(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	if o := a.own.(*shortConvolutions); o.convolves(l.index) {
		l.conv = b.convolution("conv.conv", 1, d, 1, o.kernel, o.bias)
		l.q, l.out = b.linear("conv.in_proj", d, 3*d, o.bias), b.linear("conv.out_proj", d, d, o.bias)
	} else {
		l.q, l.k, l.v = b.linear("self_attn.q_proj", d, q, false), b.linear("self_attn.k_proj", d, kv, false),
			b.linear("self_attn.v_proj", d, kv, false)
		l.out = b.linear("self_attn.out_proj", q, d, false)
		l.qNorm, l.kNorm = b.norm("self_attn.q_layernorm", a.HeadDim, false),
			b.norm("self_attn.k_layernorm", a.HeadDim, false)
	}
	if o := a.own.(*shortConvolutions); o.sparse.in(l.index) {
		l.experts = b.lfm2Mixture(o)
		l.inputNorm, l.postAttentionNorm = b.norm("operator_norm", d, false), b.norm("ffn_norm", d, false)
		return
	}
	l.gate, l.up = b.linear("feed_forward.w1", d, a.FFN, false), b.linear("feed_forward.w3", d, a.FFN, false)
	l.down = b.linear("feed_forward.w2", a.FFN, d, false)
	l.inputNorm, l.postAttentionNorm = b.norm("operator_norm", d, false), b.norm("ffn_norm", d, false)
}

// lfm2Mask is the causal mask and, after it, the look at the mask for the convolutions.
func lfm2Mask(t *step.Tape, _ int64, d step.DType) *step.T {
	mask := causalMask(t, 0, d)
	ones := t.Input(t.Shape.N(), step.Bool)
	t.Drop(t.Input(1, step.Bool))
	t.Drop(ones)
	return mask
}

// shortConvolutions are LFM2's layers without attention.
type shortConvolutions struct {
	in     []bool // by layer; nil where all attend
	kernel int64
	bias   bool
	sparse *experts // in place of MLPs; nil for none
	// corrects says that the router corrects its scores.
	corrects bool
}

func (o *shortConvolutions) convolves(i int64) bool { return i < int64(len(o.in)) && o.in[i] }

// convolvedLayers reads which layers have a convolution: layer_types, or all but those of full_attn_idxs.
func (c *config) convolvedLayers(a *Architecture) {
	o := &shortConvolutions{kernel: c.integer("conv_L_cache", maxKernel), bias: c.boolean("conv_bias")}
	a.own = o
	in := make([]bool, a.Layers)
	kinds, given := c.value("layer_types")
	list, _ := kinds.([]any)
	_, some := c.value("full_attn_idxs")
	switch {
	case given && int64(len(list)) != a.Layers:
		c.errs.Add(c.pointer+"/layer_types", "conflict", "layer_types is %s; it names %d layers", describe(kinds),
			a.Layers)
		return
	case given:
		for i, kind := range list {
			if in[i] = kind == "conv"; !in[i] && kind != fullAttention {
				c.errs.Add(c.pointer+"/layer_types", "unsupported",
					"a layer of type %s is not modelled; %s and conv are",
					describe(kind), fullAttention)
				return
			}
		}
	case some:
		for i := range in {
			in[i] = true
		}
		for _, i := range c.layerList("full_attn_idxs") {
			if i < a.Layers {
				in[i] = false
			}
		}
	default:
		return
	}
	if slices.Contains(in, true) {
		o.in, a.Irregular = in, true
	}
}

// convolutionState is how many elements a cache keeps for a convolution.
func (m *decoder) convolutionState(t *step.Tape) int64 {
	return t.Shape.Batch * m.a.Hidden * m.a.own.(*shortConvolutions).kernel
}

// lfm2Cache is Lfm2HybridConvCache, which has a state for every layer from the beginning, those that attend, too.
// Source: transformers/models/lfm2/modeling_lfm2.py (Lfm2HybridConvCache), 4.57.6 and 5.0.0.
func lfm2Cache(m *decoder, t *step.Tape) []step.T {
	states := make([]step.T, m.a.Layers)
	for i := range states {
		states[i] = t.CachedState(m.convolutionState(t), t.Recipe.Stored)
	}
	return states
}

// shortConvolved is Lfm2ShortConv, or attention where the layer has that.
func shortConvolved(m *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T) {
	o := m.a.own.(*shortConvolutions)
	if !o.convolves(l.index) {
		return m.attention(t, l, w, x)
	}
	h := t.Hold(x)
	if t.Recipe.ExplicitMask && t.Recipe.Software.MasksConvolutions { // apply_mask_to_padding_states
		t.Drop(h)
		h = t.Mul(x, m.given, true, step.LabelElementwise)
	}
	gates := l.q.keys(t, h, t.Shape.Batch > 1)
	parts := t.Chunks(gates, 3)
	t.Drop(gates)
	inner := t.Mul(parts[0], parts[2], false, step.LabelElementwise)
	t.Drop(h) // the variable has another value now
	cached, software := t.Recipe.UseCache, &t.Recipe.Software
	if cached {
		if !software.CachesConvolutions { // cache_position[0] > 0
			t.Drop(t.Input(1, step.Bool))
		}
		state := t.CachedState(m.convolutionState(t), inner.Dtype())
		if software.CachesConvolutions {
			m.cache = append(m.cache, state)
		} else { // copied into what there is
			defer t.Drop(state)
		}
	}
	var y step.T
	if software.ConvolvesByFunction {
		y = t.CausalConvolution(inner, l.conv.w, l.conv.b, o.kernel)
		t.Drop(inner) // the variable has another value now
	} else {
		y = t.CausalConvolutionModule(inner, l.conv.w, l.conv.b, o.kernel)
		defer t.Drop(inner)
	}
	if cached && software.ConvolvesByFunction {
		cut := t.Slice(y, y.Numel())
		t.Drop(y)
		y = cut
	}
	product := t.Mul(parts[1], y, false, step.LabelElementwise)
	out := l.out.forward(t, product)
	t.Drop(append([]step.T{product}, append(parts, y)...)...)
	return out, nil
}

func (o *shortConvolutions) mixed() (*experts, bool) { return o.sparse, true }
