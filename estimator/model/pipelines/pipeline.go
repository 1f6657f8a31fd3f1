package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/step"
)

// Arrangement is how a training script stores the parts of a pipeline and which of them it keeps on the GPU.
type Arrangement struct {
	// Trained is the type of the denoiser's weights where they are trained in full, Frozen that of what is not trained,
	// and VAE that of the autoencoder.
	Trained, Frozen, VAE step.DType
	// KeepsVAE and KeepsTexts say that the autoencoder and the text encoders stay on the GPU.
	KeepsVAE, KeepsTexts bool
	// Order is the parts in the order in which the script moves them.
	Order []Part
	// EmbeddedTokens is how many tokens the denoiser reads of a prompt, and PromptsStay says that the embeddings of one
	// prompt, read before training, stay on the GPU.
	EmbeddedTokens int64
	PromptsStay    bool
	// TextTokens is how many tokens a prompt has for the text encoder of each place.
	TextTokens []int64
	// Adapted says that adapters are trained on the denoiser.
	Adapted bool
	// Controls says that a ControlNet is trained beside a UNet that is not.
	Controls bool
}

// Part is a part of a pipeline.
type Part uint8

// The parts.
const (
	PartVAE Part = iota
	PartDenoiser
	PartTexts
	PartControl
	// PartAverage is a moving average of what is trained, in float32.
	PartAverage
)

// denoiserOptions are the numbers of a denoiser's config.json.
type denoiserOptions interface {
	// declare declares its parameters; the layers are numbered from unit first on.
	declare(b *arch.Builder, first int) denoiser
	// layers is how many blocks it has, channels how many a latent has that it reads, and tokens how many it makes of
	// latents of so many rows and columns.
	layers() int64
	channels() int64
	tokens(rows, columns int64) int64
	// multiple is of how many rows and columns of a latent it takes multiples.
	multiple() int64
	// reads is how wide the embeddings are that it reads, and what is pooled of them.
	reads() (embeddings, pooled int64)
	// shape fills in what an architecture says of itself.
	shape(a arch.Architecture) arch.Architecture
}

// denoiser is the model that is trained: a transformer or a UNet.
type denoiser interface {
	// denoise borrows what it reads, and returns the prediction. The caller has entered autocast.
	denoise(t *step.Tape, in denoising) step.T
}

// denoising is what a denoiser reads: latents with noise, the embeddings of the prompts and what is pooled of them, in
// a micro-batch of so many latents of rows and columns.
type denoising struct {
	latents, embeddings, pooled step.T
	batch, rows, columns        int64
	textTokens                  int64
}

// textOptions are the numbers of a text encoder's config.json.
type textOptions interface {
	declare(b *arch.Builder, first int) textEncoder
	layers() int64
}

// textEncoder is a model that reads prompts.
type textEncoder interface {
	// encode reads the prompts of the tape's shape, and returns their hidden states and what is pooled of them.
	encode(t *step.Tape) (hidden, pooled step.T)
}

// pipeline is what only a diffusion pipeline has.
type pipeline struct {
	denoiser    denoiserOptions
	texts       []textOptions
	vae         *autoencoderOptions
	control     *controlNetOptions
	scale       int64 // by how much a latent is smaller than its picture, a side
	arrangement Arrangement
}

// Arrange says how a script holds the pipeline.
func Arrange(a *arch.Architecture, how Arrangement) {
	own := a.Own.(pipeline)
	own.arrangement = how
	a.Own = own
}

// Diffuses says whether a is a diffusion pipeline.
func Diffuses(a *arch.Architecture) bool { _, is := a.Own.(pipeline); return is }

// LatentTokens is how many tokens the denoiser makes of a latent of so many rows and columns.
func LatentTokens(a *arch.Architecture, rows, columns int64) int64 {
	return a.Own.(pipeline).denoiser.tokens(rows, columns)
}

// LatentElements is how many elements the latent of one picture of so many pixels has.
func LatentElements(a *arch.Architecture, height, width int64) int64 {
	scale := LatentScale(a)
	return a.Own.(pipeline).denoiser.channels() * (height / scale) * (width / scale)
}

// LatentScale is by how much a latent is smaller than its picture, a side.
func LatentScale(a *arch.Architecture) int64 {
	return a.Own.(pipeline).scale
}

// defaultLatentScale is that of every published autoencoder with four levels.
const defaultLatentScale = 8

// LatentMultiple is of how many rows and columns of a latent the denoiser takes multiples.
func LatentMultiple(a *arch.Architecture) int64 { return a.Own.(pipeline).denoiser.multiple() }

// TextEncoders is how many text encoders the pipeline has.
func TextEncoders(a *arch.Architecture) int { return len(a.Own.(pipeline).texts) }

// diffusion is a pipeline as a script of diffusers trains it.
type diffusion struct {
	a        *arch.Architecture
	own      pipeline
	denoiser denoiser
	texts    []textEncoder
	vae      *autoencoder
	control  *controlNet
}

