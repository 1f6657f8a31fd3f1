package objective

import "github.com/vramplan/vramplan/estimator/step"

// Denoised is a network of a pipeline with a UNet, as the scripts that train one call its parts.
type Denoised interface {
	Pipeline
	// States reads ids as Texts does, each text encoder its own, and keeps the states of every layer meanwhile: the
	// embeddings are the last but one of each, side by side.
	States(t *step.Tape, ids []step.T) (embeddings, pooled step.T)
	// Read is the last state of the first text encoder.
	Read(t *step.Tape, ids step.T) step.T
	// Encoders is how many text encoders there are, and Widths how many numbers a token and a prompt get of them.
	Encoders() int
	Widths() (embedding, pooled int64)
	// Control is what a ControlNet makes of the latents and of the picture that controls, and Controlled what the UNet
	// predicts with that.
	Control(t *step.Tape, latents, embeddings, picture step.T) []step.T
	Controlled(t *step.Tape, latents, embeddings step.T, added []step.T) step.T
}

// Noise is a micro-step of the scripts that train a UNet, adapters on it or a ControlNet beside it to tell the noise
// that was put on latents. What a script assigns to a variable stays until the next micro-step assigns it anew.
// Sources: diffusers examples/text_to_image/train_text_to_image.py, train_text_to_image_lora.py,
// train_text_to_image_sdxl.py, train_text_to_image_lora_sdxl.py, controlnet/train_controlnet.py (main), 0.39.
type Noise struct {
	// Cached says that pictures and prompts were encoded before training.
	Cached bool
	// Wide says that the text encoders' last but one states are read, and what the last one pools.
	Wide bool
	// Controls says that a ControlNet is trained.
	Controls bool
	// Weights is the type of what is not trained (weight_dtype), VAE that of the autoencoder.
	Weights, VAE step.DType
	// KeepsPixels says that the pictures in the autoencoder's type are a variable, CopiesPixels that others like them
	// are encoded.
	KeepsPixels, CopiesPixels bool
	// ReadOnce says that the prompt was read before training.
	ReadOnce bool
}

// Unfolds says that every layer is played.
func (o Noise) Unfolds() bool { return true }

// Batch is nothing: the loop moves its pictures as the micro-step begins.
func (o Noise) Batch(*step.Tape) []step.T { return nil }

// rgb is how many colours a picture has.
const rgb = 3

// Forward is a micro-step up to its loss.
func (o Noise) Forward(t *step.Tape, net step.Network, _ []step.T) step.T {
	p := net.(Denoised)
	t.In(step.PartEmbedding)
	picture := step.NoTensor
	var noisy, target, embeddings, pooled step.T
	if o.Cached {
		var given, text, end step.T
		given, text, end = o.cached(t, p)
		target, noisy = o.noise(t, given)
		embeddings = o.stored(t, text)
		pooled = o.stored(t, end)
	} else {
		var pixels step.T
		var ids []step.T
		pixels, picture, ids = o.batch(t, p)
		target, noisy = o.noise(t, o.latents(t, p, pixels))
		embeddings, pooled = o.texts(t, p, ids)
	}
	prediction := o.predict(t, p, noisy, embeddings, pooled, picture)
	wanted := t.Float(target, step.LabelCast)
	loss := kept(t, t.SquaredError(prediction, wanted))
	t.Drop(wanted)
	if o.Controls { // what the loss read was no variable
		t.Drop(prediction)
	}
	return t.Hold(loss)
}

// kept is x as a variable of the loop.
func kept(t *step.Tape, x step.T) step.T {
	t.KeptByModel(x)
	return x
}

// stored is x in the type of what is not trained, as a variable of the loop: x itself, which is one, where it has that
// type.
func (o Noise) stored(t *step.Tape, x step.T) step.T {
	if x.Dtype() == o.Weights {
		return x
	}
	return kept(t, t.Cast(x, o.Weights, step.LabelEmbedding))
}

// batch moves pictures and prompts, and with a ControlNet the pictures that control.
func (o Noise) batch(t *step.Tape, p Denoised) (pixels, picture step.T, ids []step.T) {
	s := t.Shape
	pixels, picture = kept(t, t.Input(s.Batch*rgb*s.Height*s.Width, step.F32)), step.NoTensor
	if o.Controls {
		picture = kept(t, t.Input(s.Batch*rgb*s.Height*s.Width, step.F32))
	}
	if o.ReadOnce {
		return pixels, picture, nil
	}
	for range p.Encoders() {
		ids = append(ids, kept(t, t.Input(s.Batch*promptTokens, step.I64)))
	}
	return pixels, picture, ids
}

