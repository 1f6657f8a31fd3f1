package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

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

func readFlux(c *arch.Config) denoiserOptions {
	o := fluxOptions{double: c.Integer("num_layers", arch.MaxLayers), single: c.Integer("num_single_layers", arch.MaxLayers),
		heads: c.Integer("num_attention_heads", maxHeads), headDim: c.Integer("attention_head_dim", maxHeads),
		in: c.Integer("in_channels", maxHeads), joint: c.Integer("joint_attention_dim", maxChannels),
		pooledWidth: c.Integer("pooled_projection_dim", maxChannels), guidance: c.Boolean("guidance_embeds")}
	if o.out = c.Optional("out_channels", maxHeads); o.out == 0 {
		o.out = o.in
	}
	if o.out != o.in {
		c.Errs.Add(c.Pointer+"/out_channels", "unsupported",
			"out_channels is %d and in_channels %d; a model that returns "+
				"what it reads is modelled", o.out, o.in)
	}
	if patch := c.Integer("patch_size", maxHeads); patch > 1 {
		c.Errs.Add(c.Pointer+"/patch_size", "unsupported", "patch_size is %d; 1 is modelled: the script makes tokens "+
			"of %d by %d places", patch, fluxPatch, fluxPatch)
	}
	axes := c.Integers("axes_dims_rope", maxHeads)
	sum := int64(0)
	for i, d := range axes {
		if sum += d; i < fluxAxes {
			o.axes[i] = d
		}
		if d%2 != 0 {
			c.Errs.Add(c.Pointer+"/axes_dims_rope", "not_divisible", "axes_dims_rope has %d; rotary positions need "+
				"even numbers", d)
		}
	}
	if len(axes) > 0 && (len(axes) != fluxAxes || sum != o.headDim) {
		c.Errs.Add(c.Pointer+"/axes_dims_rope", "conflict", "axes_dims_rope are %d numbers of sum %d; they are %d, of "+
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

func (o fluxOptions) shape(a arch.Architecture) arch.Architecture {
	a.Name, a.Family = "flux", "flux"
	a.Hidden, a.Heads, a.KVHeads, a.HeadDim, a.FFN = o.width(), o.heads, o.heads, o.headDim, 4*o.width()
	return a
}

// flux is FluxTransformer2DModel.
type flux struct {
	own                          fluxOptions
	first                        int
	time                         timeText
	context, x                   arch.Linear
	doubles                      []fluxDouble
	singles                      []fluxSingle
	normOut, out                 arch.Linear
	batch, textTokens, picTokens int64
}

// fluxDouble is FluxTransformerBlock: of each pair the first is the picture's, the second the text's.
type fluxDouble struct {
	norm         [2]arch.Linear
	q, k, v, o   [2]arch.Linear
	normQ, normK [2]step.Weight
	up, down     [2]arch.Linear
}

// fluxSingle is FluxSingleTransformerBlock.
type fluxSingle struct {
	norm, up, down arch.Linear
	q, k, v        arch.Linear
	normQ, normK   step.Weight
}

func (o fluxOptions) declare(b *arch.Builder, first int) denoiser {
	d := o.width()
	m := &flux{own: o, first: first, doubles: make([]fluxDouble, o.double), singles: make([]fluxSingle, o.single)}
	m.time = buildTimeText(b, o.pooledWidth, d, o.guidance)
	m.context, m.x = b.Linear("context_embedder", o.joint, d, true), b.Linear("x_embedder", o.in, d, true)
	for i := range m.doubles {
		m.doubles[i] = o.declareDouble(b)
	}
	for i := range m.singles {
		m.singles[i] = o.declareSingle(b)
	}
	m.normOut = matrix(b, "norm_out.linear", d, 2*d)
	m.out = b.Linear("proj_out", d, o.out, true)
	return m
}

func (o fluxOptions) declareDouble(b *arch.Builder) fluxDouble {
	const name = "transformer_blocks"
	d, width := o.width(), o.width()
	var l fluxDouble
	l.norm[0], l.norm[1] = matrix(b, name+".norm1.linear", d, 6*d), matrix(b, name+".norm1_context.linear", d, 6*d)
	l.normQ[0], l.normK[0] = b.Parameter(name+".attn.norm_q", o.headDim, 1), b.Parameter(name+".attn.norm_k",
		o.headDim, 1)
	l.q[0], l.k[0] = b.Linear(name+".attn.to_q", d, width, true), b.Linear(name+".attn.to_k", d, width, true)
	l.v[0], l.o[0] = b.Linear(name+".attn.to_v", d, width, true), b.Linear(name+".attn.to_out.0", width, d, true)
	l.normQ[1], l.normK[1] = b.Parameter(name+".attn.norm_added_q", o.headDim, 1), b.Parameter(
		name+".attn.norm_added_k", o.headDim, 1)
	l.q[1], l.k[1] = b.Linear(name+".attn.add_q_proj", d, width, true), b.Linear(name+".attn.add_k_proj", d, width,
		true)
	l.v[1], l.o[1] = b.Linear(name+".attn.add_v_proj", d, width, true), b.Linear(name+".attn.to_add_out", width, d,
		true)
	for k, ff := range [2]string{".ff", ".ff_context"} {
		l.up[k], l.down[k] = b.Linear(name+ff+".net.0.proj", d, 4*d, true), b.Linear(name+ff+".net.2", 4*d, d, true)
	}
	return l
}

func (o fluxOptions) declareSingle(b *arch.Builder) fluxSingle {
	const name = "single_transformer_blocks"
	d := o.width()
	var l fluxSingle
	l.norm, l.up = matrix(b, name+".norm.linear", d, 3*d), b.Linear(name+".proj_mlp", d, 4*d, true)
	l.down = b.Linear(name+".proj_out", 5*d, d, true)
	l.normQ, l.normK = b.Parameter(name+".attn.norm_q", o.headDim, 1), b.Parameter(name+".attn.norm_k", o.headDim, 1)
	l.q, l.k = b.Linear(name+".attn.to_q", d, d, true), b.Linear(name+".attn.to_k", d, d, true)
	l.v = b.Linear(name+".attn.to_v", d, d, true)
	return l
}

// denoise is FluxTransformer2DModel.forward.
func (m *flux) denoise(t *step.Tape, in denoising) step.T {
	o := m.own
	m.batch, m.textTokens, m.picTokens = in.batch, in.textTokens, o.tokens(in.rows, in.columns)
	t.In(step.PartEmbedding)
	x := m.x.Forward(t, in.latents)
	d := x.Dtype()
	times := t.Input(in.batch, d)
	condition := m.time.forward(t, in)
	context := m.context.Forward(t, in.embeddings)
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
	y := m.out.Forward(t, scaled)
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
