package trl

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// ownPrograms are trl's own programs, by the ends of their paths.
var ownPrograms = []string{"trl/scripts/", "trl/examples/scripts/", "examples/scripts/"}

// OwnModules is what the names of trl's programs begin with where they are started as modules: -m trl.scripts.grpo.
const OwnModules = "trl.scripts."

// KindOf is the kind that trl's own trainer runs in this command; "" where it is another's, or cannot be told.
func (r *Job) KindOf(kind, sub string) string {
	if kind == "reward_modeling" || kind == "reward_model" {
		kind = "reward"
	}
	k, known := programs.Kinds[kind]
	if !known {
		return ""
	}
	program := r.Program.Text
	switch {
	case sub != "":
		return kind
	case r.Code != nil:
		// a program with two kinds says nowhere which of them it runs
		for _, other := range programs.Kinds {
			if other.Config != k.Config && r.Code.Mentions(other.Config) {
				return ""
			}
		}
		if r.Code.Mentions(k.Config) && r.Code.Mentions(k.Trainer) {
			return kind
		}
		return ""
	}
	if r.Module && strings.HasPrefix(program, OwnModules) {
		return kind
	}
	if slices.ContainsFunc(ownPrograms, func(dir string) bool {
		return strings.HasPrefix(program, dir) || strings.Contains(program, "/"+dir)
	}) {
		return kind
	}
	return ""
}

// harmless are arguments of trl's trainers that change no tensor's size, or only those of a few numbers a sequence.
// Sources: trl 0.26 and 1.16, dpo_config.py, kto_config.py, reward_config.py, grpo_config.py, rloo_config.py.
var harmless = strings.Fields(`f_divergence_type f_alpha_divergence_coef label_smoothing use_weighting ld_alpha discopop_tau
	loss_weights label_pad_token_id disable_dropout truncation_mode tools desirable_weight undesirable_weight
	center_rewards_coefficient precompute_ref_batch_size ds3_gather_for_generation temperature top_p top_k min_p
	generation_kwargs* chat_template_kwargs* repetition_penalty epsilon epsilon_high delta sapo_temperature_*
	importance_sampling_level reward_weights scale_rewards mask_truncated_completions log_completions
	num_completions_to_print log_unique_prompts wandb_log_unique_prompts reward_funcs reward_clip_range
	normalize_advantages num_generations_eval vllm_* router_aux_loss_coef max_tool_calling_iterations
	use_bias_correction_kl multi_objective_aggregation off_policy_mask_threshold cpo_alpha simpo_gamma`)

// Objective reads what trl's trainer of a kind takes besides the Trainer's arguments.
func (r *Job) Objective(kind string) {
	k := programs.Kinds[kind]
	r.pursues(kind, "trl's "+k.Trainer)
	r.lengths(kind)
	r.version(k)
	r.takes(kind)
}

// pursues sets the kind of training, which a trainer says.
func (r *Job) pursues(kind, trainer string) {
	at := setting.Value{Text: kind, Origin: setting.Origin{Kind: setting.Derived, Key: "trainer", At: r.At, How: trainer}}
	r.Out.Put("/training/objective/kind", kind, at)
}

// takes reads what is left of a trainer's arguments.
func (r *Job) takes(kind string) {
	const pointer = "/training/objective"
	k := programs.Kinds[kind]
	r.In.Read(harmless...)
	if kind != "reward" {
		r.In.Read("beta")
	}
	r.reference(k)
	switch kind {
	case "dpo":
		r.losses()
		if v, ok := r.In.Get("use_logits_to_keep"); ok && v.On() {
			r.Out.Put(pointer+"/use_logits_to_keep", true, v)
		}
	case "cpo":
		if v, ok := r.In.Get("loss_type"); ok && v.String() == "simpo" {
			r.Out.Put(pointer+"/kind", "simpo", v)
		}
	default: // the others' losses are computed of the same log-probabilities
		r.In.Read("loss_type")
	}
	if k.Writes {
		r.generation()
		r.formerly(kind)
	}
	for _, key := range []string{"padding_free", "use_liger_loss", "use_liger_kernel",
		"use_transformers_paged", "use_transformers_continuous_batching", "activation_offloading",
		"cast_lm_head_to_fp32", "generate_during_eval"} {
		if v, ok := r.In.Get(key); ok && (v.On() || v.Unknown != "") {
			r.Out.Refuse("unsupported", v.Origin.At, "%s with trl's %s is not modelled: without it the job can be told",
				v.Origin.Key, k.Trainer)
		}
	}
	// The reference moves towards the policy in place, parameter by parameter, and takes nothing for it.
	// Source: trl/trainer/callbacks.py (SyncRefModelCallback), 0.26 and 1.16.
	r.In.Read("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps")
	if kind == "ppo" && r.Out.Has("/training/evaluation") {
		r.Out.Drop("/training/evaluation")
		r.Out.Uncertain("/training/evaluation", "the evaluation of trl's %s is not modelled: the answer is of its "+
			"training steps alone", k.Trainer)
	}
}

