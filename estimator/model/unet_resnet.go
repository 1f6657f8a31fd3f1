package model

import "github.com/vramplan/vramplan/estimator/step"

// extent is how many rows and columns a picture or its latents have.
type extent struct{ rows, columns int64 }

func (s extent) places() int64 { return s.rows * s.columns }

// resnet is ResnetBlock2D with the time added between its convolutions, and without a time in an autoencoder.
// Source: diffusers/models/resnet.py, 0.39.
type resnet struct {
	before, between norm
	conv1, conv2    convolution
	time            linear
	timed           bool
	shortcut        convolution
	shortens        bool
	groups          int64
	scattersInput   bool
}

// resnet declares one from in to out channels; time is the width of the time's embedding, 0 for none.
func (b *builder) resnet(name string, in, out, time, groups int64) resnet {
	m := resnet{timed: time > 0, shortens: in != out, groups: groups}
	m.before = b.norm(name+".norm1", in, true)
	m.conv1 = b.convolution(name+".conv1", in, out, 3, 3, true)
	if m.timed {
		m.time = b.linear(name+".time_emb_proj", time, out, true)
		m.time.matrix = true
	}
	m.between = b.norm(name+".norm2", out, true)
	m.conv2 = b.convolution(name+".conv2", out, out, 3, 3, true)
	if m.shortens {
		m.shortcut = b.convolution(name+".conv_shortcut", in, out, 1, 1, true)
	}
	return m
}

// forward borrows x and the time.
func (m *resnet) forward(t *step.Tape, x, time step.T, at extent) step.T {
	places := at.places()
	t.In(step.PartNorm)
	h := t.GroupNorm(x, m.before.w, m.before.b, step.Grouped{Groups: m.groups, Scattered: m.scattersInput})
	h = silu(t, h)
	t.In(step.PartMLP)
	h = m.conv1.forward(t, h, places)
	added := step.NoTensor
	if m.timed {
		active := t.SiLU(time)
		added = m.time.forward(t, active)
		t.Drop(active)
		sum := t.AddPerChannel(h, added, step.LabelConvolution)
		t.Drop(h)
		h = sum
	}
	t.In(step.PartNorm)
	normed := t.GroupNorm(h, m.between.w, m.between.b, step.Grouped{Groups: m.groups})
	t.Drop(h)
	h = silu(t, normed)
	t.In(step.PartMLP)
	h = m.conv2.forward(t, h, places)
	input := t.Hold(x)
	if m.shortens {
		t.Drop(input)
		input = t.PictureConvolution(x, m.shortcut.w, m.shortcut.b, places, false)
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
func (m convolution) forward(t *step.Tape, x step.T, places int64) step.T {
	y := t.PictureConvolution(x, m.w, m.b, places, false)
	t.Drop(x)
	return y
}
