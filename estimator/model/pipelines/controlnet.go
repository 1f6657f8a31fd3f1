package pipelines

import (
	"encoding/json"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/step"
)

// readControlNet is ControlNetModel, which a script makes of the UNet whose skips it adds to.
// Source: diffusers/models/controlnets/controlnet.py, 0.39.
type controlNet struct {
	own          controlNetOptions
	first        int32
	half         unetHalf
	conditioning []controlConvolution
	skips        []arch.Convolution
	middle       arch.Convolution
}

// controlConvolution is a convolution of the picture that controls, of which every second one halves it.
type controlConvolution struct {
	arch.Convolution
	shrinks bool
}

// controlNetOptions are the numbers of ControlNetModel.
type controlNetOptions struct {
	unetOptions
	conditions   int64   // the channels of the picture that controls
	conditioning []int64 // the channels that it goes through
}

func readControlNet(c *arch.Config) controlNetOptions {
	return controlNetOptions{unetOptions: readUNetHalf(c), conditions: c.Integer("conditioning_channels", maxHeads),
		conditioning: c.Integers("conditioning_embedding_out_channels", maxChannels)}
}

// readControlNet is the ControlNet that from_unet makes of a UNet.
func (o unetOptions) controlNet() controlNetOptions {
	return controlNetOptions{unetOptions: o, conditions: pictures.Rgb, conditioning: []int64{16, 32, 96, 256}}
}

// layers is how many blocks have a number of their own.
func (o controlNetOptions) layers() int64 { return o.halfLayers() }

// readControl reads a ControlNet's config.json, or makes the one that belongs to the UNet.
func (own *pipeline) readControl(raw json.RawMessage, pointer string, errs *invalid.List) bool {
	u, is := own.denoiser.(unetOptions)
	switch {
	case raw == nil && is:
		made := u.controlNet()
		own.control = &made
		return true
	case raw == nil:
		return true
	case !is:
		errs.Add(pointer, "unsupported", "a ControlNet is modelled beside a UNet; leave it out")
		return false
	}
	c, read := partConfig(raw, pointer, errs)
	if !read {
		return false
	}
	c.Defaults = unetDefaults
	given := readControlNet(c)
	if !slices.Equal(given.widths, u.widths) || given.perBlock != u.perBlock || given.context != u.context ||
		given.in != u.in {
		errs.Add(pointer, "conflict",
			"its block_out_channels, layers_per_block, cross_attention_dim and in_channels are "+
				"those of the unet, to which it adds")
		return false
	}
	own.control = &given
	return true
}

func (o controlNetOptions) declare(b *arch.Builder, first int) *controlNet {
	m := &controlNet{own: o, first: int32(first)}
	m.half = o.declareHalf(b, func() { m.declareConditioning(b) })
	onto := func(width int64) {
		m.skips = append(m.skips, b.Convolution("controlnet_down_blocks", width, width, 1, 1, true))
	}
	onto(o.widths[0])
	for i, width := range o.widths {
		for range o.perBlock {
			onto(width)
		}
		if m.half.down[i].shrinks {
			onto(width)
		}
	}
	last := o.widths[len(o.widths)-1]
	m.middle = b.Convolution("controlnet_mid_block", last, last, 1, 1, true)
	m.half.middle = o.declareMiddle(b)
	return m
}

// declareConditioning declares ControlNetConditioningEmbedding.
func (m *controlNet) declareConditioning(b *arch.Builder) {
	o := m.own
	add := func(in, out int64, shrinks bool) {
		m.conditioning = append(m.conditioning, controlConvolution{b.Convolution("controlnet_cond_embedding", in, out,
			3,
			3, true), shrinks})
	}
	add(o.conditions, o.conditioning[0], false)
	for i, width := range o.conditioning[1:] {
		before := o.conditioning[i]
		add(before, before, false)
		add(before, width, true)
	}
	add(o.conditioning[len(o.conditioning)-1], o.widths[0], false)
}

// control is ControlNetModel.forward on latents and the picture that controls, of so many rows and columns.
func (m *controlNet) control(t *step.Tape, in denoising, picture step.T, at extent) controls {
	r := &unetRun{t: t, unit: m.first, text: in.embeddings, textTokens: in.textTokens}
	time, held := m.half.embedTime(t, m.own.unetOptions, in)
	r.time = time
	held = append(held, time)
	latent := extent{in.rows, in.columns}
	t.In(step.PartEmbedding)
	sample := t.PictureConvolution(in.latents, m.half.in.W, m.half.in.B, latent.places(), false)
	condition := m.condition(t, picture, at)
	sum := t.Add(sample, condition, step.LabelEmbedding)
	t.Drop(sample)
	sample, skips := m.half.descend(r, sum, &latent)
	sample = m.half.middle.forward(r, sample, latent)
	t.EndLayers()
	return m.scaled(t, sample, skips, append(held, condition), latent)
}

// condition is what becomes of the picture that controls.
func (m *controlNet) condition(t *step.Tape, picture step.T, at extent) step.T {
	x := t.Hold(picture)
	for i, c := range m.conditioning {
		if c.shrinks {
			at = extent{step.CeilDiv(at.rows, 2), step.CeilDiv(at.columns, 2)}
		}
		if x = forward(c.Convolution, t, x, at.places()); i+1 < len(m.conditioning) {
			x = silu(t, x)
		}
	}
	return x
}

// scaled is what is added to the UNet's skips and to its middle. It takes over what it gets.
func (m *controlNet) scaled(t *step.Tape, sample step.T, skips []skip, held []step.T, at extent) controls {
	t.In(step.PartMLP)
	var made []step.T
	for i, s := range skips {
		w := m.skips[i]
		made = append(made, t.PictureConvolution(s.x, w.W, w.B, s.at.places(), false))
		held = append(held, s.x)
	}
	middle := t.PictureConvolution(sample, m.middle.W, m.middle.B, at.places(), false)
	var c controls
	for _, x := range made {
		c.skips = append(c.skips, t.MulScalar(x, step.LabelConvolution))
	}
	c.middle = t.MulScalar(middle, step.LabelConvolution)
	t.Drop(append(append(held, sample, middle), made...)...)
	return c
}
