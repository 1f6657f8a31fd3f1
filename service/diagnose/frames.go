package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// clue is what a line of a traceback says about the request that failed.
type clue struct {
	// Line is where it stands in the text, from 1.
	line int
	text string
	sign *sign
}

// sign is one sort of line: what asks for memory there.
type sign struct {
	class Class
	find  *regexp.Regexp
	// what says in a few words what the line does.
	what string
	// outranks is how sure the sign is: a larger one wins over a smaller one that stands nearer to the failure.
	rank int
}

// signs are lines of libraries' code by which a moment of a run can be told, and what is asked for there. Function and
// file names are those of the libraries; releases in which they stand are behind them.
var signs = []sign{
	// transformers Trainer.evaluation_loop keeps predictions on the card (4.x and 5.x: trainer.py,
	// trainer_pt_utils.py).
	{ClassEval, regexp.MustCompile(`evaluation_loop|prediction_step|prediction_loop|nested_concat|nested_gpu_gather|compute_metrics|in (?:evaluate|validate|validation_step|test_step|estimate_loss)\b|def evaluate|trainer\.evaluate\(|EvalPrediction`),
		"runs inside an evaluation", 5},
	// torch.load without map_location, load_state_dict of an optimizer, resuming.
	{ClassResume, regexp.MustCompile(`_load_optimizer_and_scheduler|optimizer\.load_state_dict|load_checkpoint|resume_from_checkpoint|_load_from_checkpoint|_rebuild_tensor|torch/serialization\.py|restore_location|default_restore_location`),
		"reads a checkpoint back", 2},
	// transformers modeling_utils.py, accelerate utils/modeling.py, nn.Module.to / cuda.
	{ClassWeightsLoad, regexp.MustCompile(`_load_state_dict_into_meta_model|_load_pretrained_model|load_pretrained|in from_pretrained|from_pretrained\(|set_module_tensor_to_device|dispatch_model|load_checkpoint_and_dispatch|_apply\(|in _apply$|in convert$|model\.(?:to|cuda)\(|\.to\(device\)|self\._apply|in cuda$|_move_model_to_device|create_and_replace_param|create_quantized_param`),
		"loads or moves the weights", 2},
	// DeepSpeed runtime/zero/stage_1_and_2.py, stage3.py; FSDP _flat_param.py: one buffer for all parameters.
	{ClassWeightsFlat, regexp.MustCompile(`initialize_optimizer_states|_flatten_dense_tensors|flatten_dense_tensors|flatten_dense_tensors_aligned|_flat_param|flat_param|FlatParamHandle|_initialize_params|flatten_tensors|_create_fp16_partitions|_create_fp32_partitions|create_fp32_partition|single_partition_of_fp32_groups|in _configure_zero_optimizer|broadcast_coalesced|fused_adam|fp32_groups_flat|_broadcast_coalesced|sync_module_states|_setup_for_real_optimizer`),
		"puts all parameters into one buffer", 4},
	// torch/optim: foreach's lists of temporaries.
	{ClassOptimizerTemporary, regexp.MustCompile(`_foreach_(?:sqrt|add|mul|div|addcdiv|addcmul|neg|lerp|reciprocal|clone|norm)|_multi_tensor_\w+|clip_grad_norm|unscale_grads|_amp_foreach`),
		"steps the optimizer over lists of tensors, which take temporaries of their size", 4},
	// torch/optim/*.py: state is made at the first step.
	{ClassOptimizerState, regexp.MustCompile(`exp_avg(?:_sq)?'?\]?\s*=\s*torch\.zeros_like|state\[.*\]\s*=\s*torch\.zeros|_init_group|in init_state|torch\.zeros_like\(\s*p\b|_single_tensor_adam|optimizer\.step\(|in step$|init_optimizer_state|get_state_buffer`),
		"steps the optimizer, which makes its state at the first step", 3},
	{ClassInference, regexp.MustCompile(`in generate\b|\.generate\(|in _sample\b|greedy_search|beam_search|_beam_search|in sample\b|contrastive_search|prepare_inputs_for_generation|model_runner|vllm/|diffusers/pipelines|pipeline_\w+\.py|in txt2img|text-generation|gradio/`),
		"generates: the keys and values of all tokens so far are kept", 3},
	{ClassNCCL, regexp.MustCompile(`ProcessGroupNCCL|ncclCommInit|init_process_group|_verify_param_shape_across_processes`),
		"makes or uses a communicator of NCCL", 1},
	{ClassLogits, regexp.MustCompile(`cross_entropy|nll_loss|CrossEntropyLoss|loss_fct\(|logits\.float\(\)|logits\.to\(torch\.float32\)|\.float\(\)\s*#.*logits|shift_logits|lm_logits|lm_head\(|log_softmax|ForCausalLMLoss|fixed_cross_entropy|logsumexp|logits = `),
		"works on the logits or their loss", 3},
	{ClassAttentionScores, regexp.MustCompile(`attn_weights|attention_scores|attention_probs|attn_scores|torch\.matmul\(\s*(?:q|query)|softmax\(att|baddbmm|torch\.cdist|torch\.bmm\(|eager_attention_forward|_attn\(|alibi|causal_mask|_prepare_4d_causal_attention_mask|_update_causal_mask|scores = `),
		"works on attention scores, tokens × tokens", 3},
	{ClassActivations, regexp.MustCompile(`down_proj|up_proj|gate_proj|act_fn|self\.mlp\(|c_fc|intermediate_act_fn|feed_forward|self\.dropout|layer_norm|layernorm|rms_norm|RMSNorm|conv2d|F\.conv|group_norm|F\.interpolate|upsample`),
		"works on activations of a layer", 2},
	{ClassContext, regexp.MustCompile(`_lazy_init|cuda\.init\(|THCTensorRandom|THCGeneral|torch\.cuda\.(?:set_device|manual_seed|current_device|synchronize)|cublasCreate|cudnnCreate|cuda_check_init`),
		"makes the CUDA context or a library's handle", 3},
	{ClassDataLoader, regexp.MustCompile(`DataLoader worker|pin_memory|_MultiProcessingDataLoaderIter`),
		"moves a batch to the card or loads it", 1},
}

