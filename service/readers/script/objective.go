package script

import (
	"slices"

	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// formerArguments are what trl's trainers took themselves before they had classes for it (trl 0.8.6
// trainer/dpo_trainer.py and kto_trainer.py, __init__; deprecated in 0.9 and gone from 0.13 on).
var formerArguments = []string{"beta", "loss_type", "max_length", "max_prompt_length", "max_target_length",
	"precompute_ref_log_probs", "label_smoothing", "reference_free", "generate_during_eval"}

// formerly reports whether a trainer is given TrainingArguments in place of a class of its own, as trl once took them.
func (r *job) formerly(kind string) bool {
	k := programs.Kinds[kind]
	_, plain := r.Code.Call("TrainingArguments")
	return plain && k.Pairs && !k.Writes
}

// trainersOwn lays what the trainer is given itself under its arguments.
func (r *job) trainersOwn(kind string) {
	call, ok := r.Code.Call(programs.Kinds[kind].Trainer)
	if !ok {
		return
	}
	for _, key := range formerArguments {
		if v, given := call.Keywords.Peek(key); given && !r.In.Has(key) {
			r.In.Set(key, v)
		}
	}
	if _, own := r.Code.Call(programs.Kinds[kind].Config); !own {
		r.Out.Assume("/training/versions", "a %s that is given TrainingArguments is trl's before 0.13, and is read as that "+
			"of 0.26", programs.Kinds[kind].Trainer)
	}
}

// trains reports whether the program calls one of these trainers.
func (r *job) trains(trainers []string) bool {
	return slices.ContainsFunc(trainers, func(name string) bool { _, ok := r.Code.Call(name); return ok })
}

// unslothObjective says what unsloth changes of trl's trainers: it compiles their losses and computes the
// log-probabilities of GRPO in parts (unsloth models/rl_replacements.py), and shares vLLM's weights with the trainer
// where fast_inference is on (unsloth models/loader.py from_pretrained fast_inference, gpu_memory_utilization).
func (r *job) unslothObjective() {
	const pointer = "/training/objective"
	r.Out.Assume(pointer, "it takes what trl's own trainer takes: unsloth compiles its loss, which takes less, and was not "+
		"traced")
	if r.Release("trl") == "" { // unsloth 2025.11 pyproject.toml: trl<=0.24.0
		r.Out.Derive("/training/versions/trl", "0.26.2", "unsloth holds trl back to 0.24, to which this is nearest")
	}
	r.wholeGroups()
	call, ok := r.Code.ModelCall()
	if !ok {
		return
	}
	fast, on := call.Keywords.Peek("fast_inference")
	switch {
	case !on || fast.Unknown == "" && fast.Off():
		return
	case fast.Unknown != "":
		r.Out.Ask(pointer+"/rollout", "Does vLLM write the completions on this card (fast_inference)?",
			fast.Origin.At.Where())
		return
	}
	r.Out.Put(pointer+"/rollout", "vllm-colocate", fast)
	share, given := call.Keywords.Peek("gpu_memory_utilization")
	f, isFloat := share.Float()
	switch {
	case !given:
		share = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "gpu_memory_utilization",
			Ref: "unsloth models/loader.py FastLanguageModel.from_pretrained gpu_memory_utilization"}}
		r.Out.Put(pointer+"/vllm_gpu_memory_utilization", 0.5, share)
	case isFloat && share.Unknown == "":
		r.Out.Put(pointer+"/vllm_gpu_memory_utilization", f, share)
	default:
		r.Out.Ask(pointer+"/vllm_gpu_memory_utilization", "Which share of the card does vLLM take?",
			share.Origin.At.Where())
	}
	r.Out.Assume(pointer+"/rollout", "the base counts twice, in vLLM's share (%s) and in the trainer: unsloth has it once",
		fast.Origin.At.Where())
}

// wholeGroups is the micro-batch that unsloth puts in the place of one of which no group of completions is made
// (unsloth models/rl.py patch_trl_rl_trainers, num_generations).
func (r *job) wholeGroups() {
	const pointer = "/training/micro_batch"
	group, writes := r.Out.Int("/training/objective/num_generations")
	micro, known := r.Out.Int(pointer)
	steps, knowsSteps := r.Out.Int("/training/gradient_accumulation")
	w := r.GPUs()
	if !writes || !known || !knowsSteps || group < 1 || r.In.Any("steps_per_generation", "generation_batch_size") {
		return
	}
	gpus := int64(1)
	if w.Known {
		gpus = max(w.N, 1)
	}
	if micro > 1<<20 || steps > 1<<20 || gpus > 1<<20 || micro*steps%group*gpus%group == 0 {
		return
	}
	r.Out.Derive(pointer, group, "num_generations %d, of which unsloth makes the micro-batch where no group is made of %d",
		group, micro)
}