// buildDiffusion declares the parts that stay, in the order in which the script moves them.
func buildDiffusion(b *arch.Builder) step.Network {
	own := b.A.Own.(pipeline)
	m := &diffusion{a: b.A, own: own, texts: make([]textEncoder, len(own.texts))}
	how := own.arrangement
	for _, part := range how.Order {
		switch part {
		case PartVAE:
			if how.KeepsVAE && own.vae != nil {
				apart(b, how.VAE, func() { m.vae = own.vae.declare(b) })
			}
		case PartControl:
			b.Dtype = how.Trained
			m.control = own.control.declare(b, int(own.denoiser.layers()))
		case PartAverage:
			average(b)
		case PartDenoiser:
			if how.Controls {
				apart(b, how.Frozen, func() { m.denoiser = own.denoiser.declare(b, 0) })
				continue
			}
			if b.Dtype = how.Trained; how.Adapted {
				b.Dtype = how.Frozen
			}
			m.denoiser = own.denoiser.declare(b, 0)
		case PartTexts:
			first := int(own.denoiser.layers())
			if how.Controls {
				first += int(own.control.layers())
			}
			for i, o := range own.texts {
				if how.KeepsTexts {
					apart(b, how.Frozen, func() { m.texts[i] = o.declare(b, first) })
				}
				first += int(o.layers())
			}
			if how.PromptsStay {
				embedded, pooled := own.denoiser.reads()
				b.Buffer("prompt_embeds", how.EmbeddedTokens*embedded, how.Frozen)
				b.Buffer("pooled_prompt_embeds", pooled, how.Frozen)
			}
		}
	}
	return m
}

// apart declares a part that is not trained and stored in d, on which no adapters are put.
func apart(b *arch.Builder, d step.DType, declare func()) {
	whole, dtype := b.A, b.Dtype
	plain := *whole
	plain.LoRA = nil
	b.A, b.Dtype = &plain, d
	pictures.Tower(b, true, declare)
	b.A, b.Dtype = whole, dtype
}

// Batch is nothing: the loop moves a batch when it begins with it.
func (m *diffusion) Batch(*step.Tape) []step.T { return nil }

// Forward is the denoiser by itself, with the mean of what it returns as the loss: a script's loop does more.
func (m *diffusion) Forward(t *step.Tape, _ []step.T) (step.T, []step.T) {
	embeddings, pooled := m.Texts(t, t.Shape.Batch)
	latents := t.Input(m.Latents(t), m.own.arrangement.Frozen)
	y := m.Denoise(t, latents, embeddings, pooled)
	t.Drop(latents, embeddings, pooled)
	return t.MeanLoss(y), []step.T{y}
}

// Texts reads the prompts of the micro-batch by each text encoder in turn: what the first T5 returns, or else the
// first of all, are the embeddings, and what the first CLIP pools is pooled.
func (m *diffusion) Texts(t *step.Tape, prompts int64) (embeddings, pooled step.T) {
	embeddings, pooled = step.NoTensor, step.NoTensor
	if how := m.own.arrangement; how.PromptsStay {
		embedded, end := m.own.denoiser.reads()
		return t.Buffered(prompts*how.EmbeddedTokens*embedded, how.Frozen), t.Buffered(prompts*end, how.Frozen)
	}
	for i, e := range m.texts {
		shape := step.Shape{Batch: prompts, Tokens: m.own.arrangement.TextTokens[i]}
		var hidden, end step.T
		m.frozen(t, shape, m.own.arrangement.Frozen, func() { hidden, end = e.encode(t) })
		if end != step.NoTensor && pooled == step.NoTensor {
			pooled, end = end, step.NoTensor
		}
		t.Drop(end)
		if i == len(m.texts)-1 {
			embeddings = hidden
			continue
		}
		t.Drop(hidden)
	}
	return embeddings, pooled
}

// frozen runs f on a part that is not trained: in evaluation mode, in the type d in which it is stored, without a
// graph.
func (m *diffusion) frozen(t *step.Tape, shape step.Shape, d step.DType, f func()) {
	recipe, old := t.Recipe, t.Shape
	t.Shape = shape
	t.Runs(step.Running{Evaluating: true, WithoutGraph: true, Stored: d, Compute: d, Autocast: recipe.Autocast})
	t.WithoutGraph(func() step.T { f(); return step.NoTensor })
	t.EndLayers()
	t.Recipe, t.Shape = recipe, old
}

// Denoise predicts the noise of latents.
func (m *diffusion) Denoise(t *step.Tape, latents, embeddings, pooled step.T) step.T {
	return m.denoiser.denoise(t, m.denoising(t, latents, embeddings, pooled))
}

// Latents is how many elements the latents of the micro-batch have.
func (m *diffusion) Latents(t *step.Tape) int64 {
	return t.Shape.Batch * LatentElements(m.a, t.Shape.Height, t.Shape.Width)
}
