package hybrids

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen35Family is the text model of Qwen3.5: gated delta nets in place of attention in three of four layers, and
// attention whose output is gated, all as PyTorch's own operations run it, which is where the packages fla and
// causal-conv1d are not installed.
// Source: transformers/models/qwen3_5/modeling_qwen3_5.py, configuration_qwen3_5.py, 5.23.
var Qwen35Family = arch.Family{ModelType: "qwen3_5_text", Keys: arch.CommonKeys, Ignored: deltaNetsIgnored,
	Uncompiled: "torch.compile is not modelled for gated delta nets",
	Defaults: map[string]any{
		"vocab_size": 248320.0, "hidden_size": 4096.0, "intermediate_size": 12288.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "partial_rotary_factor": 0.25, "full_attention_interval": 4.0,
		"linear_conv_kernel_dim": 4.0, "linear_key_head_dim": 128.0, "linear_value_head_dim": 128.0,
		"linear_num_key_heads": 16.0, "linear_num_value_heads": 32.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = true
		a = readDeltaNets(c, a)
		return a
	},
	Build: func(b *arch.Builder) step.Network { return deltaDecoder(b, gridTables) }}

// deltaNetsIgnored: attention is gated in any case, and the layers that predict further tokens are not built. The rest
// is said by layer_types, or for other engines.
// Source: transformers/models/qwen3_5/configuration_qwen3_5.py, modeling_qwen3_5.py
// (_keys_to_ignore_on_load_unexpected), 5.23.
var deltaNetsIgnored = []string{"attn_output_gate", "full_attention_interval", "mamba_ssm_dtype", "mlp_only_layers",
	"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"}

// deltaDecoder builds a decoder some of whose layers have a delta net. tables are those of the rotary positions, nil
// for Llama's.
func deltaDecoder(b *arch.Builder, tables func(t *step.Tape, dim int64, d step.DType) (cos, sin step.T)) step.Network {
	with := blocks.LikeLlama()
	with.Declare, with.Normalize, with.MakeMask = declareQwen35, arch.Norm.Gemma, lfm2Mask
	with.Attend = deltaOrAttention
	if tables != nil {
		with.MakeTable = tables
	}
	return blocks.BuildDecoder(b, with)
}

// readDeltaNets is what decoders have of their own some of whose layers have a delta net.
type deltaNets struct {
	blocks.PartialRotary
	heads  step.DeltaHeads
	kernel int64
	in     []bool        // which layers have a delta net
	joined bool          // the projections of a delta net are two linear layers (Qwen3-Next)
	sparse *arch.Experts // in place of MLPs; nil for none
}

// DeltaChunks is in how many chunks a layer goes through so many tokens, 0 where no layer has a delta net.
func DeltaChunks(a *arch.Architecture, tokens int64) int64 {
	if o, ok := a.Own.(*deltaNets); ok && slices.Contains(o.in, true) {
		return step.DeltaChunks(tokens)
	}
	return 0
}

// buildDeltaNet holds the modules of a layer with one.
type deltaNet struct {
	timeBias, logDecay step.Weight
	conv               arch.Convolution
	norm               arch.Norm
	qkv, z, b, a, out  arch.Linear
	qkvz, ba           arch.Linear // in place of qkv, z, b and a where they are joined
}

