package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// interfacesStableLM is StableLM with one rotary embedding for all layers, whose attention is the library's.
var interfacesStableLM = release.Declare("interfaces-stablelm", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "StableLM of transformers 5.23 has one rotary embedding for all layers, and its attention goes " +
		"through the library's interfaces: grouped keys and values are repeated for eager attention alone",
	Source: "models/stablelm/modeling_stablelm.py (StableLmAttention), 4.57.6 and 5.23.0",
	Shown:  "traces of StableLM",
})

// StableLMFamily is StableLM: Llama between LayerNorms, with rotary positions on a part of every head and, if asked
// for, attention and MLP beside each other. Source: transformers/models/stablelm/modeling_stablelm.py,
// configuration_stablelm.py, 4.57.
var StableLMFamily = arch.Family{ModelType: "stablelm", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 50304.0, "hidden_size": 2560.0, "intermediate_size": 6912.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 4096.0,
		"use_cache":               true, "tie_word_embeddings": false, "use_qkv_bias": false, "qk_layernorm": false,
		"use_parallel_residual": false,
		"hidden_dropout":        0.0, "attention_dropout": 0.0, "partial_rotary_factor": 0.25},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Rotary = false // said of the part that is turned
		a.HeadDim = 0    // head_dim is not read
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.ResidualDropout = c.Probability("hidden_dropout")
		a.QKVBias, a.QKNorm, a.NormBias = c.Boolean("use_qkv_bias"), c.Boolean("qk_layernorm"), true
		a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, false),
			Parallel: c.Boolean("use_parallel_residual")}
		return a
	},
	Spelled: map[string]string{"attention_bias": "use_qkv_bias", "residual_dropout": "hidden_dropout"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["use_parallel_residual"], c["qk_layernorm"] = p.NormsPerLayer == 1, p.QKNorm != ""
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Block = declareStableLM, stableLMBlock
		with.Normalize, with.NormBias, with.Repeats = arch.Norm.Layer, true, true
		if b.A.Software.Has(interfacesStableLM) {
			with.Repeats = false
			return blocks.BuildDecoder(b, with)
		}
		with.MakeMask = func(t *step.Tape, _ int64, d step.DType) *step.T { return blocks.TriangularMask(t, d) }
		with.Eager.MaskInPlace = true
		return blocks.BuildDecoder(b, with)
	}}

// declareStableLM lists the modules of StableLmDecoderLayer. Every head's queries and keys have a norm of their own.
func declareStableLM(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	if a.QKNorm {
		l.QNorms, l.KNorms = headNorms(b, "self_attn.q_layernorm", a.Heads),
			headNorms(b, "self_attn.k_layernorm", a.KVHeads)
	}
	if !a.Software.Has(interfacesStableLM) {
		b.Frequencies("self_attn.rotary_emb.", a.RotaryWidth()/2)
	}
	blocks.DeclareMLP(b, l)
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, true)
	if !blocks.Rotary(a).Parallel {
		l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, true)
	}
}

// headNorms is StableLmLayerNormPerHead.
func headNorms(b *arch.Builder, name string, heads int64) []arch.Norm {
	all := make([]arch.Norm, heads)
	for i := range all {
		all[i] = b.Norm(name+".norms", b.A.HeadDim, false)
	}
	return all
}

// normHeads is q_layernorm or k_layernorm. It takes over x.
func normHeads(t *step.Tape, norms []arch.Norm, x step.T) step.T {
	gains := make([]step.Weight, len(norms))
	for i, n := range norms {
		gains[i] = n.W
	}
	y := t.HeadNorms(x, gains)
	t.Drop(x)
	return y
}

// stableLMBlock is x + self_attn(h) + dropout(mlp(h)) with h = input_layernorm(x) or, one after the other, as in Llama.
func stableLMBlock(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := stableLMAttention(m, t, l, w, h)

	t.In(step.PartNorm)
	middle := t.Hold(h)
	sum := t.Hold(attn)
	if !blocks.Rotary(m.A).Parallel {
		t.Drop(sum)
		sum = t.Add(x, attn, step.LabelResidual)
		t.Drop(middle)
		middle = m.Normalize(l.PostAttentionNorm, t, sum)
	}
	t.In(step.PartMLP)
	down := m.MLP(t, l, middle)
	t.Drop(middle)
	mlp := t.Dropout(down, m.A.ResidualDropout)
	t.Drop(down)
	t.In(step.PartNorm)
	if blocks.Rotary(m.A).Parallel {
		t.Drop(sum)
		sum = t.Add(x, attn, step.LabelResidual)
	}
	y := t.Add(sum, mlp, step.LabelResidual)
	t.Drop(sum, h, attn, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// stableLMAttention is StableLmSdpaAttention or StableLmAttention, which repeat grouped keys and values for every
// kernel and let go of the probabilities, or that of later releases, which goes through the library's interfaces.
func stableLMAttention(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	heads, c, p := m.A.Geometry(), m.Copies(t, w), blocks.Rotary(m.A)
	q, k, v := l.Q.Forward(t, x), l.K.Forward(t, x), l.V.Forward(t, x)
	q, k, v = t.Heads(q, c.Query), t.Heads(k, c.Key), t.Heads(v, c.Value)
	if m.A.QKNorm {
		q, k = normHeads(t, l.QNorms, q), normHeads(t, l.KNorms, k)
	}
	qs, ks := p.Split(t, q, heads.Dim), p.Split(t, k, heads.Dim)
	qe, ke := t.Rotary(qs.Turned, w.Cos, w.Sin), t.Rotary(ks.Turned, w.Cos, w.Sin)
	t.Drop(qs.Turned, ks.Turned)
	qr := t.JoinHeads(qe, qs.Rest)
	t.Drop(q)
	kr := t.JoinHeads(ke, ks.Rest)
	t.Drop(k)
	k, v = blocks.AppendKV(t, &m.Cache, kr, v)
	if m.Repeats {
		for _, x := range [...]*step.T{&k, &v} {
			repeated := t.RepeatKV(*x, heads)
			t.Drop(*x)
			*x = repeated
		}
		if w.Mask != nil && t.Recipe.Attention != step.AttentionEager {
			k, v = denseHeads(t, heads, k, v)
		}
		heads.KV = heads.Query
	}
	y, probabilities := m.Scores(t, w, heads, qr, k, v)
	out := l.Out.Forward(t, y)
	t.Drop(y, qr, k, v, qe, ke, qs.Rest, ks.Rest)
	if probabilities != nil && m.Repeats {
		t.Drop(*probabilities)
		probabilities = nil
	}
	return out, probabilities
}

// denseHeads is contiguous() on keys and values, which StableLmSdpaAttention calls where there is a mask. It copies
// what is still a view: values that no cache holds and that were not repeated, and what one head repeats for all. It
// takes over k and v.
func denseHeads(t *step.Tape, heads step.Heads, k, v step.T) (dk, dv step.T) {
	dense := func(x step.T) step.T {
		y := t.Contiguous(x)
		t.Drop(x)
		return y
	}
	switch {
	case heads.Query == 1:
		return k, v
	case heads.KV == 1:
		return dense(k), dense(v)
	case heads.KV == heads.Query && !t.Recipe.UseCache:
		return k, dense(v)
	}
	return k, v
}
