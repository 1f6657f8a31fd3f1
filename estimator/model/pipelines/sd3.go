package pipelines

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Stable Diffusion 3: a transformer of blocks in which text and picture have weights of their own and attend together.
// Source: diffusers/models/transformers/transformer_sd3.py, attention.py (JointTransformerBlock), 0.39.
var sd3Defaults = map[string]any{
	"sample_size": 128.0, "patch_size": 2.0, "in_channels": 16.0, "num_layers": 18.0, "attention_head_dim": 64.0,
	"num_attention_heads": 18.0, "joint_attention_dim": 4096.0, "caption_projection_dim": 1152.0,
	"pooled_projection_dim": 2048.0, "out_channels": 16.0, "pos_embed_max_size": 96.0}

// sd3Options are the numbers of SD3Transformer2DModel.
type sd3Options struct {
	blocks, heads, headDim, patch, in, out, joint, pooledWidth, places int64
	// norms says that queries and keys are normed, and dual in which blocks the picture attends to itself besides: both
	// as in Stable Diffusion 3.5.
	norms bool
	dual  []int64
}

func readSD3(c *arch.Config) denoiserOptions {
	o := sd3Options{blocks: c.Integer("num_layers", arch.MaxLayers), heads: c.Integer("num_attention_heads", maxHeads),
		headDim: c.Integer("attention_head_dim", maxHeads), patch: c.Integer("patch_size", maxLevels),
		in: c.Integer("in_channels", maxHeads), out: c.Integer("out_channels", maxHeads),
		joint: c.Integer("joint_attention_dim", maxChannels), pooledWidth: c.Integer("pooled_projection_dim",
			maxChannels),
		places: c.Integer("pos_embed_max_size", maxHeads)}
	if width := c.Integer("caption_projection_dim", maxChannels); width != o.width() {
		c.Errs.Add(c.Pointer+"/caption_projection_dim", "conflict", "caption_projection_dim is %d, and text and "+
			"picture attend together in num_attention_heads × attention_head_dim, %d", width, o.width())
	}
	if o.out != o.in {
		c.Errs.Add(c.Pointer+"/out_channels", "unsupported",
			"out_channels is %d and in_channels %d; a model that returns "+
				"what it reads is modelled", o.out, o.in)
	}
	if v, given := c.Value("qk_norm"); given && v != "rms_norm" {
		c.Errs.Add(c.Pointer+"/qk_norm", "unsupported", "qk_norm is %s; rms_norm and none are modelled", arch.Describe(v))
	} else {
		o.norms = given
	}
	o.dual = c.LayersBelow("dual_attention_layers", o.blocks)
	return o
}

func (o sd3Options) layers() int64   { return o.blocks }
func (o sd3Options) channels() int64 { return o.in }
func (o sd3Options) multiple() int64 { return o.patch }
func (o sd3Options) width() int64    { return o.heads * o.headDim }
func (o sd3Options) tokens(rows, columns int64) int64 {
	return (rows / o.patch) * (columns / o.patch)
}

func (o sd3Options) reads() (embeddings, pooled int64) { return o.joint, o.pooledWidth }

func (o sd3Options) shape(a arch.Architecture) arch.Architecture {
	a.Name, a.Family = "sd3", "sd3"
	a.Hidden, a.Heads, a.KVHeads, a.HeadDim, a.FFN = o.width(), o.heads, o.heads, o.headDim, 4*o.width()
	return a
}

// sd3 is SD3Transformer2DModel.
type sd3 struct {
	own           sd3Options
	first         int
	patches       arch.Convolution
	time          timeText
	context       arch.Linear
	blocks        []sd3Block
	normOut, out  arch.Linear
	stored        step.DType // of the table of places
	batch         int64
	text, picture int64 // tokens
}

// sd3Block is JointTransformerBlock: of each pair the first is the picture's, the second the text's. The last block
// leaves the text alone.
type sd3Block struct {
	norm     [2]arch.Linear
	q, k, v  [2]arch.Linear
	o        [2]arch.Linear
	up, down [2]arch.Linear
	last     bool
	// normQ and normK are there where queries and keys are normed; second is the picture's attention to itself.
	normQ, normK [2]arch.Norm
	second       *sd3Second
}

// sd3Second is the attention of a picture to itself.
type sd3Second struct {
	q, k, v, o   arch.Linear
	normQ, normK arch.Norm
}