// lengths are the lengths of prompts and completions. trl cuts a sequence at max_length; up to 0.26 it cuts the
// prompt at max_prompt_length as well, and newer releases do not, so that the data decide.
func (r *Job) lengths(kind string) {
	const pointer = "/training/objective"
	const askPrompt, askCompletion = "How many tokens has a prompt?", "How many tokens has a completion?"
	if !programs.Kinds[kind].Pairs {
		return
	}
	length, hasLength := r.Out.Int("/training/sequence_length")
	r.Out.Drop("/training/sequence_length")
	r.Out.Answered("/training/sequence_length")
	hasPrompt := r.Number(pointer+"/prompt_tokens", askPrompt, "max_prompt_length")
	hasCompletion := r.Number(pointer+"/completion_tokens", askCompletion, "max_completion_length")
	hasPrompt = hasPrompt || r.trlDefault(kind, "max_prompt_length", pointer+"/prompt_tokens")
	hasCompletion = hasCompletion || r.trlDefault(kind, "max_completion_length", pointer+"/completion_tokens")
	prompt, knowsPrompt := r.Out.Int(pointer + "/prompt_tokens")
	completion, knowsCompletion := r.Out.Int(pointer + "/completion_tokens")
	switch {
	case !hasPrompt && hasLength && knowsCompletion && !programs.Kinds[kind].Writes && length > completion:
		r.Out.Derive(pointer+"/prompt_tokens", length-completion, "max_length %d - max_completion_length %d", length,
			completion)
	case !hasPrompt:
		r.Out.Ask(pointer+"/prompt_tokens", askPrompt, "the data decide: this release of trl has no limit of its own")
	}
	switch {
	case hasCompletion:
	case hasLength && knowsPrompt && length > prompt:
		r.Out.Derive(pointer+"/completion_tokens", length-prompt, "max_length %d - max_prompt_length %d", length, prompt)
	default:
		r.Out.Ask(pointer+"/completion_tokens", askCompletion, "the data decide, within max_length")
	}
}

// trlDefault sets a field to the whole number that the job's release of trl has for it, and reports whether it has one.
func (r *Job) trlDefault(kind, key, pointer string) bool {
	release := r.Release("trl")
	var row defaults.Default
	for _, d := range defaults.TRLLimits {
		if d.Class == programs.Kinds[kind].Config && d.Key == key && (release == "" || !defaults.Older(release, d.From)) {
			row = d // rows are in the order of releases
		}
	}
	n, err := strconv.ParseInt(row.Value, 10, 64)
	if err != nil {
		return false
	}
	r.Out.Fall(pointer, n, row.Key, row.String())
	return true
}

// version is the release that the job runs with, as far as its files tell: trl from 1.15 on makes other tensors of
// the logits than before, and a word that only older releases take shows that it is one of those.
func (r *Job) version(k programs.Kind) {
	const pointer, last = "/training/versions/trl", "0.26.2"
	if pinned := r.Release("trl"); pinned != "" {
		r.Out.Derive(pointer, pinned, "the release of trl that is pinned or was said")
		return
	}
	for _, key := range []string{"max_prompt_length", "use_logits_to_keep", "rpo_alpha"} {
		if v, ok := r.In.Peek(key); ok && k.Reference {
			r.Out.Derive(pointer, last, "%s (%s) is an argument of trl up to 0.28 alone", v.Origin.Key,
				v.Origin.At.Where())
			return
		}
	}
}

// reference is what preferences are measured by.
func (r *Job) reference(k programs.Kind) {
	const pointer = "/training/objective/reference"
	v, ok := r.In.Get("precompute_ref_log_probs")
	free, isFree := r.In.Get("reference_free")
	r.In.Read("force_use_ref_model", "ref_model_init_kwargs*", "model_adapter_name", "ref_adapter_name")
	switch {
	case !k.Reference:
	case isFree && free.On():
		r.Out.Refuse("unsupported", free.Origin.At, "%s is not modelled: DPO is replayed with a reference",
			free.Origin.Key)
	case ok && v.Unknown != "":
		r.Out.Ask(pointer, "Is the reference precomputed?", v.Origin.At.Where()+": "+v.Unknown)
	case ok && v.On():
		r.Out.Put(pointer, "precomputed", v)
	}
}

// losses are DPO's loss_type: one name, or several that are added up.
func (r *Job) losses() {
	if v, ok := r.In.Get("rpo_alpha"); ok && v.Given() {
		r.Out.Put("/training/objective/loss_type", []string{"sigmoid", "rpo"}, v)
	}
	v, ok := r.In.Get("loss_type")
	switch {
	case !ok:
	case v.Unknown != "":
		r.Out.Ask("/training/objective/loss_type", "Which loss?", v.Origin.At.Where()+": "+v.Unknown)
	default:
		names := v.Strings()
		if len(names) == 0 {
			names = strings.Fields(v.String())
		}
		r.Out.Put("/training/objective/loss_type", names, v)
	}
}

