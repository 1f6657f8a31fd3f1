package readers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// trlKind is a kind of training that trl has a trainer for and that the estimator replays.
type trlKind struct {
	// config is the class of its arguments, and trainer the one that runs them.
	config, trainer string
	// pairs: what is trained on has a prompt and a completion; the others have sequences.
	pairs bool
	// reference: it is measured by another model, or by the trained one without its adapters.
	reference bool
	// writes: the completions are written while it trains.
	writes bool
}

// trlKinds are the kinds by the names of trl's programs. Sources: trl 0.26 and 1.16, trl/scripts, trl/trainer and
// trl/experimental.
var trlKinds = map[string]trlKind{
	"dpo":    {config: "DPOConfig", trainer: "DPOTrainer", pairs: true, reference: true},
	"orpo":   {config: "ORPOConfig", trainer: "ORPOTrainer", pairs: true},
	"cpo":    {config: "CPOConfig", trainer: "CPOTrainer", pairs: true},
	"kto":    {config: "KTOConfig", trainer: "KTOTrainer", pairs: true, reference: true},
	"reward": {config: "RewardConfig", trainer: "RewardTrainer"},
	"grpo":   {config: "GRPOConfig", trainer: "GRPOTrainer", pairs: true, writes: true},
	"rloo":   {config: "RLOOConfig", trainer: "RLOOTrainer", pairs: true, writes: true},
}

// trlPrograms are trl's own programs, by the ends of their paths.
var trlPrograms = []string{"trl/scripts/", "trl/examples/scripts/", "examples/scripts/"}

// trlKindOf is the kind that trl's own trainer runs in this command; "" where it is another's, or cannot be told.
func (r *reading) trlKindOf(kind, sub string) string {
	if kind == "reward_modeling" || kind == "reward_model" {
		kind = "reward"
	}
	k, known := trlKinds[kind]
	if !known {
		return ""
	}
	program := r.program.Text
	switch {
	case sub != "":
		return kind
	case r.code != nil:
		// a program with two kinds says nowhere which of them it runs
		for _, other := range trlKinds {
			if other.config != k.config && r.code.Mentions(other.config) {
				return ""
			}
		}
		if r.code.Mentions(k.config) && r.code.Mentions(k.trainer) {
			return kind
		}
		return ""
	}
	if slices.ContainsFunc(trlPrograms, func(dir string) bool {
		return strings.HasPrefix(program, dir) || strings.Contains(program, "/"+dir)
	}) {
		return kind
	}
	return ""
}

// trlHarmless are arguments of trl's trainers that change no tensor's size, or only those of a few numbers a sequence.
// Sources: trl 0.26 and 1.16, dpo_config.py, kto_config.py, reward_config.py, grpo_config.py, rloo_config.py.
var trlHarmless = strings.Fields(`f_divergence_type f_alpha_divergence_coef label_smoothing use_weighting ld_alpha discopop_tau
	loss_weights label_pad_token_id disable_dropout truncation_mode tools desirable_weight undesirable_weight
	center_rewards_coefficient precompute_ref_batch_size ds3_gather_for_generation temperature top_p top_k min_p
	generation_kwargs* chat_template_kwargs* repetition_penalty epsilon epsilon_high delta sapo_temperature_*
	importance_sampling_level reward_weights scale_rewards mask_truncated_completions log_completions
	num_completions_to_print log_unique_prompts wandb_log_unique_prompts reward_funcs reward_clip_range
	normalize_advantages num_generations_eval vllm_* router_aux_loss_coef max_tool_calling_iterations
	use_bias_correction_kl multi_objective_aggregation off_policy_mask_threshold cpo_alpha simpo_gamma`)

// trlObjective reads what trl's trainer of a kind takes besides the Trainer's arguments.
func (r *reading) trlObjective(kind string) {
	const pointer = "/training/objective"
	k := trlKinds[kind]
	at := setting.Value{Text: kind, Origin: setting.Origin{Kind: setting.Derived, Key: "trainer", At: r.at,
		How: "trl's " + k.trainer}}
	r.d.put(pointer+"/kind", kind, at)
	r.s.Read(trlHarmless...)
	if kind != "reward" {
		r.s.Read("beta")
	}
	r.trlLengths(kind)
	r.trlVersion(k)
	r.trlReference(k)
	switch kind {
	case "dpo":
		r.trlLosses()
		if v, ok := r.s.Get("use_logits_to_keep"); ok && v.On() {
			r.d.put(pointer+"/use_logits_to_keep", true, v)
		}
	case "cpo":
		if v, ok := r.s.Get("loss_type"); ok && v.String() == "simpo" {
			r.d.put(pointer+"/kind", "simpo", v)
		}
	default: // the others' losses are computed of the same log-probabilities
		r.s.Read("loss_type")
	}
	if k.writes {
		r.trlGeneration()
	}
	for _, key := range []string{"padding_free", "use_liger_loss", "use_liger_kernel",
		"use_transformers_paged", "use_transformers_continuous_batching", "activation_offloading",
		"cast_lm_head_to_fp32", "generate_during_eval"} {
		if v, ok := r.s.Get(key); ok && (v.On() || v.Unknown != "") {
			r.d.refuse("unsupported", v.Origin.At, "%s with trl's %s is not modelled: without it the job can be told",
				v.Origin.Key, k.trainer)
		}
	}
	// The reference moves towards the policy in place, parameter by parameter, and takes nothing for it.
	// Source: trl/trainer/callbacks.py (SyncRefModelCallback), 0.26 and 1.16.
	r.s.Read("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps")
	if kind == "ppo" && r.d.has("/training/evaluation") {
		r.d.drop("/training/evaluation")
		r.d.uncertain("/training/evaluation", "the evaluation of trl's %s is not modelled: the answer is of its "+
			"training steps alone", k.trainer)
	}
}