func (o sd3Options) declare(b *arch.Builder, first int) denoiser {
	d := o.width()
	m := &sd3{own: o, first: first, blocks: make([]sd3Block, o.blocks)}
	m.patches = b.Convolution("pos_embed.proj", o.in, d, o.patch, o.patch, true)
	b.Buffer("pos_embed.pos_embed", o.places*o.places*d, b.Dtype)
	m.stored = b.Dtype
	m.time = buildTimeText(b, o.pooledWidth, d, false)
	m.context = b.Linear("context_embedder", o.joint, d, true)
	for i := range m.blocks {
		m.blocks[i] = o.declareBlock(b, i == len(m.blocks)-1, slices.Contains(o.dual, int64(i)))
	}
	m.normOut = matrix(b, "norm_out.linear", d, 2*d)
	m.out = b.Linear("proj_out", d, o.patch*o.patch*o.out, true)
	return m
}

func (o sd3Options) declareBlock(b *arch.Builder, last, dual bool) sd3Block {
	const name = "transformer_blocks"
	d := o.width()
	l := sd3Block{last: last}
	parts := [2]int64{6, 6}
	if dual {
		parts[0] = 9
	}
	if last {
		parts[1] = 2
	}
	l.norm[0] = matrix(b, name+".norm1.linear", d, parts[0]*d)
	l.norm[1] = matrix(b, name+".norm1_context.linear", d, parts[1]*d)
	gains := func(at, q, k string) (arch.Norm, arch.Norm) {
		if !o.norms {
			return arch.Norm{}, arch.Norm{}
		}
		return b.Norm(name+at+q, o.headDim, false), b.Norm(name+at+k, o.headDim, false)
	}
	l.normQ[0], l.normK[0] = gains(".attn.", "norm_q", "norm_k")
	l.q[0], l.k[0] = b.Linear(name+".attn.to_q", d, d, true), b.Linear(name+".attn.to_k", d, d, true)
	l.v[0] = b.Linear(name+".attn.to_v", d, d, true)
	l.k[1], l.v[1] = b.Linear(name+".attn.add_k_proj", d, d, true), b.Linear(name+".attn.add_v_proj", d, d, true)
	l.q[1] = b.Linear(name+".attn.add_q_proj", d, d, true)
	l.o[0] = b.Linear(name+".attn.to_out.0", d, d, true)
	if !last {
		l.o[1] = b.Linear(name+".attn.to_add_out", d, d, true)
	}
	l.normQ[1], l.normK[1] = gains(".attn.", "norm_added_q", "norm_added_k")
	if dual {
		s := &sd3Second{}
		s.normQ, s.normK = gains(".attn2.", "norm_q", "norm_k")
		s.q, s.k = b.Linear(name+".attn2.to_q", d, d, true), b.Linear(name+".attn2.to_k", d, d, true)
		s.v, s.o = b.Linear(name+".attn2.to_v", d, d, true), b.Linear(name+".attn2.to_out.0", d, d, true)
		l.second = s
	}
	for k, ff := range [2]string{".ff", ".ff_context"} {
		if k == 1 && last {
			break
		}
		l.up[k], l.down[k] = b.Linear(name+ff+".net.0.proj", d, 4*d, true), b.Linear(name+ff+".net.2", 4*d, d, true)
	}
	return l
}

// denoise is SD3Transformer2DModel.forward.
func (m *sd3) denoise(t *step.Tape, in denoising) step.T {
	m.batch, m.text, m.picture = in.batch, in.textTokens, m.own.tokens(in.rows, in.columns)
	t.In(step.PartEmbedding)
	x := m.embed(t, in.latents)
	condition := m.time.forward(t, in)
	context := m.context.Forward(t, in.embeddings)
	for i := range m.blocks {
		outs := t.Blocks(int32(m.first+i), []step.T{x, context, condition},
			func(t *step.Tape, in []step.T) []step.T { return m.block(t, &m.blocks[i], in) })
		t.Drop(x, context)
		x, context = outs[0], step.NoTensor
		if len(outs) > 1 {
			context = outs[1]
		}
	}
	t.EndLayers()
	t.In(step.PartNorm)
	scaled := continuousNorm(t, &m.normOut, x, condition, true)
	t.Drop(x)
	flat := m.out.Forward(t, scaled)
	t.Drop(scaled)
	y := t.Relaid(flat)
	t.Drop(flat, condition)
	return y
}

// embed is PatchEmbed: a convolution, and the places of the patches, cut out of a table that is stored as the weights.
func (m *sd3) embed(t *step.Tape, latents step.T) step.T {
	cut := t.Convolution(latents, m.patches.W, m.patches.B, m.picture, true)
	places := t.Input(m.picture*m.own.width(), m.stored)
	sum := t.Add(cut, places, step.LabelPositions)
	y := t.Cast(sum, cut.Dtype(), step.LabelEmbedding)
	t.Drop(sum, cut, places)
	return y
}