// generation is how completions are written: how many for a prompt, for how many micro-steps at once, and by what.
func (r *Job) generation() {
	const pointer = "/training/objective"
	if !r.Number(pointer+"/num_generations", "How many completions are written for a prompt?", "num_generations") {
		r.trlDefault(r.Out.Text(pointer+"/kind"), "num_generations", pointer+"/num_generations")
	}
	r.Number(pointer+"/num_iterations", "How often is a completion trained on?", "num_iterations")
	if v, ok := r.In.Get("beta"); ok {
		if f, isFloat := v.Float(); isFloat && v.Unknown == "" {
			r.Out.Put(pointer+"/beta", f, v)
		} else {
			r.Out.Ask(pointer+"/beta", "Is there a divergence from a reference (beta)?", v.Origin.At.Where())
		}
	}
	r.Number(pointer+"/steps_per_generation", "For how many micro-steps are completions written at once?",
		"steps_per_generation")
	if v, ok := r.In.Get("generation_batch_size"); ok {
		r.generationBatch(v)
	}
	if v, ok := r.In.Get("use_vllm"); ok && (v.On() || v.Unknown != "") {
		mode, hasMode := r.In.Get("vllm_mode")
		switch {
		case hasMode && mode.String() == "server":
			r.Out.Put(pointer+"/rollout", "vllm-server", mode)
		case !hasMode && defaults.Older(cmp.Or(r.Release("trl"), "1.0"), "1.0"): // server was the default of 0.26
			r.Out.Put(pointer+"/rollout", "vllm-server", v)
		case !hasMode || mode.String() == "colocate":
			r.colocated(v)
		default:
			r.Out.Ask(pointer+"/rollout", "Where does vLLM run (vllm_mode): beside the trainer or elsewhere?",
				v.Origin.At.Where())
		}
	}
}

// formerly is how a release of trl that the job names wrote completions where today's does otherwise.
// Sources: trl 0.14.0 trainer/grpo_trainer.py (compute_loss: every prompt of a micro-batch num_generations times) and
// 0.15.0 (_get_train_sampler: the completions themselves are a micro-batch); trainer/grpo_config.py (beta) and
// trainer/rloo_config.py of 0.14.0 to 0.22.0.
func (r *Job) formerly(kind string) {
	const micro, weighs = "/training/micro_batch", "/training/objective/beta"
	release := r.Release("trl")
	if release == "" {
		return
	}
	if kind == "rloo" && defaults.Older(release, rlooAnew) {
		r.Out.Refuse("objective", r.At, "RLOOTrainer of trl %s is another one, which holds a reward model besides, and is not "+
			"replayed: that of %s and newer is (--set versions.trl=%s)", release, rlooAnew, rlooAnew)
	}
	if kind != "grpo" {
		return
	}
	if defaults.Older(release, grpoFree) && !r.In.Any("beta") {
		r.Out.Fall(weighs, 0.04, "beta", "trl before "+grpoFree+" trainer/grpo_config.py GRPOConfig.beta")
	}
	prompts, known := r.Out.Int(micro)
	each, says := r.Out.Int("/training/objective/num_generations")
	if known && says && prompts < 1<<31 && each < 1<<31 && defaults.Older(release, "0.15.0") {
		r.Out.Derive(micro, prompts*each, "%d prompts × %d completions, as trl before 0.15 has it", prompts, each)
	}
}

const (
	// grpoFree is the first release whose GRPOConfig has no reference of itself.
	grpoFree = "0.19.0"
	// rlooAnew is the first release of RLOOTrainer that takes functions for rewards.
	rlooAnew = "0.22.0"
)

// colocated is a vLLM on the trainer's own card, which takes a share of it.
func (r *Job) colocated(v setting.Value) {
	const pointer = "/training/objective"
	r.Out.Put(pointer+"/rollout", "vllm-colocate", v)
	if share, ok := r.In.Get("vllm_gpu_memory_utilization"); ok {
		if f, isFloat := share.Float(); isFloat && share.Unknown == "" {
			r.Out.Put(pointer+"/vllm_gpu_memory_utilization", f, share)
		} else {
			r.Out.Ask(pointer+"/vllm_gpu_memory_utilization", "Which share of the card does vLLM take?",
				share.Origin.At.Where())
		}
	}
	if sleep, ok := r.In.Get("vllm_enable_sleep_mode"); ok && sleep.On() {
		r.Out.Put(pointer+"/vllm_sleep", true, sleep)
	}
}

// generationBatch is generation_batch_size, of all processes together
// (trl 1.16 trainer/grpo_config.py, __post_init__).
func (r *Job) generationBatch(v setting.Value) {
	const pointer = "/training/objective/steps_per_generation"
	n, isInt := v.Int()
	micro, known := r.Out.Int("/training/micro_batch")
	world, shared := r.Out.Int("/training/distributed/world_size")
	if !shared {
		world = 1
	}
	switch {
	case !isInt || v.Unknown != "" || !known:
		r.Out.Ask(pointer, "For how many micro-steps are completions written at once?", v.Origin.At.Where())
	case n%(micro*world) != 0:
		r.Out.Refuse("cannot-start", v.Origin.At, "generation_batch_size %d is no multiple of the %d completions of "+
			"a micro-step: trl stops", n, micro*world)
	default:
		r.Out.Derive(pointer, n/(micro*world), "generation_batch_size %d / (%d × %d GPUs)", n, micro, world)
	}
}
