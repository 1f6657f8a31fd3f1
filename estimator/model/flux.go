package model

import "github.com/vramplan/vramplan/estimator/step"

// Flux: a transformer whose first blocks keep text and picture apart, and whose others read them as one sequence.
// Source: diffusers/models/transformers/transformer_flux.py, 0.39.
var fluxDefaults = map[string]any{
	"patch_size": 1.0, "in_channels": 64.0, "num_layers": 19.0, "num_single_layers": 38.0,
	"attention_head_dim": 128.0, "num_attention_heads": 24.0, "joint_attention_dim": 4096.0,
	"pooled_projection_dim": 768.0, "guidance_embeds": false, "axes_dims_rope": []any{16.0, 56.0, 56.0}}

// fluxOptions are the numbers of FluxTransformer2DModel.
type fluxOptions struct {
	double, single, heads, headDim, in, out, joint, pooledWidth int64
	guidance                                                    bool
	axes                                                        [fluxAxes]int64
}

// fluxAxes is of how many numbers the place of a token consists.
const fluxAxes = 3

// fluxPatch is how many rows and columns of a latent make a token.
const fluxPatch = 2

func (c *config) flux() denoiserOptions {
	o := fluxOptions{double: c.integer("num_layers", maxLayers), single: c.integer("num_single_layers", maxLayers),
		heads: c.integer("num_attention_heads", maxHeads), headDim: c.integer("attention_head_dim", maxHeads),
		in: c.integer("in_channels", maxHeads), joint: c.integer("joint_attention_dim", maxChannels),
		pooledWidth: c.integer("pooled_projection_dim", maxChannels), guidance: c.boolean("guidance_embeds")}
	if o.out = c.optional("out_channels", maxHeads); o.out == 0 {
		o.out = o.in
	}
	if o.out != o.in {
		c.errs.Add(c.pointer+"/out_channels", "unsupported",
			"out_channels is %d and in_channels %d; a model that returns "+
				"what it reads is modelled", o.out, o.in)
	}
	if patch := c.integer("patch_size", maxHeads); patch > 1 {
		c.errs.Add(c.pointer+"/patch_size", "unsupported", "patch_size is %d; 1 is modelled: the script makes tokens "+
			"of %d by %d places", patch, fluxPatch, fluxPatch)
	}
	axes := c.integers("axes_dims_rope", maxHeads)
	sum := int64(0)
	for i, d := range axes {
		if sum += d; i < fluxAxes {
			o.axes[i] = d
		}
		if d%2 != 0 {
			c.errs.Add(c.pointer+"/axes_dims_rope", "not_divisible", "axes_dims_rope has %d; rotary positions need "+
				"even numbers", d)
		}
	}
	if len(axes) > 0 && (len(axes) != fluxAxes || sum != o.headDim) {
		c.errs.Add(c.pointer+"/axes_dims_rope", "conflict", "axes_dims_rope are %d numbers of sum %d; they are %d, of "+
			"the sum attention_head_dim, %d", len(axes), sum, fluxAxes, o.headDim)
	}
	return o
}

// maxHeads and maxChannels are beyond the heads, and the channels, of every published model.
const maxHeads, maxChannels = 1 << 12, 1 << 16

func (o fluxOptions) layers() int64   { return o.double + o.single }
func (o fluxOptions) channels() int64 { return o.in / (fluxPatch * fluxPatch) }
func (o fluxOptions) multiple() int64 { return fluxPatch }
func (o fluxOptions) width() int64    { return o.heads * o.headDim }
func (o fluxOptions) tokens(rows, columns int64) int64 {
	return (rows / fluxPatch) * (columns / fluxPatch)
}

func (o fluxOptions) reads() (embeddings, pooled int64) { return o.joint, o.pooledWidth }

func (o fluxOptions) shape(a *Architecture) {
	a.Name, a.Family = "flux", "flux"
	a.Hidden, a.Heads, a.KVHeads, a.HeadDim, a.FFN = o.width(), o.heads, o.heads, o.headDim, 4*o.width()
}

// flux is FluxTransformer2DModel.
type flux struct {
	own                          fluxOptions
	first                        int
	time                         timeText
	context, x                   linear
	doubles                      []fluxDouble
	singles                      []fluxSingle
	normOut, out                 linear
	batch, textTokens, picTokens int64
}

// fluxDouble is FluxTransformerBlock: of each pair the first is the picture's, the second the text's.
type fluxDouble struct {
	norm         [2]linear
	q, k, v, o   [2]linear
	normQ, normK [2]step.Weight
	up, down     [2]linear
}

// fluxSingle is FluxSingleTransformerBlock.
type fluxSingle struct {
	norm, up, down linear
	q, k, v        linear
	normQ, normK   step.Weight
}

func (o fluxOptions) declare(b *builder, first int) denoiser {
	d := o.width()
	m := &flux{own: o, first: first, doubles: make([]fluxDouble, o.double), singles: make([]fluxSingle, o.single)}
	m.time = b.timeText(o.pooledWidth, d, o.guidance)
	m.context, m.x = b.linear("context_embedder", o.joint, d, true), b.linear("x_embedder", o.in, d, true)
	for i := range m.doubles {
		m.doubles[i] = o.declareDouble(b)
	}
	for i := range m.singles {
		m.singles[i] = o.declareSingle(b)
	}
	m.normOut = b.matrix("norm_out.linear", d, 2*d)
	m.out = b.linear("proj_out", d, o.out, true)
	return m
}

