package pipelines

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

var _ objective.Denoised = (*diffusion)(nil)

// average declares the moving average of what is trained (EMAModel), which is no part of the model.
// Source: diffusers/training_utils.py (EMAModel), 0.39.
func average(b *arch.Builder) {
	for _, p := range slices.Clone(b.P.List) {
		if p.Trained() {
			b.Declare(step.Parameter{Name: "ema." + p.Name, Numel: p.Numel, Rows: p.Rows, Cols: p.Cols,
				Matrices: p.Matrices, Outer: p.Outer, Dtype: step.F32, Buffer: true})
		}
	}
}

// HasVAE says whether the pipeline is given with its autoencoder.
func HasVAE(a *arch.Architecture) bool { return a.Own.(pipeline).vae != nil }

// ReadsCLIP says whether all of the pipeline's text encoders are CLIP's.
func ReadsCLIP(a *arch.Architecture) bool {
	return !slices.ContainsFunc(a.Own.(pipeline).texts, func(o textOptions) bool {
		_, is := o.(clipTextOptions)
		return !is
	})
}

// ReadsWidths says whether what the pipeline's text encoders return fits its UNet; side by side says that each of them
// gives a part of a token's embedding, and the last one what is pooled.
func ReadsWidths(a *arch.Architecture, sideBySide bool) bool {
	own := a.Own.(pipeline)
	u, is := own.denoiser.(unetOptions)
	if !is || len(own.texts) == 0 {
		return false
	}
	if !sideBySide {
		first, _ := own.texts[0].(clipTextOptions)
		return first.sizes.Hidden == u.context
	}
	sum, pooled := int64(0), int64(0)
	for _, o := range own.texts {
		c, _ := o.(clipTextOptions)
		sum += c.sizes.Hidden
		if pooled = c.sizes.Hidden; c.projects {
			pooled = c.projection
		}
	}
	return sum == u.context && pooled == u.pooled()
}

// pooled is the width of what is pooled of a prompt; the other part of what is added are sines of six numbers: two
// sizes and a corner of the picture.
func (o unetOptions) pooled() int64 { return o.added - pictureNumbers*o.sines }

// pictureNumbers is how many numbers say how a picture was cut.
const pictureNumbers = 6

// Moments is what the autoencoder makes of pictures: the mean and the variance of their latents.
func (m *diffusion) Moments(t *step.Tape, pixels step.T) step.T {
	s := t.Shape
	var moments step.T
	m.frozen(t, s, m.own.arrangement.VAE, func() { moments = m.vae.encode(t, pixels, s.Batch, s.Height, s.Width) })
	return moments
}

// Encoders is how many text encoders there are.
func (m *diffusion) Encoders() int { return len(m.texts) }

// Widths is how many numbers a UNet reads for a token, and how many of what is pooled of a prompt.
func (m *diffusion) Widths() (embedding, pooled int64) { return m.own.denoiser.reads() }

// prompt runs f on text encoder i.
func (m *diffusion) prompt(t *step.Tape, i int, f func(c *clipText)) {
	how := m.own.arrangement
	m.frozen(t, step.Shape{Batch: t.Shape.Batch, Tokens: how.TextTokens[i]}, how.Frozen, func() {
		f(m.texts[i].(*clipText))
	})
}

// Read is the last state of the first text encoder.
func (m *diffusion) Read(t *step.Tape, ids step.T) step.T {
	var hidden step.T
	m.prompt(t, 0, func(c *clipText) {
		var pooled step.T
		hidden, pooled = c.read(t, ids)
		t.Drop(pooled)
	})
	return hidden
}

// States are the last but one states of all text encoders, side by side, and what the last one pools. What an encoder
// returned first stays in a variable until the next one has returned.
// Source: diffusers examples/text_to_image/train_text_to_image_lora_sdxl.py (encode_prompt), 0.39.
func (m *diffusion) States(t *step.Tape, ids []step.T) (embeddings, pooled step.T) {
	pooled, former := step.NoTensor, step.NoTensor
	var each []step.T
	for i := range m.texts {
		m.prompt(t, i, func(c *clipText) {
			c.Text.Holds = true
			hidden, end := c.read(t, ids[i])
			states := c.Text.States
			each = append(each, t.Hold(states[len(states)-2]))
			first, rest := hidden, end
			if c.projects {
				first, rest = end, hidden
			}
			t.Drop(append([]step.T{rest, former}, states...)...)
			former, pooled = first, first
		})
	}
	embeddings = each[0]
	for _, x := range each[1:] {
		both := t.Concat(embeddings, x, step.LabelEmbedding)
		t.Drop(embeddings, x)
		embeddings = both
	}
	return embeddings, pooled
}

// denoising is what the denoiser and the ControlNet read.
func (m *diffusion) denoising(t *step.Tape, latents, embeddings, pooled step.T) denoising {
	s, scale := t.Shape, LatentScale(m.a)
	return denoising{latents: latents, embeddings: embeddings, pooled: pooled, batch: s.Batch, rows: s.Height / scale,
		columns: s.Width / scale, textTokens: m.own.arrangement.EmbeddedTokens}
}

// Control is what the ControlNet adds to each of the UNet's skips, and at the end to its middle.
func (m *diffusion) Control(t *step.Tape, latents, embeddings, picture step.T) []step.T {
	c := m.control.control(t, m.denoising(t, latents, embeddings, step.NoTensor), picture, extent{t.Shape.Height,
		t.Shape.Width})
	return append(c.skips, c.middle)
}

// Controlled is the UNet's prediction with that, which it takes over.
func (m *diffusion) Controlled(t *step.Tape, latents, embeddings step.T, added []step.T) step.T {
	last := len(added) - 1
	y := m.denoiser.(*unet).forward(t, m.denoising(t, latents, embeddings, step.NoTensor), controls{skips: added[:last],
		middle: added[last]})
	for _, x := range added {
		t.Drop(x)
	}
	return y
}
