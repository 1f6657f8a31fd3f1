package hybrids

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// masksConvolutions is masks for LFM2's convolutions, CachesConvolutions what the library's cache keeps of them, and
// ConvolvesByFunction a function of the library that they go through.
var masksConvolutions = release.Declare("masks-convolutions", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "the convolutions of LFM2 in transformers 5 get the batch's mask, which is looked at first, and its " +
		"rotary frequencies are there once",
	Source: "models/lfm2/modeling_lfm2.py (Lfm2Model), 4.57.6, 5.0.0 and 5.23.0",
	Shown:  "traces of LFM2 with 4.57 and 5.23",
})

// cachesConvolutions is masks for LFM2's convolutions, CachesConvolutions what the library's cache keeps of them, and
// ConvolvesByFunction a function of the library that they go through.
var cachesConvolutions = release.Declare("caches-convolutions", release.Change{
	Library: "transformers", After: "5.0", From: "5.10",
	What: "LFM2 of transformers 5.10 fills the library's cache; before, it had one of its own, with a state for " +
		"each layer from the beginning, and keys and values that were not copied",
	Source: "models/lfm2/modeling_lfm2.py (Lfm2HybridConvCache), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
	Shown:  "traces of LFM2 with 4.57 and 5.23",
})

// LFM2Family is LFM2: Llama's pattern with norms of queries and keys, in which some layers have a gated short
// convolution in place of attention.
// Source: transformers/models/lfm2/modeling_lfm2.py, configuration_lfm2.py, 5.23.
var LFM2Family = arch.Family{ModelType: "lfm2", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 65536.0, "hidden_size": 2560.0, "intermediate_size": 12288.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "max_position_embeddings": 128000.0, "use_cache": true,
		"tie_word_embeddings": true, "conv_bias": false, "conv_L_cache": 3.0, "block_multiple_of": 256.0,
		"block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true, "hidden_act": "silu",
		"attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		if v, ok := c.Given["block_ff_dim"]; ok { // which the class takes for intermediate_size
			c.Given["intermediate_size"] = v
			c.Read["block_ff_dim"] = true
		}
		tiedEmbedding(c)
		a = blocks.ReadLlama(c, a)
		a.Activation, a.AttentionDropout, a.QKNorm, a.UndroppedAttention = "silu", 0, true, true
		a.FFN = adjustedFFN(c, a.FFN)
		a = convolvedLayers(c, a)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.MakeMask, with.Attend = declareLFM2, lfm2Mask, shortConvolved
		with.TablesFirst = func(b *arch.Builder) { b.Frequencies("rotary_emb.", b.A.RotaryWidth()/2) }
		if b.A.Software.Has(cachesConvolutions) {
			return blocks.BuildDecoder(b, with)
		}
		with.OwnCache = lfm2Cache
		if !b.A.Software.Has(masksConvolutions) {
			with.MakeMask = blocks.CausalMask
			with.TablesFirst = func(b *arch.Builder) {
				b.Frequencies("rotary_emb.", b.A.RotaryWidth()/2)
				b.Frequencies("pos_emb.", b.A.RotaryWidth()/2)
			}
		}
		return blocks.BuildDecoder(b, with)
	}}

// tiedEmbedding reads whether the head is the embedding's, as LFM2 calls it.
func tiedEmbedding(c *arch.Config) {
	if v, ok := c.Given["tie_embedding"]; ok {
		c.Given["tie_word_embeddings"] = v
		c.Read["tie_embedding"] = true
	}
}

// adjustedFFN is the width of Lfm2MLP: two thirds of the file's, rounded up, unless that says otherwise.
func adjustedFFN(c *arch.Config, width int64) int64 {
	if !c.Boolean("block_auto_adjust_ff_dim") {
		return width
	}
	width = 2 * width / 3
	if _, ok := c.Value("block_ffn_dim_multiplier"); !ok {
		return width
	}
	factor, ok := c.Factor("block_ffn_dim_multiplier", arch.MaxWidth)
	if !ok {
		return width
	}
	of := c.Integer("block_multiple_of", arch.MaxWidth)
	return min((int64(factor*float64(width))+of-1)/of*of, arch.MaxRows)
}

// declareLFM2 lists the modules of Lfm2DecoderLayer.
func declareLFM2(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	if o := a.Own.(*shortConvolutions); o.convolves(l.Index) {
		l.Conv = b.Convolution("conv.conv", 1, d, 1, o.kernel, o.bias)
		l.Q, l.Out = b.Linear("conv.in_proj", d, 3*d, o.bias), b.Linear("conv.out_proj", d, d, o.bias)
	} else {
		l.Q, l.K, l.V = b.Linear("self_attn.q_proj", d, q, false), b.Linear("self_attn.k_proj", d, kv, false),
			b.Linear("self_attn.v_proj", d, kv, false)
		l.Out = b.Linear("self_attn.out_proj", q, d, false)
		l.QNorm, l.KNorm = b.Norm("self_attn.q_layernorm", a.HeadDim, false),
			b.Norm("self_attn.k_layernorm", a.HeadDim, false)
	}
	if o := a.Own.(*shortConvolutions); o.sparse.In(l.Index) {
		l.Experts = buildLFM2Mixture(b, o)
		l.InputNorm, l.PostAttentionNorm = b.Norm("operator_norm", d, false), b.Norm("ffn_norm", d, false)
		return
	}
	l.Gate, l.Up = b.Linear("feed_forward.w1", d, a.FFN, false), b.Linear("feed_forward.w3", d, a.FFN, false)
	l.Down = b.Linear("feed_forward.w2", a.FFN, d, false)
	l.InputNorm, l.PostAttentionNorm = b.Norm("operator_norm", d, false), b.Norm("ffn_norm", d, false)
}

