// Package diffusers reads the command lines of diffusers' example scripts.
package diffusers

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads the scripts of diffusers that are replayed; the others are refused by name.
var Tool = tool.Tool{Name: "diffusers", New: func(j *tool.Job) tool.Reader { return &job{Job: huggingface.Of(j)} },
	Words: words, Still: stillText}

// job is one job on its way through this tool.
type job struct {
	huggingface.Job
	script script
}

// script has a script's defaults: pictures of a step, pixels a side, and the rank of its adapters, 0 where it has none.
type script struct{ batch, pixels, rank int64 }

// scripts are those that are replayed, with the defaults of their parse_args. testdata/check_diffusers.py holds them
// against the examples of all releases from 0.14 to 0.40; one moved (formerly).
var scripts = map[string]script{
	"train_text_to_image.py": {16, 512, 0}, "train_text_to_image_lora.py": {16, 512, 4},
	"train_text_to_image_sdxl.py": {16, 1024, 0}, "train_text_to_image_lora_sdxl.py": {16, 1024, 4},
	"train_controlnet.py": {4, 512, 0}, "train_dreambooth.py": {4, 512, 0}, "train_dreambooth_lora.py": {4, 512, 4},
	"train_dreambooth_lora_sdxl.py": {4, 1024, 4}, "train_dreambooth_flux.py": {4, 512, 0},
	"train_dreambooth_lora_flux.py": {4, 512, 4}, "train_dreambooth_sd3.py": {4, 512, 0},
	"train_dreambooth_lora_sd3.py": {4, 512, 4},
}

const ref = "diffusers 0.14 to 0.40 examples, parse_args"

// formerly is a script's defaults in a release of diffusers that is named, where they were others.
func formerly(name, release string, of script) script {
	if name == "train_dreambooth_lora_sdxl.py" && release != "" && defaults.Older(release, "0.20.0") {
		of.pixels = 512
	}
	return of
}

// textTokens are the defaults of --max_sequence_length, how much of a prompt T5 reads (diffusers 0.30 to 0.40).
var textTokens = map[string]int64{"train_dreambooth_flux.py": 77, "train_dreambooth_lora_flux.py": 512,
	"train_dreambooth_sd3.py": 77, "train_dreambooth_lora_sd3.py": 77}

// Starts recognises a script by its name, where its arguments name a pipeline.
func (r *job) Starts() bool {
	of, ok := scripts[path.Base(r.Program.Text)]
	if !ok || r.Module {
		return false
	}
	s, _, open := argv.Options(r.Args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In, r.script = s, formerly(path.Base(r.Program.Text), r.Release("diffusers"), of)
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	r.Out.Derive("/training/framework", "diffusers", "the tool")
	r.Out.Put("/training/objective/kind", "diffusion", r.named())
	r.Out.Put("/training/script", path.Base(r.Program.Text), r.named())
	r.Out.Exact = true // every picture has all pixels
	r.pipeline()
	r.pictures()
	if v, ok := s.Get("gradient_accumulation_steps"); ok {
		r.NumberOf("/training/gradient_accumulation", tool.AskAccumulation, v)
	} else {
		r.Out.Fall("/training/gradient_accumulation", int64(1), "gradient_accumulation_steps", ref)
	}
	r.adapters()
	r.precision()
	r.optimizer()
	v, ok := r.In.FirstOn("gradient_checkpointing")
	if ok {
		r.Out.Put("/training/gradient_checkpointing", "full", v)
	} else {
		r.Out.Fall("/training/gradient_checkpointing", "none", "gradient_checkpointing", ref)
	}
	if v, on := r.In.FirstOn("use_ema"); on {
		r.Out.Put("/training/objective/ema", true, v)
	}
	if v, on := r.In.FirstOn("train_text_encoder"); on {
		r.Out.Refuse("unsupported", v.Origin.At, "%s of %s is not modelled: without it the job can be told", v.Origin.Key,
			path.Base(r.Program.Text))
	}
	if v, on := r.In.FirstOn("cache_latents"); on {
		r.Out.Put("/training/objective/latents", "cached", v)
	}
	r.around()
	s.Still(strings.Fields(tool.Bare(stillText))...)
	s.Read("num_train_epochs", "max_train_steps")
	r.Loose(s.Rest()...)
}

// named is the script as a value.
func (r *job) named() setting.Value {
	name := path.Base(r.Program.Text)
	return setting.Value{Text: name, Origin: setting.Origin{Kind: setting.Argument, Key: name, At: r.At}}
}

// pipeline is which one is trained: a published one, by its name, whoever keeps it.
func (r *job) pipeline() {
	v, ok := r.In.Get("pretrained_model_name_or_path")
	r.In.Read("revision", "variant")
	known := "known are " + strings.Join(pipelines.PublishedPipelines(), ", ")
	switch name, kept := r.published(v.String()); {
	case !ok:
		r.Out.Ask("/model", "Which pipeline is trained?", "nothing names it; "+known)
	case v.Unknown != "":
		r.Out.Ask("/model", "Which pipeline is trained?", v.Origin.At.Where()+": "+v.Unknown)
	case kept:
		r.Out.Put("/model/diffusion/preset", name, v)
	default:
		r.Out.Questions = append(r.Out.Questions, draft.Question{Pointer: "/model", Ask: "Which published pipeline has the " +
			"parts of " + draft.Clip(v.String()) + "?", Why: v.Origin.At.Where() + "; " + known,
			Flag: "--set model.diffusion.preset=NAME"})
	}
}

// mirrored are other names of published pipelines, with the same parts: Stable Diffusion 1.4 and 1.5 have the
// config.json of the same UNet.
var mirrored = map[string]string{"stable-diffusion-v1-4": "stable-diffusion-v1-5"}

// published is the name of a published pipeline of whoever keeps it.
func (r *job) published(name string) (string, bool) {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") {
		return "", false
	}
	short := strings.ToLower(path.Base(name))
	if of, ok := mirrored[short]; ok {
		short = of
	}
	for _, known := range pipelines.PublishedPipelines() {
		if strings.EqualFold(path.Base(known), short) {
			return known, true
		}
	}
	return "", false
}

