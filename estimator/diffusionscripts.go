package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model/pipelines"
)

// diffusionScript is what a training script of diffusers does: which part it trains, what it keeps on the GPU, and in
// what order the parts come there. Sources: diffusers examples, 0.39.
type diffusionScript struct {
	// name is the script's path below examples.
	name string
	// family is the denoiser that it trains, and train the part that this is.
	family, train string
	// adapters: it trains adapters, and nothing else.
	adapters bool
	// order is that in which the parts are moved to the GPU.
	order []pipelines.Part
	// keepsTexts: the text encoders stay on the GPU, and read the prompts in each step.
	keepsTexts bool
	// cachesLatents: it has --cache_latents.
	cachesLatents bool
	// wideVAE: the autoencoder is float32 whatever the precision is.
	wideVAE bool
	// readsFirst: the text encoders stand on the GPU with all else, read one prompt, and go before training.
	readsFirst bool
	// t5Tokens and clipTokens are how many tokens a prompt has.
	t5Tokens, clipTokens int64
	// packs: it makes tokens of latents itself; preconditions: it computes latents of a prediction.
	packs, preconditions bool
	// targets are the modules that it puts adapters on where --lora_layers says nothing.
	targets []string
	unetScript
}

// diffusionScripts are those that are replayed.
var diffusionScripts = append([]diffusionScript{
	{name: "dreambooth/train_dreambooth_lora_flux.py", family: "flux", train: "transformer", adapters: true,
		order: []pipelines.Part{pipelines.PartVAE, pipelines.PartDenoiser, pipelines.PartTexts},
		// del text_encoder_one, text_encoder_two frees nothing: the list text_encoders still holds them
		keepsTexts: true, cachesLatents: true, packs: true, t5Tokens: 512, clipTokens: 77,
		targets: []string{"attn.to_k", "attn.to_q", "attn.to_v", "attn.to_out.0", "attn.add_k_proj",
			"attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "ff.net.0.proj", "ff.net.2",
			"ff_context.net.0.proj", "ff_context.net.2"}},
	// accelerator.prepare moves the transformer, when the text encoders have been deleted
	{name: "dreambooth/train_dreambooth_sd3.py", family: "sd3", train: "transformer",
		order:   []pipelines.Part{pipelines.PartVAE, pipelines.PartTexts, pipelines.PartDenoiser},
		wideVAE: true, preconditions: true, t5Tokens: 77, clipTokens: 77},
	{name: "dreambooth/train_dreambooth_lora_sd3.py", family: "sd3", train: "transformer", adapters: true,
		order:   []pipelines.Part{pipelines.PartVAE, pipelines.PartDenoiser, pipelines.PartTexts},
		wideVAE: true, preconditions: true, readsFirst: true, t5Tokens: 77, clipTokens: 77,
		targets: []string{"attn.add_k_proj", "attn.add_q_proj", "attn.add_v_proj", "attn.to_add_out", "attn.to_k",
			"attn.to_out.0", "attn.to_q", "attn.to_v"}},
	{name: "dreambooth/train_dreambooth_flux.py", family: "flux", train: "transformer",
		order: []pipelines.Part{pipelines.PartVAE, pipelines.PartTexts, pipelines.PartDenoiser}, packs: true,
		t5Tokens:   512,
		clipTokens: 77},
}, append(slices.Clone(unetScripts), dreamBoothScripts...)...)

// scriptFor is the script that a job names, or the one that trains its model so; ok is false where there is none.
func scriptFor(t *Training, family string) (s diffusionScript, ok bool) {
	fits := func(s diffusionScript) bool {
		return s.family == family && s.adapters == (t.LoRA != nil) && !s.controls
	}
	trains := func(s diffusionScript) bool { return s.family == family && s.train == t.Objective.Train }
	i := -1
	switch {
	case t.Script != "":
		i = slices.IndexFunc(diffusionScripts, func(s diffusionScript) bool {
			return baseName(s.name) == baseName(t.Script)
		})
	case slices.ContainsFunc(diffusionScripts, func(s diffusionScript) bool { return trains(s) && s.controls }):
		i = slices.IndexFunc(diffusionScripts, trains)
	default:
		i = slices.IndexFunc(diffusionScripts, fits)
	}
	if i < 0 {
		return diffusionScript{}, false
	}
	return diffusionScripts[i], true
}

// baseName is a path's last part.
func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// scriptNames are those of all scripts.
func scriptNames() []string {
	var names []string
	for _, s := range diffusionScripts {
		names = append(names, s.name)
	}
	return names
}
