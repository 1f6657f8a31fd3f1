package objective

import "github.com/vramplan/vramplan/estimator/step"

// Pipeline is a network of a diffusion pipeline, as a training script calls its parts.
type Pipeline interface {
	step.Network
	// Texts reads so many prompts without a graph, and returns the embeddings and what is pooled of them.
	Texts(t *step.Tape, prompts int64) (embeddings, pooled step.T)
	// Moments is what the autoencoder makes of pictures without a graph: mean and variance of their latents.
	Moments(t *step.Tape, pixels step.T) step.T
	// Latents is how many elements the latents of the micro-batch have.
	Latents(t *step.Tape) int64
	// Denoise predicts what the loss is about; it borrows what it reads.
	Denoise(t *step.Tape, latents, embeddings, pooled step.T) step.T
}

// Diffusion is a training script of diffusers: a picture, noise of a random strength on its latents, and a model that
// tells the noise. Its variables keep what they hold until the next micro-step assigns them anew.
type Diffusion struct {
	// CachedLatents says that the pictures were encoded before training; CachedTexts the same of the prompts.
	CachedLatents, CachedTexts bool
	// Packs says that the script makes tokens of the latents and pictures of the prediction itself, and Preconditions
	// that it computes the latents of a prediction.
	Packs, Preconditions bool
	// Weights is the type of what is not trained (weight_dtype), VAE that of the autoencoder.
	Weights, VAE step.DType
}

// Unfolds says that every layer is played: none of them repeats to the end of the model.
func (o Diffusion) Unfolds() bool { return true }

// Batch is nothing: the pictures move when the loop begins with them.
func (o Diffusion) Batch(*step.Tape) []step.T { return nil }

// Forward is a micro-step of flow matching.
// Source: diffusers examples/dreambooth/train_dreambooth_lora_flux.py (main), 0.39.
func (o Diffusion) Forward(t *step.Tape, net step.Network, _ []step.T) step.T {
	p := net.(Pipeline)
	s := t.Shape
	t.In(step.PartEmbedding)
	pixels := t.Input(s.Batch*rgb*s.Height*s.Width, step.F32)
	t.KeptByModel(pixels)
	embeddings, pooled := o.texts(t, p, s.Batch)
	latents := o.latents(t, p, pixels)
	n := latents.Numel()
	noise := o.variable(t, t.Input(n, latents.Dtype()))
	noisy := o.flow(t, latents, noise)
	read := noisy
	if o.Packs {
		read = o.variable(t, t.Input(n, latents.Dtype()))
	}
	t.EnterAutocast()
	out := p.Denoise(t, read, embeddings, pooled)
	t.ExitAutocast()
	prediction := out
	if t.Recipe.Autocast { // accelerate's wrapper
		prediction = t.Float(out, step.LabelCast)
		t.Drop(out)
	}
	target := latents
	switch {
	case o.Packs:
		unpacked := t.Relaid(prediction)
		t.Drop(prediction)
		prediction = unpacked
		t.KeptByModel(prediction)
		target = o.variable(t, t.Input(n, latents.Dtype()))
	case o.Preconditions:
		scaled := t.MulScalar(prediction, step.LabelLoss)
		moved := t.AddScalar(scaled, step.LabelLoss)
		t.Drop(scaled, prediction)
		prediction = moved
		t.KeptByModel(prediction)
	}
	return o.squares(t, prediction, target)
}

// variable is x as a variable of the loop that keeps it until it is assigned anew.
func (o Diffusion) variable(t *step.Tape, x step.T) step.T {
	t.KeptByModel(x)
	return x
}

// texts are the embeddings of the prompts, which are read anew in each micro-step unless they were before training.
func (o Diffusion) texts(t *step.Tape, p Pipeline, prompts int64) (embeddings, pooled step.T) {
	if o.CachedTexts {
		return p.Texts(t, prompts)
	}
	t.As(step.PassReference, func() { embeddings, pooled = p.Texts(t, prompts) })
	copied := o.variable(t, t.Cast(embeddings, o.Weights, step.LabelEmbedding))
	t.Drop(embeddings)
	t.KeptByModel(pooled)
	return copied, pooled
}

// latents are those of the pictures: drawn from their means and variances, moved and scaled.
func (o Diffusion) latents(t *step.Tape, p Pipeline, pixels step.T) step.T {
	var sample step.T
	if o.CachedLatents {
		n := p.Latents(t)
		draw, spread := t.Input(n, o.VAE), t.Input(n, o.VAE)
		sample = t.Input(n, o.VAE)
		t.Drop(spread, draw)
	} else { // the pictures in the autoencoder's type are a variable
		given := t.Cast(pixels, o.VAE, step.LabelCast)
		if !given.Shares(pixels) {
			t.KeptByModel(given)
		}
		sample = sampled(t, p, t.Hold(given), o.VAE)
	}
	moved := t.Input(sample.Numel(), o.VAE)
	scaled := t.Input(sample.Numel(), o.VAE)
	t.Drop(moved, sample)
	latents := t.Cast(scaled, o.Weights, step.LabelCast)
	t.Drop(scaled)
	return o.variable(t, latents)
}

// sampled is a draw from the distribution of the latents of pictures, which it takes over, in the autoencoder's type d.
// Source: diffusers/models/autoencoders/vae.py (DiagonalGaussianDistribution), 0.39.
func sampled(t *step.Tape, p Pipeline, pixels step.T, d step.DType) step.T {
	moments := p.Moments(t, pixels)
	n := moments.Numel() / 2
	like := func() step.T { return t.Input(n, d) }
	logarithm, half := like(), like()
	deviation := like()
	t.Drop(half)
	variance := like()
	t.Drop(pixels)
	draw := like()
	spread := like()
	sample := like()
	t.Drop(spread, moments, logarithm, deviation, variance, draw)
	return sample
}

// flow mixes latents and noise: (1 - sigma)·x + sigma·noise.
func (o Diffusion) flow(t *step.Tape, latents, noise step.T) step.T {
	less := t.Input(latents.Numel(), latents.Dtype())
	more := t.Input(noise.Numel(), noise.Dtype())
	noisy := t.Input(latents.Numel(), latents.Dtype())
	t.Drop(less, more)
	return o.variable(t, noisy)
}

// squares is the mean of the weighted squares of what the prediction is off by, of each picture and then of all.
func (o Diffusion) squares(t *step.Tape, prediction, target step.T) step.T {
	weight := t.Input(1, step.F32)
	given, wanted := t.Float(prediction, step.LabelCast), t.Float(target, step.LabelCast)
	difference := t.Subtract(given, wanted, step.LabelLoss)
	t.Drop(given, wanted)
	squared := t.Pow(difference, step.LabelLoss)
	t.Drop(difference)
	weighted := t.Mul(weight, squared, true, step.LabelLoss)
	t.Drop(squared, weight)
	each := t.MeanRows(weighted, weighted.Numel()/t.Shape.Batch, step.LabelLoss)
	t.Drop(weighted)
	loss := t.MeanLoss(each)
	t.Drop(each)
	return loss
}