// pictures reads how many there are of a step, and of how many pixels.
func (r *job) pictures() {
	const micro, resolution = "/training/micro_batch", "/training/resolution"
	const ask = "How many pictures does one GPU take at a time?"
	if !r.Number(micro, ask, "train_batch_size") {
		r.Out.Fall(micro, r.script.batch, "train_batch_size", ref)
	}
	if n, ok := r.Out.Int(micro); ok && r.In.On("with_prior_preservation") {
		v, _ := r.In.Get("with_prior_preservation")
		// collate_fn puts the class's pictures behind those of the instance (dreambooth scripts)
		r.Out.Derive(micro, 2*n, "train_batch_size %d, and as many pictures of the class (%s)", n, v.Origin.Key)
	}
	if !r.Number(resolution, "How many pixels have the pictures a side?", "resolution") {
		r.Out.Fall(resolution, r.script.pixels, "resolution", ref)
	}
}

func (r *job) adapters() {
	if r.script.rank == 0 {
		return
	}
	const rank = "/training/lora/rank"
	if !r.Number(rank, "Of which rank are the adapters?", "rank") {
		r.Out.Fall(rank, r.script.rank, "rank", ref)
	}
	if d, ok := r.In.Get("lora_dropout"); ok {
		if f, isFloat := d.Float(); isFloat && d.Unknown == "" {
			r.Out.Put("/training/lora/dropout", f, d)
		} else {
			r.Out.AskWord(d)
		}
	}
	if t, ok := r.In.Get("lora_layers"); ok && t.Unknown == "" {
		r.Out.Put("/training/lora/target_modules", strings.Split(t.String(), ","), t)
	}
	if d, on := r.In.FirstOn("use_dora"); on {
		r.Out.Put("/training/lora/dora", true, d)
	}
}

// precision is the script's own mixed_precision, or accelerate's: "no" where neither says anything.
func (r *job) precision() {
	const pointer = "/training/precision"
	v, ok := r.In.Get("mixed_precision")
	if !ok && r.Accelerate != nil {
		v, ok = r.Accelerate.Get("mixed_precision")
	}
	switch kind := v.String(); {
	case !ok:
		r.Out.Fall(pointer, "fp32", "mixed_precision", ref+": accelerate's, which is no")
	case v.Unknown != "":
		r.Out.Ask(pointer, "In which precision does it train?", v.Origin.At.Where()+": "+v.Unknown)
	case kind == "bf16" || kind == "fp16":
		r.Out.Put(pointer, "amp-"+kind, v)
	case kind == "no":
		r.Out.Put(pointer, "fp32", v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "mixed_precision %s is not modelled: no, fp16 and bf16 are", kind)
	}
	r.In.Read("allow_tf32", "prior_generation_precision")
}