// readDeltaNets reads the numbers of delta nets, and which layers have one: those that layer_types says, or all but
// every so many.
func readDeltaNets(c *arch.Config, a arch.Architecture) arch.Architecture {
	o := &deltaNets{kernel: c.Integer("linear_conv_kernel_dim", arch.MaxKernel), heads: step.DeltaHeads{
		Keys: c.Integer("linear_num_key_heads", arch.MaxWidth), Values: c.Integer("linear_num_value_heads",
			arch.MaxWidth),
		KeyDim: c.Integer("linear_key_head_dim", arch.MaxWidth), ValueDim: c.Integer("linear_value_head_dim",
			arch.MaxWidth)}}
	a.Own = o
	o.Width = blocks.RotaryFraction(c, "partial_rotary_factor", &a, false)
	if h := o.heads; h.Keys > 0 && h.Values%h.Keys != 0 {
		c.Errs.Add(c.Pointer+"/linear_num_value_heads", "not_divisible",
			"linear_num_value_heads is %d; it is a multiple "+
				"of linear_num_key_heads, %d", h.Values, h.Keys)
	}
	o.in = make([]bool, a.Layers)
	kinds, given := c.Value("layer_types")
	list, _ := kinds.([]any)
	switch {
	case !given:
		every := c.Integer("full_attention_interval", arch.MaxLayers)
		for i := range o.in {
			o.in[i] = every == 0 || (int64(i)+1)%every != 0
		}
	case int64(len(list)) != a.Layers:
		c.Errs.Add(c.Pointer+"/layer_types", "conflict", "layer_types is %s; it names %d layers", arch.Describe(kinds),
			a.Layers)
		return a
	default:
		for i, kind := range list {
			if o.in[i] = kind == "linear_attention"; !o.in[i] && kind != arch.FullAttention {
				c.Errs.Add(c.Pointer+"/layer_types", "unsupported", "a layer of type %s is not modelled; %s and "+
					"linear_attention are", arch.Describe(kind), arch.FullAttention)
				return a
			}
		}
	}
	a.Irregular = slices.Contains(o.in, true)
	return a
}

// declareQwen35 lists the modules of Qwen3_5DecoderLayer.
func declareQwen35(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	o := a.Own.(*deltaNets)
	if o.in[l.Index] {
		l.Mixer = buildDeltaNet(b, o)
	} else {
		q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
		l.Q = b.Linear("self_attn.q_proj", d, 2*q, a.QKVBias)
		l.K, l.V = b.Linear("self_attn.k_proj", d, kv, a.QKVBias), b.Linear("self_attn.v_proj", d, kv, a.QKVBias)
		l.Out = b.Linear("self_attn.o_proj", q, d, a.OutBias)
		l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	}
	if o.sparse.In(l.Index) {
		l.Experts = blocks.OfRelease(o.sparse, b)
	} else {
		blocks.DeclareMLP(b, l)
	}
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false), b.Norm("post_attention_layernorm", d, false)
}

// buildDeltaNet lists the modules of Qwen3_5GatedDeltaNet.
func buildDeltaNet(b *arch.Builder, o *deltaNets) *deltaNet {
	d, h := b.A.Hidden, o.heads
	keys, values := h.Keys*h.KeyDim, h.Values*h.ValueDim
	width := 2*keys + values
	m := &deltaNet{conv: b.Convolution("linear_attn.conv1d", 1, width, 1, o.kernel, false)}
	second := &m.norm.W
	if o.joined {
		m.qkvz = b.Linear("linear_attn.in_proj_qkvz", d, width+values, false)
		second = &m.qkvz.W
		m.ba = b.Linear("linear_attn.in_proj_ba", d, 2*h.Values, false)
	}
	m.norm = b.Norm("linear_attn.norm", h.ValueDim, false)
	m.out = b.Linear("linear_attn.out_proj", values, d, false)
	if !o.joined {
		m.qkv = b.Linear("linear_attn.in_proj_qkv", d, width, false)
		m.z = b.Linear("linear_attn.in_proj_z", d, values, false)
		m.b = b.Linear("linear_attn.in_proj_b", d, h.Values, false)
		m.a = b.Linear("linear_attn.in_proj_a", d, h.Values, false)
	}
	m.timeBias = b.Parameter("linear_attn.dt_bias", h.Values, 1)
	m.logDecay = b.Parameter("linear_attn.A_log", h.Values, 1)
	b.Ahead(m.timeBias, m.conv.W)
	b.Ahead(m.logDecay, *second) // which comes second then
	return m
}

