package swift

import (
	"cmp"

	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/trl"
)

const refRLHF = "ms-swift 4 swift/arguments/rlhf_args.py"

// port are ms-swift's trainers of preferences, rewards and completions (ms-swift 4 swift/rlhf_trainers).
var port = trl.Port{Tool: "ms-swift", Release: "0.26.2", Holds: "ms-swift's own makes the batches and the forward itself, " +
	"and was not traced"}

// kinds are trl's words for rlhf_type; simpo is CPO with another loss there (ms-swift 4 rlhf_args.py _init_simpo).
var kinds = map[string]string{"dpo": "dpo", "orpo": "orpo", "simpo": "cpo", "cpo": "cpo", "kto": "kto", "rm": "reward",
	"grpo": "grpo"}

// kind is trl's word for the kind of training; "" where it is none that can be told.
func (r *job) kind() string {
	v, ok := r.In.Get("rlhf_type")
	name := cmp.Or(v.String(), "dpo")
	kind, known := kinds[name]
	switch {
	case ok && v.Unknown != "":
		r.Out.Ask("/training/objective/kind", "Which kind of training (rlhf_type)?", v.Origin.At.Where()+": "+v.Unknown)
	case known:
		return kind
	case name == "ppo" || name == "gkd":
		r.Out.Refuse("objective", v.Origin.At, "rlhf_type %s of ms-swift has models beside the trained one (%s), and is not "+
			"read; trl's own is replayed: vramplan estimate --model NAME --objective %s", name,
			map[string]string{"ppo": "a value model, a reward model and a reference", "gkd": "a teacher"}[name], name)
	default:
		r.Out.Refuse("cannot-start", v.Origin.At, "rlhf_type %s: ms-swift takes dpo, orpo, simpo, kto, cpo, rm, ppo, grpo "+
			"and gkd", name)
	}
	return ""
}

// objective reads what a kind of training has besides the fine-tuning's arguments.
func (r *job) objective(kind string) {
	if kind == "" {
		return
	}
	const pointer = "/training/objective"
	r.In.Read("rlhf_type", "reward_model_type", "reward_weights", "ref_model_type", "ref_model_revision", "loss_scale",
		"log_completions", "async_generate", "num_infer_workers", "dynamic_sample", "overlong_filter", "max_resample_times",
		"soft_max_length", "soft_cache_length", "log_entropy", "stop_words", "importance_sampling_level",
		"structured_outputs_regex")
	simpo := r.In.Text("rlhf_type") == "simpo"
	if kind == "grpo" {
		r.writes()
	}
	r.Ported(kind, port)
	if simpo {
		r.Out.Derive(pointer+"/kind", "simpo", "rlhf_type")
	}
	if kind == "kto" {
		r.MismatchedPairs(port)
	}
	r.beside()
	if v, ok := r.In.Get("ref_model"); ok && v.Given() && programs.Kinds[kind].Reference &&
		v.String() != r.In.Text("model") {
		r.Out.Uncertain(pointer+"/reference", "the reference %s (%s) counts as large as the trained model", v.String(),
			v.Origin.At.Where())
	}
}

// beside says what is left aside of models that stand beside, and of code of the user's that rewards.
func (r *job) beside() {
	const pointer = "/training/objective"
	on := func(key string) (setting.Value, bool) {
		v, ok := r.In.Get(key)
		return v, ok && (v.Unknown != "" || !v.Off())
	}
	for _, key := range []string{"reward_model", "ref_adapters", "top_entropy_quantile", "multi_turn_scheduler"} {
		if v, ok := on(key); ok {
			r.Out.Uncertain(pointer, "what %s (%s) takes is not in the answer", v.Origin.Key, v.Origin.At.Where())
		}
	}
	for _, key := range []string{"offload_model", "offload_optimizer"} {
		if v, ok := on(key); ok {
			r.Out.Assume(pointer, "weights and the optimizer's state stay on the card while completions are written, and %s "+
				"(%s) moves them away", v.Origin.Key, v.Origin.At.Where())
		}
	}
	if v, ok := on("external_plugins"); ok {
		r.Out.Uncertain(pointer, "%s (%s) has functions that reward, and nothing else", v.Origin.Key, v.Origin.At.Where())
	}
}

// writes reads what ms-swift's GRPO has other defaults for than trl's: max_length cuts the prompt there, and the
// completion has a limit of its own.
func (r *job) writes() {
	const pointer = "/training/objective"
	const askPrompt = "How many tokens has a prompt?"
	r.Out.Drop("/training/sequence_length")
	r.Out.Answered("/training/sequence_length")
	if !r.Number(pointer+"/prompt_tokens", askPrompt, "max_length") {
		r.Out.Ask(pointer+"/prompt_tokens", askPrompt, "max_length is not given: the longest prompt of the data decides")
	}
	if !r.Number(pointer+"/completion_tokens", "How many tokens has a completion?", "max_completion_length",
		"response_length", "max_new_tokens") {
		r.Out.Fall(pointer+"/completion_tokens", int64(512), "max_completion_length", refRLHF)
	}
	r.Out.Fall(pointer+"/num_generations", int64(8), "num_generations", refRLHF)
	r.Out.Fall(pointer+"/beta", 0.04, "beta", refRLHF+" _init_grpo")
	if v, ok := r.In.FirstOn("use_vllm"); ok && !r.In.Has("vllm_mode") {
		r.Out.Refuse("cannot-start", v.Origin.At, "use_vllm without vllm_mode: ms-swift stops (it takes server and "+
			"colocate)")
	}
	if v, ok := r.In.Get("vllm_mode"); ok && v.String() == "colocate" {
		r.Out.Fall(pointer+"/vllm_gpu_memory_utilization", 0.9, "vllm_gpu_memory_utilization", "ms-swift 3.12.0 "+
			"swift/trainers/arguments.py")
		if sleep, given := r.In.Get("sleep_level"); given {
			if n, isInt := sleep.Int(); isInt && n > 0 && sleep.Unknown == "" {
				r.Out.Put(pointer+"/vllm_sleep", true, setting.Value{Text: sleep.Text, Origin: sleep.Origin})
			}
		}
	}
}