// trlLengths are the lengths of prompts and completions. trl cuts a sequence at max_length; up to 0.26 it cuts the
// prompt at max_prompt_length as well, and newer releases do not, so that the data decide.
func (r *reading) trlLengths(kind string) {
	const pointer = "/training/objective"
	const askPrompt, askCompletion = "How many tokens has a prompt?", "How many tokens has a completion?"
	if !trlKinds[kind].pairs {
		return
	}
	length, hasLength := r.d.int("/training/sequence_length")
	r.d.drop("/training/sequence_length")
	r.d.answered("/training/sequence_length")
	hasPrompt := r.number(pointer+"/prompt_tokens", askPrompt, "max_prompt_length")
	hasCompletion := r.number(pointer+"/completion_tokens", askCompletion, "max_completion_length")
	hasPrompt = hasPrompt || r.trlDefault(kind, "max_prompt_length", pointer+"/prompt_tokens")
	hasCompletion = hasCompletion || r.trlDefault(kind, "max_completion_length", pointer+"/completion_tokens")
	prompt, knowsPrompt := r.d.int(pointer + "/prompt_tokens")
	completion, knowsCompletion := r.d.int(pointer + "/completion_tokens")
	switch {
	case !hasPrompt && hasLength && knowsCompletion && !trlKinds[kind].writes && length > completion:
		r.d.derive(pointer+"/prompt_tokens", length-completion, "max_length %d - max_completion_length %d", length,
			completion)
	case !hasPrompt:
		r.d.ask(pointer+"/prompt_tokens", askPrompt, "the data decide: this release of trl has no limit of its own")
	}
	switch {
	case hasCompletion:
	case hasLength && knowsPrompt && length > prompt:
		r.d.derive(pointer+"/completion_tokens", length-prompt, "max_length %d - max_prompt_length %d", length, prompt)
	default:
		r.d.ask(pointer+"/completion_tokens", askCompletion, "the data decide, within max_length")
	}
}

// trlDefault sets a field to the whole number that the job's release of trl has for it, and reports whether it has one.
func (r *reading) trlDefault(kind, key, pointer string) bool {
	release := r.release("trl")
	var row Default
	for _, d := range trlLimits {
		if d.Class == trlKinds[kind].config && d.Key == key && (release == "" || !older(release, d.From)) {
			row = d // rows are in the order of releases
		}
	}
	n, err := strconv.ParseInt(row.Value, 10, 64)
	if err != nil {
		return false
	}
	r.d.fall(pointer, n, row.Key, row.String())
	return true
}

// trlVersion is the release that the job runs with, as far as its files tell: trl from 1.15 on makes other tensors of
// the logits than before, and a word that only older releases take shows that it is one of those.
func (r *reading) trlVersion(k trlKind) {
	const pointer, last = "/training/versions/trl", "0.26.2"
	if pinned := r.release("trl"); pinned != "" {
		r.d.derive(pointer, pinned, "the release of trl that is pinned or was said")
		return
	}
	for _, key := range []string{"max_prompt_length", "use_logits_to_keep", "rpo_alpha"} {
		if v, ok := r.s.Peek(key); ok && k.reference {
			r.d.derive(pointer, last, "%s (%s) is an argument of trl up to 0.28 alone", v.Origin.Key,
				v.Origin.At.Where())
			return
		}
	}
}