// lfm2Mask is the causal mask and, after it, the look at the mask for the convolutions.
func lfm2Mask(t *step.Tape, _ int64, d step.DType) *step.T {
	mask := blocks.CausalMask(t, 0, d)
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
	sparse *arch.Experts // in place of MLPs; nil for none
	// corrects says that the router corrects its scores.
	corrects bool
}

func (o *shortConvolutions) convolves(i int64) bool { return i < int64(len(o.in)) && o.in[i] }

// convolvedLayers reads which layers have a convolution: layer_types, or all but those of full_attn_idxs.
func convolvedLayers(c *arch.Config, a arch.Architecture) arch.Architecture {
	o := &shortConvolutions{kernel: c.Integer("conv_L_cache", arch.MaxKernel), bias: c.Boolean("conv_bias")}
	a.Own = o
	in := make([]bool, a.Layers)
	kinds, given := c.Value("layer_types")
	list, _ := kinds.([]any)
	_, some := c.Value("full_attn_idxs")
	switch {
	case given && int64(len(list)) != a.Layers:
		c.Errs.Add(c.Pointer+"/layer_types", "conflict", "layer_types is %s; it names %d layers", arch.Describe(kinds),
			a.Layers)
		return a
	case given:
		for i, kind := range list {
			if in[i] = kind == "conv"; !in[i] && kind != arch.FullAttention {
				c.Errs.Add(c.Pointer+"/layer_types", "unsupported",
					"a layer of type %s is not modelled; %s and conv are",
					arch.Describe(kind), arch.FullAttention)
				return a
			}
		}
	case some:
		for i := range in {
			in[i] = true
		}
		for _, i := range c.LayerList("full_attn_idxs") {
			if i < a.Layers {
				in[i] = false
			}
		}
	default:
		return a
	}
	if slices.Contains(in, true) {
		o.in, a.Irregular = in, true
	}
	return a
}

// convolutionState is how many elements a cache keeps for a convolution.
func convolutionState(m *blocks.Decoder, t *step.Tape) int64 {
	return t.Shape.Batch * m.A.Hidden * m.A.Own.(*shortConvolutions).kernel
}

// lfm2Cache is Lfm2HybridConvCache, which has a state for every layer from the beginning, those that attend, too.
// Source: transformers/models/lfm2/modeling_lfm2.py (Lfm2HybridConvCache), 4.57.6 and 5.0.0.
func lfm2Cache(m *blocks.Decoder, t *step.Tape) []step.T {
	states := make([]step.T, m.A.Layers)
	for i := range states {
		states[i] = t.CachedState(convolutionState(m, t), t.Recipe.Stored)
	}
	return states
}

// convolvesByFunction is masks for LFM2's convolutions, CachesConvolutions what the library's cache keeps of them,
// and ConvolvesByFunction a function of the library that they go through.
var convolvesByFunction = release.Declare("convolves-by-function", release.Change{
	Library: "transformers", After: "5.14", From: "5.17",
	What: "the convolutions of LFM2 in transformers 5.23 go through a function of the library, which casts what " +
		"it gets to the type of the parameters; before, through nn.Conv1d",
	Source: "models/lfm2/modeling_lfm2.py (Lfm2ShortConv), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
	Shown:  "traces of LFM2 with 4.57 and 5.23",
})

// shortConvolved is Lfm2ShortConv, or attention where the layer has that.
func shortConvolved(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	o := m.A.Own.(*shortConvolutions)
	if !o.convolves(l.Index) {
		return m.Attention(t, l, w, x)
	}
	h := t.Hold(x)
	if t.Recipe.ExplicitMask && t.Recipe.Software.Has(masksConvolutions) { // apply_mask_to_padding_states
		t.Drop(h)
		h = t.Mul(x, m.Given, true, step.LabelElementwise)
	}
	gates := l.Q.Keys(t, h, t.Shape.Batch > 1)
	parts := t.Chunks(gates, 3)
	t.Drop(gates)
	inner := t.Mul(parts[0], parts[2], false, step.LabelElementwise)
	t.Drop(h) // the variable has another value now
	cached, software := t.Recipe.UseCache, &t.Recipe.Software
	if cached {
		if !software.Has(cachesConvolutions) { // cache_position[0] > 0
			t.Drop(t.Input(1, step.Bool))
		}
		state := t.CachedState(convolutionState(m, t), inner.Dtype())
		if software.Has(cachesConvolutions) {
			m.Cache = append(m.Cache, state)
		} else { // copied into what there is
			defer t.Drop(state)
		}
	}
	var y step.T
	if software.Has(convolvesByFunction) {
		y = t.CausalConvolution(inner, l.Conv.W, l.Conv.B, o.kernel)
		t.Drop(inner) // the variable has another value now
	} else {
		y = t.CausalConvolutionModule(inner, l.Conv.W, l.Conv.B, o.kernel)
		defer t.Drop(inner)
	}
	if cached && software.Has(convolvesByFunction) {
		cut := t.Slice(y, y.Numel())
		t.Drop(y)
		y = cut
	}
	product := t.Mul(parts[1], y, false, step.LabelElementwise)
	out := l.Out.Forward(t, product)
	t.Drop(append([]step.T{product}, append(parts, y)...)...)
	return out, nil
}

func (o *shortConvolutions) Mixture() (*arch.Experts, bool) { return o.sparse, true }
