package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// The autoencoder of a diffusion pipeline, of which training needs the encoder alone.
// Sources: diffusers/models/autoencoders/autoencoder_kl.py, vae.py, 0.39.
var autoencoderDefaults = map[string]any{
	"in_channels": 3.0, "out_channels": 3.0, "latent_channels": 4.0, "block_out_channels": []any{64.0},
	"layers_per_block": 1.0, "norm_num_groups": 32.0, "act_fn": "silu", "use_quant_conv": true,
	"use_post_quant_conv": true, "mid_block_add_attention": true}

// autoencoderOptions are the numbers of AutoencoderKL.
type autoencoderOptions struct {
	in, out, latent, perBlock, groups int64
	widths                            []int64
	quant, postQuant, attends         bool
}

// maxLevels is beyond the levels of every published network of pictures.
const maxLevels = 16

func readAutoencoder(c *arch.Config) autoencoderOptions {
	o := autoencoderOptions{in: c.Integer("in_channels", maxHeads), out: c.Integer("out_channels", maxHeads),
		latent: c.Integer("latent_channels", maxHeads), perBlock: c.Integer("layers_per_block", maxLevels),
		groups: c.Integer("norm_num_groups", maxHeads), widths: widths(c), quant: c.Boolean("use_quant_conv"),
		postQuant: c.Boolean("use_post_quant_conv"), attends: c.Boolean("mid_block_add_attention")}
	c.Activation("act_fn", "silu", "swish")
	blocks(c, "down_block_types", len(o.widths), "DownEncoderBlock2D")
	blocks(c, "up_block_types", len(o.widths), "UpDecoderBlock2D")
	divides(c, "norm_num_groups", o.groups, o.widths)
	return o
}

// widths reads block_out_channels.
func widths(c *arch.Config) []int64 {
	const key = "block_out_channels"
	widths := c.Integers(key, maxChannels)
	if len(widths) > maxLevels {
		c.Errs.Add(c.Pointer+"/"+key, "out_of_range", "%s has %d levels; there are at most %d", key, len(widths),
			maxLevels)
		return nil
	}
	return widths
}

// divides says where groups do not divide widths.
func divides(c *arch.Config, key string, groups int64, widths []int64) {
	for _, w := range widths {
		if groups > 0 && w%groups != 0 {
			c.Errs.Add(c.Pointer+"/"+key, "not_divisible", "%s %d does not divide the %d channels of a level", key,
				groups,
				w)
			return
		}
	}
}

// scale is by how much a latent is smaller than its picture, a side.
func (o autoencoderOptions) scale() int64 { return 1 << max(len(o.widths)-1, 0) }

// autoencoder is AutoencoderKL, whose decoder no step runs.
type autoencoder struct {
	own           autoencoderOptions
	in, out       arch.Convolution
	quant         arch.Convolution
	levels        []autoencoderLevel
	first, second resnet
	attention     pictureAttention
	final         arch.Norm
}

// autoencoderLevel is DownEncoderBlock2D.
type autoencoderLevel struct {
	resnets []resnet
	down    arch.Convolution
	shrinks bool
}

// pictureAttention is Attention over the places of a picture, with one head.
type pictureAttention struct {
	norm         arch.Norm
	q, k, v, out arch.Linear
}

func (o autoencoderOptions) declare(b *arch.Builder) *autoencoder {
	m := &autoencoder{own: o, levels: make([]autoencoderLevel, len(o.widths))}
	last := len(o.widths) - 1
	m.in = b.Convolution("encoder.conv_in", o.in, o.widths[0], 3, 3, true)
	in := o.widths[0]
	for i, width := range o.widths {
		l := &m.levels[i]
		for range o.perBlock {
			l.resnets = append(l.resnets, buildResnet(b, "encoder.down_blocks", in, width, 0, o.groups))
			in = width
		}
		if l.shrinks = i < last; l.shrinks {
			l.down = b.Convolution("encoder.down_blocks.downsamplers", width, width, 3, 3, true)
		}
	}
	m.first, m.second, m.attention = o.middle(b, "encoder")
	m.second.scattersInput = o.attends // the attention leaves the channels outermost
	m.final = b.Norm("encoder.conv_norm_out", in, true)
	m.out = b.Convolution("encoder.conv_out", in, 2*o.latent, 3, 3, true)
	o.decoder(b)
	if o.quant {
		m.quant = b.Convolution("quant_conv", 2*o.latent, 2*o.latent, 1, 1, true)
	}
	if o.postQuant {
		b.Convolution("post_quant_conv", o.latent, o.latent, 1, 1, true)
	}
	return m
}