// gridTables is Qwen3_5TextRotaryEmbedding: positions for time, height and width, of whose tables one is made in place.
func gridTables(t *step.Tape, dim int64, d step.DType) (cos, sin step.T) {
	const axes = 3
	n := t.Shape.N()
	positions := t.Table(axes*n, step.F32)
	angles := t.Table(axes*n*dim/2, step.F32)
	t.Drop(positions)
	wave := func() step.T {
		raw := t.Table(axes*n*dim/2, step.F32)
		scaled := t.Table(axes*n*dim/2, step.F32)
		t.Drop(raw)
		return scaled
	}
	join := func(x step.T) step.T {
		y := t.Table(n*dim, step.F32)
		t.Drop(x)
		return y
	}
	cos, sin = wave(), wave()
	sin = join(sin)
	cos = join(cos)
	if d != step.F32 {
		c, s := t.Table(n*dim, d), t.Table(n*dim, d)
		t.Drop(cos, sin)
		cos, sin = c, s
	}
	t.Drop(angles)
	return cos, sin
}

// deltaOrAttention is the delta net of a layer, or its attention.
func deltaOrAttention(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	if net, ok := l.Mixer.(*deltaNet); ok {
		return net.forward(m, t, x), nil
	}
	return gatedAttention(m, t, l, w, x)
}

// forward is Qwen3_5GatedDeltaNet.forward.
func (l *deltaNet) forward(m *blocks.Decoder, t *step.Tape, x step.T) step.T {
	o := m.A.Own.(*deltaNets)
	hidden := t.Hold(x)
	if t.Recipe.ExplicitMask { // apply_mask_to_padding_states
		t.Drop(hidden)
		hidden = t.Mul(x, m.Given, true, step.LabelElementwise)
	}
	p := l.project(o, t, hidden)
	mixed, z, b, a := p.mixed, p.z, p.b, p.a
	if t.Recipe.UseCache {
		m.Cache = append(m.Cache, t.CachedState(t.Shape.Batch*l.conv.W.Rows*o.kernel, mixed.Dtype()))
	}
	convolved := t.CausalConvolution(mixed, l.conv.W, l.conv.B, o.kernel)
	act := t.SiLU(convolved)
	t.Drop(convolved, mixed)
	if t.Recipe.UseCache {
		cut := t.Slice(act, act.Numel())
		t.Drop(act)
		act = cut
	}
	keys := t.Shape.N() * o.heads.Keys * o.heads.KeyDim
	parts := t.SplitParts(act, keys, keys, act.Numel()-2*keys)
	t.Drop(p.apart...)
	t.Drop(act)
	q, k, v := parts[0], parts[1], parts[2]
	fused := t.Recipe.Kernels.DeltaRule
	if o.heads.Keys == o.heads.Values && !fused {
		q, k = t.Heads(q, true), t.Heads(k, true)
	}
	if !fused {
		v = t.Heads(v, true)
	}
	beta := t.Sigmoid(b, step.LabelAttentionScores)
	decay := l.decay(t, a)
	var y, state step.T
	var kept []step.T
	if fused {
		y, state = t.FusedDeltaRule(q, k, v, decay, beta, o.heads, t.Recipe.UseCache)
	} else {
		y, state, kept = t.GatedDeltaRule(q, k, v, decay, beta, o.heads)
	}
	if t.Recipe.UseCache {
		m.Cache = append(m.Cache, t.CachedState(state.Numel(), state.Dtype()))
	}
	for _, x := range kept {
		t.MarkCache(x)
		m.Cache = append(m.Cache, x)
	}
	if y.Dtype() == step.F32 && t.Recipe.Compute == step.F32 && !fused { // which was only transposed
		dense := t.Contiguous(y)
		t.Drop(y)
		y = dense
	}
	normed := l.normed(t, y, z)
	t.Drop(y)
	out := l.out.Forward(t, normed)
	t.Drop(normed, z, b, a, q, k, v, beta, decay, state, hidden)
	t.Drop(p.whole...)
	return out
}

// projected is what a delta net's input becomes: what is convolved, the gate z, what beta and the decay are made of,
// and what else is held until the convolution's result is taken apart, and until the end of forward.
type projected struct {
	mixed, z, b, a step.T
	apart, whole   []step.T
}

func (l *deltaNet) project(o *deltaNets, t *step.Tape, x step.T) projected {
	if o.joined {
		return l.projectJoined(o, t, x)
	}
	return projected{mixed: l.qkv.Keys(t, x, t.Shape.Batch > 1), z: l.z.Forward(t, x), b: l.b.Keys(t, x, l.relays(t)),
		a: l.a.Keys(t, x, l.relays(t))}
}

