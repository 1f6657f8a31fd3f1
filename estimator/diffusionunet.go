package estimator

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// unetScript is what the scripts that train UNets do besides.
type unetScript struct {
	// tellsNoise: the model tells the noise of diffused latents, and no flow.
	tellsNoise bool
	// encodesFirst: pictures and prompts are encoded before training, and what encoded them goes.
	encodesFirst bool
	// wide: the last but one states of two text encoders are read, and what the second one pools.
	wide bool
	// averages: it has --use_ema.
	averages bool
	// controls: it trains a ControlNet.
	controls bool
	// keepsGradients: zero_grad fills gradients with zeros (--set_grads_to_none is off).
	keepsGradients bool
	// clipsNothing: what clip_grad_norm_ gets is a filter that the optimizer has exhausted.
	clipsNothing bool
	// keepsPixels: the pictures in the autoencoder's type are a variable, and copiesPixels: what is encoded is another
	// copy of them.
	keepsPixels, copiesPixels bool
	// readsOnce: one prompt is read before training, and the text encoders stay all the same.
	readsOnce bool
}

// attentionTargets are the modules of a UNet that its scripts put adapters on.
var attentionTargets = []string{"to_k", "to_q", "to_v", "to_out.0"}

// unetScripts are the scripts that train UNets, or a ControlNet beside one. Sources: diffusers examples, 0.39.
var unetScripts = []diffusionScript{
	{name: "text_to_image/train_text_to_image_lora.py", family: pipelines.UNet, train: trainsUNet, adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		keepsTexts: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, clipsNothing: true}},
	{name: "text_to_image/train_text_to_image.py", family: pipelines.UNet, train: trainsUNet,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartTexts, pipelines.PartVAE},
		keepsTexts: true, clipTokens: 77, unetScript: unetScript{tellsNoise: true, averages: true}},
	{name: "text_to_image/train_text_to_image_lora_sdxl.py", family: pipelines.UNetXL, train: trainsUNet,
		adapters:   true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		keepsTexts: true, wideVAE: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, wide: true}},
	{name: "text_to_image/train_text_to_image_sdxl.py", family: pipelines.UNetXL, train: trainsUNet,
		order: []pipelines.Part{pipelines.PartDenoiser}, wideVAE: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, encodesFirst: true, wide: true, averages: true}},
	{name: "controlnet/train_controlnet.py", family: pipelines.UNet, train: "controlnet",
		order: []pipelines.Part{pipelines.PartControl, pipelines.PartVAE, pipelines.PartDenoiser,
			pipelines.PartTexts},
		keepsTexts: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, controls: true, keepsGradients: true}},
}

// dreamBoothTargets are the modules that train_dreambooth_lora.py puts adapters on.
var dreamBoothTargets = append(slices.Clone(attentionTargets), "add_k_proj", "add_v_proj")

// dreamBoothScripts train a UNet on pictures of one prompt. Sources: diffusers examples, 0.39.
var dreamBoothScripts = []diffusionScript{
	{name: "dreambooth/train_dreambooth.py", family: pipelines.UNet, train: trainsUNet,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		keepsTexts: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, keepsGradients: true, keepsPixels: true, copiesPixels: true}},
	{name: "dreambooth/train_dreambooth_lora.py", family: pipelines.UNet, train: trainsUNet, adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		keepsTexts: true, clipTokens: 77, targets: dreamBoothTargets,
		unetScript: unetScript{tellsNoise: true, keepsPixels: true}},
	// del tokenizers, text_encoders frees nothing: text_encoder_one and text_encoder_two are variables of their own
	{name: "dreambooth/train_dreambooth_lora_sdxl.py", family: pipelines.UNetXL, train: trainsUNet, adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		keepsTexts: true, wideVAE: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, wide: true, keepsPixels: true, readsOnce: true}},
}

// trainsUNet is what most of them train.
const trainsUNet = "unet"

// tellsNoise is what a script that trains a UNet makes of a step. A pipeline that lacks what it runs is refused.
func (r *work) tellsNoise(t *Training, s *diffusionScript, holds pipelines.Arrangement,
	errs *invalid.List) step.Objective {
	const parts = "/model/diffusion"
	o := t.Objective
	if s.encodesFirst {
		if o.Latents == "each-step" {
			errs.Add(objectivePointer+"/latents", "conflict",
				"%s encodes the pictures before training; cached is accepted",
				s.name)
		}
		if o.TextEmbeddings == "each-step" {
			errs.Add(objectivePointer+"/text_embeddings", "conflict",
				"%s reads the prompts before training; cached is "+
					"accepted", s.name)
		}
	} else {
		if s.readsOnce && o.TextEmbeddings == "each-step" {
			errs.Add(objectivePointer+"/text_embeddings", "conflict",
				"%s reads its prompt before training; cached is accepted", s.name)
		}
		r.readsPrompts(s, errs)
		if !pipelines.HasVAE(&r.arch) {
			errs.Add(parts+"/vae", "required", "vae is missing: %s encodes the pictures in each step", s.name)
		}
	}
	return objective.Noise{Cached: s.encodesFirst, Wide: s.wide, Controls: s.controls,
		Weights: holds.Frozen, VAE: holds.VAE, KeepsPixels: s.keepsPixels, CopiesPixels: s.copiesPixels,
		ReadOnce: s.readsOnce}
}

// readsPrompts refuses text encoders whose numbers the UNet does not read.
func (r *work) readsPrompts(s *diffusionScript, errs *invalid.List) {
	const pointer = "/model/diffusion/text_encoders"
	wanted := 1
	if s.wide {
		wanted = 2
	}
	switch n := pipelines.TextEncoders(&r.arch); {
	case n != wanted:
		errs.Add(pointer, "conflict", "%s reads the prompts by %d text encoders, and %d are given", s.name, wanted, n)
	case !pipelines.ReadsCLIP(&r.arch):
		errs.Add(pointer, "unsupported", "%s reads the prompts by CLIP's text models; clip_text_model is accepted",
			s.name)
	case !pipelines.ReadsWidths(&r.arch, s.wide):
		errs.Add(pointer, "conflict", "what the text encoders return does not have the width that the unet reads "+
			"(cross_attention_dim, and projection_class_embeddings_input_dim with six numbers of "+
			"addition_time_embed_dim)")
	}
}