// promptTokens is how many tokens CLIP reads.
const promptTokens = 77

// cached moves latents, embeddings and what is pooled, which the data set has in float32.
func (o Noise) cached(t *step.Tape, p Denoised) (latents, embeddings, pooled step.T) {
	wide, end := p.Widths()
	latents = kept(t, t.Input(p.Latents(t), step.F32))
	embeddings = kept(t, t.Input(t.Shape.Batch*promptTokens*wide, step.F32))
	return latents, embeddings, kept(t, t.Input(t.Shape.Batch*end, step.F32))
}

// latents are those of the pictures: a draw from their distribution, scaled, in the type of what is not trained.
func (o Noise) latents(t *step.Tape, p Denoised, pixels step.T) step.T {
	given := t.Cast(pixels, o.VAE, step.LabelCast)
	if o.KeepsPixels && !given.Shares(pixels) {
		kept(t, given)
		given = t.Hold(given)
		if o.CopiesPixels {
			t.Drop(given)
			given = t.Cast(pixels, o.VAE, step.LabelCast)
		}
	}
	sample := sampled(t, p, given, o.VAE)
	scaled := t.Input(sample.Numel(), o.VAE)
	t.Drop(sample)
	latents := kept(t, t.Cast(scaled, o.Weights, step.LabelCast))
	t.Drop(scaled)
	return latents
}

// noise is the noise, which is what is predicted, and the latents with it.
// Source: diffusers/schedulers/scheduling_ddpm.py (add_noise), 0.39.
func (o Noise) noise(t *step.Tape, latents step.T) (noise, noisy step.T) {
	n := latents.Numel()
	noise = kept(t, t.Input(n, latents.Dtype()))
	kept(t, t.Input(t.Shape.Batch, step.I64)) // timesteps
	wide, wideNoise := t.Hold(latents), t.Hold(noise)
	if o.Controls {
		t.Drop(wide, wideNoise)
		wide, wideNoise = t.Float(latents, step.LabelCast), t.Float(noise, step.LabelCast)
	}
	less, more := t.Input(n, wide.Dtype()), t.Input(n, wide.Dtype())
	sum := t.Input(n, wide.Dtype())
	t.Drop(less, more, wide, wideNoise)
	noisy = kept(t, t.Cast(sum, latents.Dtype(), step.LabelCast))
	t.Drop(sum)
	return noise, noisy
}

// texts are the embeddings of the prompts, and what is pooled of them where the UNet reads that.
func (o Noise) texts(t *step.Tape, p Denoised, ids []step.T) (embeddings, pooled step.T) {
	if o.ReadOnce { // repeated for every picture
		wide, end := p.Widths()
		return kept(t, t.Input(t.Shape.Batch*promptTokens*wide, o.Weights)),
			kept(t, t.Input(t.Shape.Batch*end, o.Weights))
	}
	if !o.Wide {
		return kept(t, p.Read(t, ids[0])), step.NoTensor
	}
	embeddings, pooled = p.States(t, ids)
	return kept(t, embeddings), kept(t, pooled)
}

// predict is what the trained network predicts, in float32 as accelerate hands it on. A UNet that is not trained itself
// runs in its own type.
func (o Noise) predict(t *step.Tape, p Denoised, noisy, embeddings, pooled, picture step.T) step.T {
	if o.Controls {
		given := o.stored(t, picture)
		t.EnterAutocast()
		made := p.Control(t, noisy, embeddings, given)
		t.ExitAutocast()
		return t.Float(kept(t, p.Controlled(t, noisy, embeddings, o.handed(t, made))), step.LabelCast)
	}
	t.EnterAutocast()
	out := p.Denoise(t, noisy, embeddings, pooled)
	t.ExitAutocast()
	prediction := t.Float(out, step.LabelCast)
	t.Drop(out)
	return kept(t, prediction)
}

// handed is what a ControlNet made as accelerate hands it on, in float32, and as the loop gives it to the UNet. It
// takes over made. Source: accelerate/utils/operations.py (convert_to_fp32).
func (o Noise) handed(t *step.Tape, made []step.T) []step.T {
	var wide, given []step.T
	for _, x := range made {
		wide = append(wide, t.Float(x, step.LabelCast))
	}
	for _, x := range wide {
		t.KeptByModel(x)
	}
	for _, x := range made {
		t.Drop(x)
	}
	for _, x := range wide {
		given = append(given, t.Cast(x, o.Weights, step.LabelCast))
	}
	return given
}
