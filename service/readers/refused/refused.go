// Package refused recognises programs of other kinds in order to refuse them by name.
package refused

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// kind is a sort of program that is recognised in order to be refused by name.
type kind struct {
	reader  string
	program *regexp.Regexp
	say     string
}

const sayFastLLM = "Fast-LLM's configuration is not read: its micro-batch is counted in tokens and its model is " +
	"described block by block"

// sayPipeline is the command that answers for a pipeline and no file.
const sayPipeline = "vramplan estimate --pipeline stabilityai/stable-diffusion-xl-base-1.0 --micro-batch 1 --resolution 1024"

// sayGRPO is the command that answers for trl's trainer.
const sayGRPO = "trl's GRPOTrainer is: vramplan estimate --model NAME --objective grpo --micro-batch N --prompt-tokens N " +
	"--completion-tokens N"

// kinds are programs whose jobs are of a kind that the job document does not have, or that configure themselves in ways
// that are not followed.
var kinds = []kind{
	{"diffusers", regexp.MustCompile(`(?i)(^|/)(train_(text_to_image|dreambooth|controlnet|unconditional|instruct_pix2pix|custom_diffusion|lcm|t2i_adapter|wuerstchen|cogvideox|flux|sdxl|sd3|hidream|lora_flux|kandinsky|hunyuan|wan|amused|kontext)\w*|textual_inversion\w*|(sdxl_|sd3_|flux_|hv_|wan_)?train_(network|db)\w*|flux_train\w*|sdxl_train\w*|fine_tune_sdxl\w*|finetrainers\S*)(\.py)?$`),
		"this script for a diffusion model is not replayed; diffusers' own are, text_to_image, DreamBooth and ControlNet: " +
			sayPipeline},
	{"openrlhf", regexp.MustCompile(`^openrlhf\.cli\.(train_ppo\w*|train_grpo\w*|batch_\w+|serve_\w+|interactive_\w+|lora_\w+)`),
		"OpenRLHF's %s trains by reinforcement, or does not train: actor, critic, reference and vLLM take turns on the cards, " +
			"which is not replayed; " + sayGRPO},
	{"openrlhf", regexp.MustCompile(`^openrlhf\.cli\.`), "OpenRLHF's %s has a loop of its own, which is not replayed; trl's " +
		"are: vramplan estimate --model NAME --objective dpo --micro-batch N --prompt-tokens N --completion-tokens N " +
		"(sft, kto, reward)"},
	{"verl", regexp.MustCompile(`^verl\.trainer\.main_\w+$|^recipe\.\w+\.main\w*`),
		"verl trains by reinforcement (PPO, GRPO): actor, reference and vLLM take turns on the cards, which is not replayed; " +
			sayGRPO},
	{"nanochat", regexp.MustCompile(`^scripts\.(base_train|mid_train|chat_sft|chat_rl)$`),
		"nanochat's %s trains a model of its own (relu² in the MLP, norms without weights, a bounded head) with Muon, which is " +
			"not replayed; a decoder of that depth and width is the nearest that is (vramplan estimate -f JOB with " +
			"model.dimensions)"},
	{"nemo", regexp.MustCompile(`(?i)(^|/)(automodel)$|^nemo_automodel|^nemo\.collections\.|(^|/)nemo$`),
		"NeMo's %s is configured by classes of its own, which are not read"},
	{"nemo", regexp.MustCompile(`(?i)(^|/)(megatron_gpt_(pretraining|finetuning|sft|peft_tuning)|run_grpo\w*|run_dpo\w*)\.py$`), "NeMo's %s is configured by classes of its own, which are not read"},
	{"fast-llm", regexp.MustCompile(`(^|/)fast-llm$|^fast_llm(\.|$)`),
		sayFastLLM},
	{"ms-swift", regexp.MustCompile(`^(megatron-swift)$`), "Megatron-SWIFT is not read"},
	{"lit-diffusion", regexp.MustCompile(`(?i)diffusion\w*train|train\w*diffusion`),
		"a diffusion model is trained by a loop that is not replayed; those of diffusers are: " + sayPipeline},
}

// Tool names programs of other kinds.
var Tool = tool.Tool{
	Name: "other",
	Marks: map[string]int{"config.process": 5, "config.process.0.type": 3, "actor_rollout_ref*": 5, "process": 0,
		// LLaMA-Factory's new configuration (0.9.5 src/llamafactory/v1/config)
		"dist_config*": 2, "kernel_config*": 2, "model_class": 2, "sample_backend": 2, "peft_config.name": 2,
		// Fast-LLM (0.4 fast_llm/engine/training/config.py)
		"model.base_model*": 3, "model.multi_stage*": 3, "model.distributed*": 2, "pretrained.format": 3,
		"schedule.micro_batch*": 2},
	New: func(j *tool.Job) tool.Reader { return &job{Job: j} },
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	_, ok := r.kind()
	return ok
}

// Read maps the settings to fields.
func (r *job) Read() {
	if k, ok := r.kind(); ok {
		r.Out.Reader = k.reader
		r.Out.Refuse("model-kind", r.At, "%s: %s", r.Base(), strings.ReplaceAll(k.say, "%s", r.Base()))
		return
	}
	switch {
	case r.hasBeneath("model.base_model.", "model.multi_stage.", "pretrained.format"):
		r.Out.Reader = "fast-llm"
		r.Out.Refuse("model-kind", r.At, "%s", sayFastLLM)
		return
	case r.hasBeneath("dist_config.", "kernel_config.", "model_class", "sample_backend"):
		r.Out.Reader = "llama-factory"
		r.Out.Refuse("unsupported", r.At, "this is a configuration of LLaMA-Factory's new engine (USE_V1), "+
			"which is not read")
		return
	}
	r.Out.Reader = "ai-toolkit"
	v, _ := r.In.Get("config.process.0.model.name_or_path", "actor_rollout_ref.model.path")
	if r.In.Has("config.process") {
		r.Out.Refuse("model-kind", v.Origin.At, "ai-toolkit trains a diffusion model (%s) by a loop that is not "+
			"replayed; those of diffusers are: %s", cmp.Or(v.String(), "its model is not named"), sayPipeline)
		return
	}
	r.Out.Reader = "verl"
	r.Out.Refuse("objective", v.Origin.At, "verl trains by reinforcement (PPO, GRPO), which is not "+
		"replayed; %s", sayGRPO)
}

// hasBeneath reports whether a setting begins with one of some words.
func (r *job) hasBeneath(prefixes ...string) bool {
	return slices.ContainsFunc(r.In.Keys(), func(key string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	})
}

func (r *job) kind() (kind, bool) {
	name := r.Program.Text
	for _, k := range kinds {
		if name != "" && k.program.MatchString(name) {
			return k, true
		}
	}
	return kind{}, false
}
