package denoising

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// unetScript is what the scripts that train UNets do besides.
type unetScript struct {
	// tellsNoise: the model tells the noise of diffused latents, and no flow.
	tellsNoise bool
	// EncodesFirst: pictures and prompts are encoded before training, and what encoded them goes.
	EncodesFirst bool
	// wide: the last but one states of two text encoders are read, and what the second one pools.
	wide bool
	// averages: it has --use_ema.
	averages bool
	// controls: it trains a ControlNet.
	controls bool
	// KeepsGradients: zero_grad fills gradients with zeros (--set_grads_to_none is off).
	KeepsGradients bool
	// ClipsNothing: what clip_grad_norm_ gets is a filter that the optimizer has exhausted.
	ClipsNothing bool
	// keepsPixels: the pictures in the autoencoder's type are a variable, and copiesPixels: what is encoded is another
	// copy of them.
	keepsPixels, copiesPixels bool
	// ReadsOnce: one prompt is read before training, and the text encoders stay all the same.
	ReadsOnce bool
}

// attentionTargets are the modules of a UNet that its scripts put adapters on.
var attentionTargets = []string{"to_k", "to_q", "to_v", "to_out.0"}

// unetScripts are the scripts that train UNets, or a ControlNet beside one. Sources: diffusers examples, 0.39.
var unetScripts = []DiffusionScript{
	{Name: "text_to_image/train_text_to_image_lora.py", family: pipelines.UNet, Train: trainsUNet, Adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		KeepsTexts: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, ClipsNothing: true}},
	{Name: "text_to_image/train_text_to_image.py", family: pipelines.UNet, Train: trainsUNet,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartTexts, pipelines.PartVAE},
		KeepsTexts: true, clipTokens: 77, unetScript: unetScript{tellsNoise: true, averages: true}},
	{Name: "text_to_image/train_text_to_image_lora_sdxl.py", family: pipelines.UNetXL, Train: trainsUNet,
		Adapters:   true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		KeepsTexts: true, wideVAE: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, wide: true}},
	{Name: "text_to_image/train_text_to_image_sdxl.py", family: pipelines.UNetXL, Train: trainsUNet,
		order: []pipelines.Part{pipelines.PartDenoiser}, wideVAE: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, EncodesFirst: true, wide: true, averages: true}},
	{Name: "controlnet/train_controlnet.py", family: pipelines.UNet, Train: "controlnet",
		order: []pipelines.Part{pipelines.PartControl, pipelines.PartVAE, pipelines.PartDenoiser,
			pipelines.PartTexts},
		KeepsTexts: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, controls: true, KeepsGradients: true}},
}

// dreamBoothTargets are the modules that train_dreambooth_lora.py puts adapters on.
var dreamBoothTargets = append(slices.Clone(attentionTargets), "add_k_proj", "add_v_proj")

// dreamBoothScripts train a UNet on pictures of one prompt. Sources: diffusers examples, 0.39.
var dreamBoothScripts = []DiffusionScript{
	{Name: "dreambooth/train_dreambooth.py", family: pipelines.UNet, Train: trainsUNet,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		KeepsTexts: true, clipTokens: 77,
		unetScript: unetScript{tellsNoise: true, KeepsGradients: true, keepsPixels: true, copiesPixels: true}},
	{Name: "dreambooth/train_dreambooth_lora.py", family: pipelines.UNet, Train: trainsUNet, Adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		KeepsTexts: true, clipTokens: 77, targets: dreamBoothTargets,
		unetScript: unetScript{tellsNoise: true, keepsPixels: true}},
	// del tokenizers, text_encoders frees nothing: text_encoder_one and text_encoder_two are variables of their own
	{Name: "dreambooth/train_dreambooth_lora_sdxl.py", family: pipelines.UNetXL, Train: trainsUNet, Adapters: true,
		order:      []pipelines.Part{pipelines.PartDenoiser, pipelines.PartVAE, pipelines.PartTexts},
		KeepsTexts: true, wideVAE: true, clipTokens: 77, targets: attentionTargets,
		unetScript: unetScript{tellsNoise: true, wide: true, keepsPixels: true, ReadsOnce: true}},
}

// trainsUNet is what most of them train.
const trainsUNet = "unet"

// tellsNoise is what a script that trains a UNet makes of a step. A pipeline that lacks what it runs is refused.
func (r Denoiser) tellsNoise(t *job.Training, s *DiffusionScript, holds pipelines.Arrangement,
	errs *invalid.List) step.Objective {
	const parts = "/model/diffusion"
	o := t.Objective
	if s.EncodesFirst {
		if o.Latents == "each-step" {
			errs.Add(fields.ObjectivePointer+"/latents", "conflict",
				"%s encodes the pictures before training; cached is accepted",
				s.Name)
		}
		if o.TextEmbeddings == "each-step" {
			errs.Add(fields.ObjectivePointer+"/text_embeddings", "conflict",
				"%s reads the prompts before training; cached is "+
					"accepted", s.Name)
		}
	} else {
		if s.ReadsOnce && o.TextEmbeddings == "each-step" {
			errs.Add(fields.ObjectivePointer+"/text_embeddings", "conflict",
				"%s reads its prompt before training; cached is accepted", s.Name)
		}
		r.readsPrompts(s, errs)
		if !pipelines.HasVAE(&r.Arch) {
			errs.Add(parts+"/vae", "required", "vae is missing: %s encodes the pictures in each step", s.Name)
		}
	}
	return objective.Noise{Cached: s.EncodesFirst, Wide: s.wide, Controls: s.controls,
		Weights: holds.Frozen, VAE: holds.VAE, KeepsPixels: s.keepsPixels, CopiesPixels: s.copiesPixels,
		ReadOnce: s.ReadsOnce}
}

// readsPrompts refuses text encoders whose numbers the UNet does not read.
func (r Denoiser) readsPrompts(s *DiffusionScript, errs *invalid.List) {
	const pointer = "/model/diffusion/text_encoders"
	wanted := 1
	if s.wide {
		wanted = 2
	}
	switch n := pipelines.TextEncoders(&r.Arch); {
	case n != wanted:
		errs.Add(pointer, "conflict", "%s reads the prompts by %d text encoders, and %d are given", s.Name, wanted, n)
	case !pipelines.ReadsCLIP(&r.Arch):
		errs.Add(pointer, "unsupported", "%s reads the prompts by CLIP's text models; clip_text_model is accepted",
			s.Name)
	case !pipelines.ReadsWidths(&r.Arch, s.wide):
		errs.Add(pointer, "conflict", "what the text encoders return does not have the width that the unet reads "+
			"(cross_attention_dim, and projection_class_embeddings_input_dim with six numbers of "+
			"addition_time_embed_dim)")
	}
}