// relays says whether the gradients of what beta and the decay are made of arrive with heads outermost; the kernels of
// flash-linear-attention leave tokens there.
func (l *deltaNet) relays(t *step.Tape) bool { return t.Shape.Batch > 1 && !t.Recipe.Kernels.DeltaRule }

// decay is -A_log.float().exp() * softplus(a.float() + dt_bias).
func (l *deltaNet) decay(t *step.Tape, a step.T) step.T {
	rate := t.Float(t.Parameter(l.logDecay), step.LabelCast)
	speed := t.Tanh(rate, step.LabelElementwise) // exp keeps its result, too
	t.Drop(rate)
	negative := t.MulScalar(speed, step.LabelElementwise)
	t.Drop(speed)
	wide := t.Float(a, step.LabelCast)
	moved := t.Add(wide, t.Parameter(l.timeBias), step.LabelElementwise)
	t.Drop(wide)
	soft := t.SiLU(moved) // softplus keeps its input, too
	t.Drop(moved)
	y := t.Mul(negative, soft, false, step.LabelElementwise)
	t.Drop(negative, soft)
	return y
}

// normed is Qwen3_5RMSNormGated.
func (l *deltaNet) normed(t *step.Tape, x, gate step.T) step.T {
	x32 := t.Float(x, step.LabelNormScaled)
	square := t.Pow(x32, step.LabelElementwise)
	mean := t.MeanRows(square, l.norm.W.Rows, step.LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(mean, step.LabelNormStatistics)
	deviation := t.Rsqrt(eps, step.LabelNormStatistics)
	t.Drop(eps)
	scaled := t.Mul(x32, deviation, true, step.LabelNormScaled)
	t.Drop(deviation, x32)
	narrow := t.Cast(scaled, x.Dtype(), step.LabelNormOutput)
	weighed := t.Mul(t.Parameter(l.norm.W), narrow, false, step.LabelNormOutput)
	t.Drop(narrow, scaled)
	wide := t.Float(gate, step.LabelCast)
	act := t.SiLU(wide)
	t.Drop(wide)
	y := t.Mul(weighed, act, false, step.LabelNormOutput)
	t.Drop(weighed, act)
	out := t.Cast(y, x.Dtype(), step.LabelNormOutput)
	t.Drop(y, mean)
	return out
}

// gatedAttention is Qwen3_5Attention.
func gatedAttention(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	p := &m.A.Own.(*deltaNets).PartialRotary
	c := m.Copies(t, w)
	both := l.Q.Forward(t, x)
	halves := t.Chunks(both, 2)
	t.Drop(both)
	gate := t.Contiguous(halves[1])
	t.Drop(halves[1])
	q := m.Normalize(l.QNorm, t, halves[0])
	t.Drop(halves[0])
	kept := t.Heads(l.K.Forward(t, x), c.Key)
	k := m.Normalize(l.KNorm, t, kept)
	t.Drop(kept)
	v := t.Heads(l.V.Forward(t, x), c.Value)
	qs, ks := p.Split(t, q, m.A.HeadDim), p.Split(t, k, m.A.HeadDim)
	qe, ke := t.Rotary(qs.Turned, w.Cos, w.Sin), t.Rotary(ks.Turned, w.Cos, w.Sin)
	qr := t.JoinHeads(qe, qs.Rest)
	t.Drop(qe)
	kr := t.JoinHeads(ke, ks.Rest)
	t.Drop(ke, q, k)
	qs.Drop(t)
	ks.Drop(t)
	kr, v = blocks.AppendKV(t, &m.Cache, kr, v)
	y, probabilities := m.Scores(t, w, m.A.Geometry(), qr, kr, v)
	open := t.Sigmoid(gate, step.LabelActivation)
	gated := t.Mul(y, open, false, step.LabelAttentionOutput)
	t.Drop(open, y)
	out := l.Out.Forward(t, gated)
	t.Drop(gated, gate, qr, kr, v)
	return out, probabilities
}

func (o *deltaNets) Mixture() (*arch.Experts, bool) { return o.sparse, true }