// optimizer is AdamW of torch or of bitsandbytes; newer scripts have a word for others.
func (r *job) optimizer() {
	const pointer = "/training/optimizer"
	r.In.Read("adam_*", "prodigy_*")
	if v, ok := r.In.Get("optimizer"); ok && (v.Unknown != "" || !strings.EqualFold(v.String(), "adamw")) {
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled: AdamW is", v.String())
		return
	}
	if v, ok := r.In.FirstOn("use_8bit_adam"); ok {
		r.Out.Put(pointer, draft.Optimizer{Name: "adamw-8bit", Implementation: "bitsandbytes"}, v)
		return
	}
	r.Out.Fall(pointer, draft.Optimizer{Name: "adamw", Implementation: "foreach"}, "torch.optim.AdamW", ref)
}

// around says what else of a script moves memory and is not replayed.
func (r *job) around() {
	const pointer = "/training/objective"
	if v, on := r.In.FirstOn("enable_xformers_memory_efficient_attention"); on {
		r.Out.Assume("/training/attention", "%s (%s) keeps what PyTorch's own kernel keeps", v.Origin.Key, v.Origin.At.Where())
	}
	if v, ok := r.In.Get("validation_prompt", "validation_prompts"); ok && !v.Off() {
		r.Out.Uncertain(pointer, "pictures that are made between epochs (%s, %s) take no more than training does",
			v.Origin.Key, v.Origin.At.Where())
	}
	if v, ok := r.In.Get("pretrained_vae_model_name_or_path", "controlnet_model_name_or_path"); ok && v.Given() {
		r.Out.Uncertain("/model", "%s (%s) has the sizes of the pipeline's own, and its type", v.Origin.Key,
			v.Origin.At.Where())
	}
	if v, ok := r.In.Get("max_sequence_length"); ok {
		if n, isInt := v.Int(); v.Unknown != "" || !isInt || n != textTokens[path.Base(r.Program.Text)] {
			r.Out.AskWord(v)
		}
	}
	if v, ok := r.In.Get("pre_compute_text_embeddings"); ok && (v.Unknown != "" || !v.Off()) {
		r.Out.Assume(pointer, "%s (%s) frees no text encoder: without them on the GPU it takes less", v.Origin.Key,
			v.Origin.At.Where())
	}
	for _, key := range []string{"set_grads_to_none", "offload", "offload_ema", "foreach_ema", "enable_npu_flash_attention",
		"do_fp8_training", "unet_config_name_or_path", "use_hpu_graphs"} {
		if v, ok := r.In.Get(key); ok && (v.Unknown != "" || !v.Off()) {
			r.Out.AskWord(v)
		}
	}
}

// stillText are words of the scripts that move no memory (diffusers 0.14 to 0.40 examples). What is read above is not
// among them; random_flip and others of the pictures run on the processor.
const stillText = ` instance_data_dir class_data_dir output_dir instance_prompt class_prompt with_prior_preservation=
	prior_loss_weight num_class_images sample_batch_size checkpointing_steps
	checkpoints_total_limit resume_from_checkpoint learning_rate scale_lr= lr_scheduler lr_warmup_steps lr_num_cycles
	lr_power dataloader_num_workers max_grad_norm push_to_hub= hub_token hub_model_id logging_dir report_to
	num_validation_images validation_epochs validation_steps validation_image validation_images seed center_crop=
	random_flip= dataset_name dataset_config_name train_data_dir image_column caption_column conditioning_image_column
	max_train_samples cache_dir snr_gamma noise_offset proportion_empty_prompts local_rank tracker_project_name
	weighting_scheme logit_mean logit_std mode_scale guidance_scale repeats text_encoder_lr
	image_interpolation_mode prediction_type debug_loss= timestep_bias_strategy timestep_bias_multiplier
	timestep_bias_begin timestep_bias_end timestep_bias_portion upcast_before_saving= non_ema_revision input_perturbation
	dream_training= dream_detail_preservation offset_noise=
	precondition_outputs= crops_coords_top_left_h crops_coords_top_left_w lora_alpha
	output_kohya_format= skip_save_text_encoder= force_snr_gamma= validation_scheduler
	do_edm_style_training= text_encoder_use_attention_mask= tokenizer_max_length `

var words = tool.Words{
	"/training/gradient_accumulation": tool.CountWord("gradient_accumulation_steps"),
	"/training/gradient_checkpointing": tool.ValueWords(map[string][]tool.Set{
		"full": {{Key: "gradient_checkpointing", Text: "true", Switch: true}}}),
}