func (o fluxOptions) declareDouble(b *builder) fluxDouble {
	const name = "transformer_blocks"
	d, width := o.width(), o.width()
	var l fluxDouble
	l.norm[0], l.norm[1] = b.matrix(name+".norm1.linear", d, 6*d), b.matrix(name+".norm1_context.linear", d, 6*d)
	l.normQ[0], l.normK[0] = b.parameter(name+".attn.norm_q", o.headDim, 1), b.parameter(name+".attn.norm_k",
		o.headDim, 1)
	l.q[0], l.k[0] = b.linear(name+".attn.to_q", d, width, true), b.linear(name+".attn.to_k", d, width, true)
	l.v[0], l.o[0] = b.linear(name+".attn.to_v", d, width, true), b.linear(name+".attn.to_out.0", width, d, true)
	l.normQ[1], l.normK[1] = b.parameter(name+".attn.norm_added_q", o.headDim, 1), b.parameter(
		name+".attn.norm_added_k", o.headDim, 1)
	l.q[1], l.k[1] = b.linear(name+".attn.add_q_proj", d, width, true), b.linear(name+".attn.add_k_proj", d, width,
		true)
	l.v[1], l.o[1] = b.linear(name+".attn.add_v_proj", d, width, true), b.linear(name+".attn.to_add_out", width, d,
		true)
	for k, ff := range [2]string{".ff", ".ff_context"} {
		l.up[k], l.down[k] = b.linear(name+ff+".net.0.proj", d, 4*d, true), b.linear(name+ff+".net.2", 4*d, d, true)
	}
	return l
}

func (o fluxOptions) declareSingle(b *builder) fluxSingle {
	const name = "single_transformer_blocks"
	d := o.width()
	var l fluxSingle
	l.norm, l.up = b.matrix(name+".norm.linear", d, 3*d), b.linear(name+".proj_mlp", d, 4*d, true)
	l.down = b.linear(name+".proj_out", 5*d, d, true)
	l.normQ, l.normK = b.parameter(name+".attn.norm_q", o.headDim, 1), b.parameter(name+".attn.norm_k", o.headDim, 1)
	l.q, l.k = b.linear(name+".attn.to_q", d, d, true), b.linear(name+".attn.to_k", d, d, true)
	l.v = b.linear(name+".attn.to_v", d, d, true)
	return l
}

// denoise is FluxTransformer2DModel.forward.
func (m *flux) denoise(t *step.Tape, in denoising) step.T {
	o := m.own
	m.batch, m.textTokens, m.picTokens = in.batch, in.textTokens, o.tokens(in.rows, in.columns)
	t.In(step.PartEmbedding)
	x := m.x.forward(t, in.latents)
	d := x.Dtype()
	times := t.Input(in.batch, d)
	condition := m.time.forward(t, in)
	context := m.context.forward(t, in.embeddings)
	cos, sin := m.positions(t, d)
	for i := range m.doubles {
		outs := t.Blocks(int32(m.first+i), []step.T{x, context, condition, cos, sin},
			func(t *step.Tape, in []step.T) []step.T { return m.double(t, &m.doubles[i], in) })
		t.Drop(x, context)
		x, context = outs[0], outs[1]
	}
	for i := range m.singles {
		outs := t.Blocks(int32(m.first+len(m.doubles)+i), []step.T{x, context, condition, cos, sin},
			func(t *step.Tape, in []step.T) []step.T { return m.single(t, &m.singles[i], in) })
		t.Drop(x, context)
		x, context = outs[0], outs[1]
	}
	t.EndLayers()
	t.In(step.PartNorm)
	scaled := continuousNorm(t, &m.normOut, x, condition, false)
	y := m.out.forward(t, scaled)
	t.Drop(scaled, x, context, times, cos, sin, condition)
	return y
}

// positions are the cosines and sines of every token's place, in float32 out of float64.
// Source: diffusers/models/embeddings.py (get_1d_rotary_pos_embed), 0.39.
func (m *flux) positions(t *step.Tape, d step.DType) (cos, sin step.T) {
	n := m.textTokens + m.picTokens
	ids := t.Input(fluxAxes*n, d)
	places := t.Input(fluxAxes*n, step.F32)
	var cosines, sines []step.T
	for _, width := range m.own.axes {
		angles := t.Input(n*width/2, step.F64)
		for k := range 2 {
			wave := t.Input(n*width/2, step.F64)
			twice := t.Input(n*width, step.F64)
			t.Drop(wave)
			narrow := t.Table(n*width, step.F32)
			t.Drop(twice)
			if k == 0 {
				cosines = append(cosines, narrow)
			} else {
				sines = append(sines, narrow)
			}
		}
		t.Drop(angles)
	}
	cos, sin = t.Table(n*m.own.headDim, step.F32), t.Table(n*m.own.headDim, step.F32)
	t.Drop(append(append(cosines, sines...), places, ids)...)
	return cos, sin
}