// middle declares UNetMidBlock2D, whose attention is registered before its resnets.
func (o autoencoderOptions) middle(b *arch.Builder, name string) (first, second resnet, attention pictureAttention) {
	width := o.widths[len(o.widths)-1]
	name += ".mid_block"
	if o.attends {
		attention.norm = b.Norm(name+".group_norm", width, true)
		attention.q, attention.k = b.Linear(name+".to_q", width, width, true), b.Linear(name+".to_k", width, width,
			true)
		attention.v = b.Linear(name+".to_v", width, width, true)
		attention.out = b.Linear(name+".to_out.0", width, width, true)
	}
	return buildResnet(b, name, width, width, 0, o.groups), buildResnet(b, name, width, width, 0, o.groups), attention
}

// decoder declares Decoder, which the script moves to the GPU with the encoder.
func (o autoencoderOptions) decoder(b *arch.Builder) {
	last := len(o.widths) - 1
	in := o.widths[last]
	b.Convolution("decoder.conv_in", o.latent, in, 3, 3, true)
	for i := last; i >= 0; i-- {
		width := o.widths[i]
		for range o.perBlock + 1 {
			buildResnet(b, "decoder.up_blocks", in, width, 0, o.groups)
			in = width
		}
		if i > 0 {
			b.Convolution("decoder.up_blocks.upsamplers", width, width, 3, 3, true)
		}
	}
	o.middle(b, "decoder")
	b.Norm("decoder.conv_norm_out", o.widths[0], true)
	b.Convolution("decoder.conv_out", o.widths[0], o.out, 3, 3, true)
}

// encode is AutoencoderKL.encode of a batch of pictures, which it borrows: mean and logarithm of the variance of the
// latents. No step trains it, so that its checkpointing does not matter.
func (m *autoencoder) encode(t *step.Tape, pixels step.T, batch, height, width int64) step.T {
	shape := t.Shape
	t.Shape = step.Shape{Batch: batch}
	defer func() { t.Shape = shape }()
	t.In(step.PartMLP)
	at := extent{height, width}
	sample := t.PictureConvolution(pixels, m.in.W, m.in.B, at.places(), false)
	for i := range m.levels {
		y := m.levels[i].forward(t, sample, &at)
		t.Drop(sample)
		sample = y
	}
	y := m.middle(t, sample, at)
	t.Drop(sample)
	t.In(step.PartNorm)
	normed := t.GroupNorm(y, m.final.W, m.final.B, step.Grouped{Groups: m.own.groups, Scattered: m.own.attends})
	t.Drop(y)
	t.In(step.PartMLP)
	moments := forward(m.out, t, silu(t, normed), at.places())
	if m.own.quant {
		moments = forward(m.quant, t, moments, at.places())
	}
	return moments
}

// forward borrows x and returns what is half as large, a side, where the level shrinks.
func (l *autoencoderLevel) forward(t *step.Tape, x step.T, at *extent) step.T {
	h := t.Hold(x)
	for i := range l.resnets {
		y := l.resnets[i].forward(t, h, step.NoTensor, *at)
		t.Drop(h)
		h = y
	}
	if !l.shrinks {
		return h
	}
	padded := t.Padded(h, h.Numel()/at.places()*(at.rows+1)*(at.columns+1))
	at.rows, at.columns = at.rows/2, at.columns/2
	y := forward(l.down, t, padded, at.places())
	t.Drop(h)
	return y
}

func (m *autoencoder) middle(t *step.Tape, x step.T, at extent) step.T {
	h := m.first.forward(t, x, step.NoTensor, at)
	if m.own.attends {
		y := m.attention.forward(t, h, m.own.groups, at)
		t.Drop(h)
		h = y
	}
	y := m.second.forward(t, h, step.NoTensor, at)
	t.Drop(h)
	return y
}

// forward is AttnProcessor2_0 over a picture, with one head as wide as its channels.
// Source: diffusers/models/attention_processor.py, 0.39.
func (m *pictureAttention) forward(t *step.Tape, x step.T, groups int64, at extent) step.T {
	width := m.norm.W.Rows
	t.In(step.PartNorm)
	normed := t.GroupNorm(x, m.norm.W, m.norm.B, step.Grouped{Groups: groups})
	t.In(step.PartAttention)
	q, k, v := m.q.Forward(t, normed), m.k.Forward(t, normed), m.v.Forward(t, normed)
	h := step.Heads{Query: 1, KV: 1, Dim: width, Queries: at.places(), Keys: at.places(), Bidirectional: true}
	context := t.SDPA(q, k, v, h, nil, 0)
	out := m.out.Forward(t, context)
	t.Drop(context)
	sum := t.Add(out, x, step.LabelResidual)
	t.Drop(out)
	y := t.MulScalar(sum, step.LabelResidual)
	t.Drop(sum, normed, q, k, v)
	return y
}
