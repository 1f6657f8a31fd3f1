package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// What the transformers of diffusion pipelines share: norms whose scale and shift say how noisy the latents are and
// what they show. Sources: diffusers/models/normalization.py, embeddings.py, 0.39.

// timeChannels is how many sines and cosines stand for a time.
const timeChannels = 256

// buildTimeText is CombinedTimestepTextProjEmbeddings, or CombinedTimestepGuidanceTextProjEmbeddings: each of the
// pairs is two linear layers with SiLU between them.
type timeText struct {
	time, guidance, text [2]arch.Linear
	guided               bool
}

func buildTimeText(b *arch.Builder, pooled, width int64, guided bool) timeText {
	m := timeText{guided: guided}
	pair := func(name string, in int64) [2]arch.Linear {
		return [2]arch.Linear{matrix(b, "time_text_embed."+name+".linear_1", in, width),
			matrix(b, "time_text_embed."+name+".linear_2", width, width)}
	}
	m.time = pair("timestep_embedder", timeChannels)
	if guided {
		m.guidance = pair("guidance_embedder", timeChannels)
	}
	m.text = pair("text_embedder", pooled)
	return m
}

// matrix is a linear layer that runs on one row for each picture.
func matrix(b *arch.Builder, name string, in, out int64) arch.Linear {
	m := b.Linear(name, in, out, true)
	m.Matrix = true
	return m
}

// forward is the condition of the norms.
func (m *timeText) forward(t *step.Tape, in denoising) step.T {
	t.In(step.PartEmbedding)
	embed := func(layers *[2]arch.Linear, x step.T) step.T {
		h := layers[0].Forward(t, x)
		act := t.SiLU(h)
		t.Drop(h)
		y := layers[1].Forward(t, act)
		t.Drop(act)
		return y
	}
	timed := func(layers *[2]arch.Linear) step.T {
		sines := t.Sinusoids(in.batch, timeChannels)
		x := t.Cast(sines, in.pooled.Dtype(), step.LabelCast)
		y := embed(layers, x)
		t.Drop(x, sines)
		return y
	}
	sum := timed(&m.time)
	if m.guided {
		guided := timed(&m.guidance)
		both := t.Add(sum, guided, step.LabelEmbedding)
		t.Drop(sum, guided)
		sum = both
	}
	text := embed(&m.text, in.pooled)
	y := t.Add(sum, text, step.LabelEmbedding)
	t.Drop(sum, text)
	return y
}

// modulate is x * (1 + scale) + shift for every picture's tokens. It takes over x.
func modulate(t *step.Tape, x, scale, shift step.T) step.T {
	one := t.AddScalar(scale, step.LabelElementwise)
	scaled := t.Mul(x, one, false, step.LabelElementwise)
	t.Drop(x, one)
	y := t.Add(scaled, shift, step.LabelElementwise)
	t.Drop(scaled)
	return y
}

// zeroNorm is AdaLayerNormZero: x normalised, scaled and moved by what a linear layer makes of the condition, and all
// of that, in n parts and together. transposed says that the elements of a row of x do not lie side by side.
func zeroNorm(t *step.Tape, layer *arch.Linear, x, condition step.T, transposed bool, n int64) (y step.T,
	parts []step.T,
	together step.T) {
	act := t.SiLU(condition)
	together = layer.Forward(t, act)
	t.Drop(act)
	parts = t.Chunks(together, n)
	y = modulate(t, t.NormRows(x, layer.W.Cols, transposed), parts[1], parts[0])
	return y, parts, together
}

// continuousNorm is AdaLayerNormContinuous, of which nothing but its result is kept.
func continuousNorm(t *step.Tape, layer *arch.Linear, x, condition step.T, transposed bool) step.T {
	act := t.SiLU(condition)
	both := layer.Forward(t, act)
	t.Drop(act)
	parts := t.Chunks(both, 2)
	y := modulate(t, t.NormRows(x, layer.W.Cols, transposed), parts[0], parts[1])
	t.Drop(append(parts, both)...)
	return y
}
