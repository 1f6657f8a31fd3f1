package denoising

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
)

// DiffusionScript is what a training script of diffusers does: which part it trains, what it keeps on the GPU, and in
// what order the parts come there. Sources: diffusers examples, 0.39.
type DiffusionScript struct {
	// Name is the script's path below examples.
	Name string
	// family is the denoiser that it trains, and Train the part that this is.
	family, Train string
	// Adapters: it trains adapters, and nothing else.
	Adapters bool
	// order is that in which the parts are moved to the GPU.
	order []pipelines.Part
	// KeepsTexts: the text encoders stay on the GPU, and read the prompts in each step.
	KeepsTexts bool
	// CachesLatents: it has --cache_latents.
	CachesLatents bool
	// wideVAE: the autoencoder is float32 whatever the precision is.
	wideVAE bool
	// ReadsFirst: the text encoders stand on the GPU with all else, read one prompt, and go before training.
	ReadsFirst bool
	// t5Tokens and clipTokens are how many tokens a prompt has.
	t5Tokens, clipTokens int64
	// packs: it makes tokens of latents itself; preconditions: it computes latents of a prediction.
	packs, preconditions bool
	// targets are the modules that it puts adapters on where --lora_layers says nothing.
	targets []string
	unetScript
}

// DiffusionScripts are those that are replayed.
var DiffusionScripts = append([]DiffusionScript{
	{Name: "dreambooth/train_dreambooth_lora_flux.py", family: "flux", Train: "transformer", Adapters: true,
		order: []pipelines.Part{pipelines.PartVAE, pipelines.PartDenoiser, pipelines.PartTexts},
		// del text_encoder_one, text_encoder_two frees nothing: the list text_encoders still holds them
		KeepsTexts: true, CachesLatents: true, packs: true, t5Tokens: 512, clipTokens: 77,
		targets: []string{"attn.to_k", "attn.to_q", "attn.to_v", "attn.to_out.0", "attn.add_k_proj",
			"attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "ff.net.0.proj", "ff.net.2",
			"ff_context.net.0.proj", "ff_context.net.2"}},
	// accelerator.prepare moves the transformer, when the text encoders have been deleted
	{Name: "dreambooth/train_dreambooth_sd3.py", family: "sd3", Train: "transformer",
		order:   []pipelines.Part{pipelines.PartVAE, pipelines.PartTexts, pipelines.PartDenoiser},
		wideVAE: true, preconditions: true, t5Tokens: 77, clipTokens: 77},
	{Name: "dreambooth/train_dreambooth_lora_sd3.py", family: "sd3", Train: "transformer", Adapters: true,
		order:   []pipelines.Part{pipelines.PartVAE, pipelines.PartDenoiser, pipelines.PartTexts},
		wideVAE: true, preconditions: true, ReadsFirst: true, t5Tokens: 77, clipTokens: 77,
		targets: []string{"attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "attn.to_k",
			"attn.to_out.0", "attn.to_q", "attn.to_v"}},
	{Name: "dreambooth/train_dreambooth_flux.py", family: "flux", Train: "transformer",
		order: []pipelines.Part{pipelines.PartVAE, pipelines.PartTexts, pipelines.PartDenoiser}, packs: true,
		t5Tokens:   512,
		clipTokens: 77},
}, append(slices.Clone(unetScripts), dreamBoothScripts...)...)

// ScriptFor is the script that a job names, or the one that trains its model so; ok is false where there is none.
func ScriptFor(t *job.Training, family string) (s DiffusionScript, ok bool) {
	fits := func(s DiffusionScript) bool {
		return s.family == family && s.Adapters == (t.LoRA != nil) && !s.controls
	}
	trains := func(s DiffusionScript) bool { return s.family == family && s.Train == t.Objective.Train }
	i := -1
	switch {
	case t.Script != "":
		i = slices.IndexFunc(DiffusionScripts, func(s DiffusionScript) bool {
			return BaseName(s.Name) == BaseName(t.Script)
		})
	case slices.ContainsFunc(DiffusionScripts, func(s DiffusionScript) bool { return trains(s) && s.controls }):
		i = slices.IndexFunc(DiffusionScripts, trains)
	default:
		i = slices.IndexFunc(DiffusionScripts, fits)
	}
	if i < 0 {
		return DiffusionScript{}, false
	}
	return DiffusionScripts[i], true
}

// BaseName is a path's last part.
func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// ScriptNames are those of all scripts.
func ScriptNames() []string {
	var names []string
	for _, s := range DiffusionScripts {
		names = append(names, s.Name)
	}
	return names
}
