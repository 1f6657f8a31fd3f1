package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// extent is how many rows and columns a picture or its latents have.
type extent struct{ rows, columns int64 }

func (s extent) places() int64 { return s.rows * s.columns }

// resnet is ResnetBlock2D with the time added between its convolutions, and without a time in an autoencoder.
// Source: diffusers/models/resnet.py, 0.39.
type resnet struct {
	before, between arch.Norm
	conv1, conv2    arch.Convolution
	time            arch.Linear
	timed           bool
	shortcut        arch.Convolution
	shortens        bool
	groups          int64
	scattersInput   bool
}

// buildResnet declares one from in to out channels; time is the width of the time's embedding, 0 for none.
func buildResnet(b *arch.Builder, name string, in, out, time, groups int64) resnet {
	m := resnet{timed: time > 0, shortens: in != out, groups: groups}
	m.before = b.Norm(name+".norm1", in, true)
	m.conv1 = b.Convolution(name+".conv1", in, out, 3, 3, true)
	if m.timed {
		m.time = b.Linear(name+".time_emb_proj", time, out, true)
		m.time.Matrix = true
	}
	m.between = b.Norm(name+".norm2", out, true)
	m.conv2 = b.Convolution(name+".conv2", out, out, 3, 3, true)
	if m.shortens {
		m.shortcut = b.Convolution(name+".conv_shortcut", in, out, 1, 1, true)
	}
	return m
}

// forward borrows x and the time.
func (m *resnet) forward(t *step.Tape, x, time step.T, at extent) step.T {
	places := at.places()
	t.In(step.PartNorm)
	h := t.GroupNorm(x, m.before.W, m.before.B, step.Grouped{Groups: m.groups, Scattered: m.scattersInput})
	h = silu(t, h)
	t.In(step.PartMLP)
	h = forward(m.conv1, t, h, places)
	added := step.NoTensor
	if m.timed {
		active := t.SiLU(time)
		added = m.time.Forward(t, active)
		t.Drop(active)
		sum := t.AddPerChannel(h, added, step.LabelConvolution)
		t.Drop(h)
		h = sum
	}
	t.In(step.PartNorm)
	normed := t.GroupNorm(h, m.between.W, m.between.B, step.Grouped{Groups: m.groups})
	t.Drop(h)
	h = silu(t, normed)
	t.In(step.PartMLP)
	h = forward(m.conv2, t, h, places)
	input := t.Hold(x)
	if m.shortens {
		t.Drop(input)
		input = t.PictureConvolution(x, m.shortcut.W, m.shortcut.B, places, false)
	}
	sum := t.AddPictures(input, h, step.LabelResidual)
	y := t.MulScalar(sum, step.LabelResidual)
	t.Drop(sum, input, added, h)
	return y
}

// silu is nn.SiLU; it takes over x.
func silu(t *step.Tape, x step.T) step.T {
	y := t.SiLU(x)
	t.Drop(x)
	return y
}

// forward is the convolution onto so many places; it takes over x.
func forward(m arch.Convolution, t *step.Tape, x step.T, places int64) step.T {
	y := t.PictureConvolution(x, m.W, m.B, places, false)
	t.Drop(x)
	return y
}