// trlReference is what preferences are measured by.
func (r *reading) trlReference(k trlKind) {
	const pointer = "/training/objective/reference"
	v, ok := r.s.Get("precompute_ref_log_probs")
	free, isFree := r.s.Get("reference_free")
	r.s.Read("force_use_ref_model", "ref_model_init_kwargs*", "model_adapter_name", "ref_adapter_name")
	switch {
	case !k.reference:
	case isFree && free.On():
		r.d.refuse("unsupported", free.Origin.At, "%s is not modelled: DPO is replayed with a reference",
			free.Origin.Key)
	case ok && v.Unknown != "":
		r.d.ask(pointer, "Is the reference precomputed?", v.Origin.At.Where()+": "+v.Unknown)
	case ok && v.On():
		r.d.put(pointer, "precomputed", v)
	}
}

// trlLosses are DPO's loss_type: one name, or several that are added up.
func (r *reading) trlLosses() {
	if v, ok := r.s.Get("rpo_alpha"); ok && v.Given() {
		r.d.put("/training/objective/loss_type", []string{"sigmoid", "rpo"}, v)
	}
	v, ok := r.s.Get("loss_type")
	switch {
	case !ok:
	case v.Unknown != "":
		r.d.ask("/training/objective/loss_type", "Which loss?", v.Origin.At.Where()+": "+v.Unknown)
	default:
		names := v.Strings()
		if len(names) == 0 {
			names = strings.Fields(v.String())
		}
		r.d.put("/training/objective/loss_type", names, v)
	}
}

// trlGeneration is how completions are written: how many for a prompt, for how many micro-steps at once, and by what.
func (r *reading) trlGeneration() {
	const pointer = "/training/objective"
	if !r.number(pointer+"/num_generations", "How many completions are written for a prompt?", "num_generations") {
		r.trlDefault(r.d.text(pointer+"/kind"), "num_generations", pointer+"/num_generations")
	}
	r.number(pointer+"/num_iterations", "How often is a completion trained on?", "num_iterations")
	if v, ok := r.s.Get("beta"); ok {
		if f, isFloat := v.Float(); isFloat && v.Unknown == "" {
			r.d.put(pointer+"/beta", f, v)
		} else {
			r.d.ask(pointer+"/beta", "Is there a divergence from a reference (beta)?", v.Origin.At.Where())
		}
	}
	r.number(pointer+"/steps_per_generation", "For how many micro-steps are completions written at once?",
		"steps_per_generation")
	if v, ok := r.s.Get("generation_batch_size"); ok {
		r.trlGenerationBatch(v)
	}
	if v, ok := r.s.Get("use_vllm"); ok && (v.On() || v.Unknown != "") {
		mode, hasMode := r.s.Get("vllm_mode")
		switch {
		case hasMode && mode.String() == "server":
			r.d.put(pointer+"/rollout", "vllm-server", mode)
		case !hasMode && older(cmp.Or(r.release("trl"), "1.0"), "1.0"): // server was the default of 0.26
			r.d.put(pointer+"/rollout", "vllm-server", v)
		case !hasMode || mode.String() == "colocate":
			r.colocated(v)
		default:
			r.d.ask(pointer+"/rollout", "Where does vLLM run (vllm_mode): beside the trainer or elsewhere?",
				v.Origin.At.Where())
		}
	}
}

// colocated is a vLLM on the trainer's own card, which takes a share of it.
func (r *reading) colocated(v setting.Value) {
	const pointer = "/training/objective"
	r.d.put(pointer+"/rollout", "vllm-colocate", v)
	if share, ok := r.s.Get("vllm_gpu_memory_utilization"); ok {
		if f, isFloat := share.Float(); isFloat && share.Unknown == "" {
			r.d.put(pointer+"/vllm_gpu_memory_utilization", f, share)
		} else {
			r.d.ask(pointer+"/vllm_gpu_memory_utilization", "Which share of the card does vLLM take?",
				share.Origin.At.Where())
		}
	}
	if sleep, ok := r.s.Get("vllm_enable_sleep_mode"); ok && sleep.On() {
		r.d.put(pointer+"/vllm_sleep", true, sleep)
	}
}

// trlGenerationBatch is generation_batch_size, of all processes together
// (trl 1.16 trainer/grpo_config.py, __post_init__).
func (r *reading) trlGenerationBatch(v setting.Value) {
	const pointer = "/training/objective/steps_per_generation"
	n, isInt := v.Int()
	micro, known := r.d.int("/training/micro_batch")
	world, shared := r.d.int("/training/distributed/world_size")
	if !shared {
		world = 1
	}
	switch {
	case !isInt || v.Unknown != "" || !known:
		r.d.ask(pointer, "For how many micro-steps are completions written at once?", v.Origin.At.Where())
	case n%(micro*world) != 0:
		r.d.refuse("cannot-start", v.Origin.At, "generation_batch_size %d is no multiple of the %d completions of "+
			"a micro-step: trl stops", n, micro*world)
	default:
		r.d.derive(pointer, n/(micro*world), "generation_batch_size %d / (%d × %d GPUs)", n, micro, world)
	}
}