// framework is code of PyTorch itself: what it does for others says nothing of who asked.
var framework = regexp.MustCompile(`site-packages/torch/(?:nn/modules/module|utils|autograd|_dynamo|cuda/|distributed/|_tensor|nn/parallel)`)

// backward is the line that starts a backward pass: what asked is inside the engine, which has no lines of its own.
var backward = regexp.MustCompile(`loss\.backward\(|\.backward\(|run_backward|_engine_run_backward|accelerator\.backward|Variable\._execution_engine`)

// clues finds what the lines around a failure at line at (from 1) say: the lines above it, since Python prints a
// traceback before the error, and the few below that belong to it.
func clues(all []line, at int) []clue {
	var found []clue
	first := max(0, at-1-tracebackLines)
	for i := min(len(all), at+2) - 1; i >= first; i-- {
		text := all[i].text
		if i < at-1 && strings.Contains(text, "Traceback (most recent call last)") {
			first = i
		}
		if framework.MatchString(text) && !strings.Contains(text, "torch/optim") &&
			!strings.Contains(text, "serialization") {
			continue
		}
		for s := range signs {
			if signs[s].find.MatchString(text) {
				found = append(found, clue{i + 1, clip(strings.TrimSpace(text), 160), &signs[s]})
			}
		}
	}
	return found
}

// strongest is the clue that decides: of the surest kind, the one nearest to the failure. Nil where there is none.
func strongest(found []clue) *clue {
	var best *clue
	for i := range found {
		if best == nil || found[i].sign.rank > best.sign.rank {
			best = &found[i]
		}
	}
	return best
}

// inBackward says whether the failure was in a backward pass.
func inBackward(all []line, at int) bool {
	for i := max(0, at-1-tracebackLines); i < min(len(all), at+1); i++ {
		if backward.MatchString(all[i].text) {
			return true
		}
	}
	return false
}

// frame is a line of a Python traceback.
var frame = regexp.MustCompile(`^\s*File "[^"]+", line \d+`)

// inRun says whether a traceback leads to the failure at a line, that is, whether it was in the middle of a run.
func inRun(all []line, at int) bool {
	for i := max(0, at-1-tracebackLines); i < min(len(all), at+1); i++ {
		if frame.MatchString(all[i].text) {
			return true
		}
	}
	return false
}

// training are words that a run prints or a traceback shows where something is trained.
var training = regexp.MustCompile(`(?i)\bbackward\b|run_backward|\btrain|fine-?tun|_trainer|\bepochs?\b|optimizer|\bloss\b|\blora\b|learning[ _]rate`)

// generates says whether nothing in a text, nor a job beside it, speaks of training.
func generates(k *clue, job *Job, all []line) bool {
	if k != nil {
		return k.sign.class == ClassInference
	}
	return !job.Known && !slices.ContainsFunc(all, func(l line) bool { return training.MatchString(l.text) })
}
