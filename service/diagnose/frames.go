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
	// accelerate utils/operations.py (0.10 to 1.15): mixed precision makes what the model returns float32, and that is
	// the logits.
	{ClassLogits, regexp.MustCompile(`_convert_to_fp32|convert_to_fp32|convert_outputs_to_fp32|ConvertOutputsToFp32`),
		"makes a float32 copy of what the model returns, the logits, as accelerate does under mixed precision", 4},
	{ClassLogits, regexp.MustCompile(`cross_entropy|nll_loss|CrossEntropyLoss|loss_fct\(|logits\.float\(\)|logits\.to\(torch\.float32\)|\.float\(\)\s*#.*logits|shift_logits|lm_logits|lm_head\(|log_softmax|ForCausalLMLoss|fixed_cross_entropy|logsumexp|logits = `),
		"works on the logits or their loss", 3},
	{ClassAttentionScores, regexp.MustCompile(`attn_weights|attention_scores|attention_probs|attn_scores|torch\.matmul\(\s*(?:q|query)|softmax\(att|baddbmm|torch\.cdist|torch\.bmm\(|scaled_dot_product_attention|eager_attention_forward|_attn\(|alibi|causal_mask|_prepare_4d_causal_attention_mask|_update_causal_mask|scores = `),
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
		for _, s := range all[i].found() {
			found = append(found, clue{i + 1, clip(strings.TrimSpace(text), 160), s})
		}
	}
	if step := optimizerLine(all, at); step != nil {
		// the line that failed says more of an optimizer's step than the name of the function around it
		found = slices.DeleteFunc(found, func(c clue) bool {
			return c.sign.class == ClassOptimizerState || c.sign.class == ClassOptimizerTemporary
		})
		found = append([]clue{*step}, found...)
	}
	return found
}

// attentionCall is a call of PyTorch's attention: with scores where it writes them out, without where a kernel does
// not.
var attentionCall = regexp.MustCompile(`scaled_dot_product_attention`)

var (
	// optimizerFrame is a frame of an optimizer's step: of torch/optim, and of the libraries that bring their own.
	optimizerFrame = regexp.MustCompile(`torch/optim/|transformers/optimization\.py|bitsandbytes/optim/|` +
		`deepspeed/ops/(?:adam|lion|adagrad)/|apex/optimizers/|pytorch_optimizer/|(?:lion|sophia|galore|muon|came)[^/]*\.py|` +
		`in _(?:single|multi)_tensor_\w+`)
	// makesState is a line that makes what an optimizer keeps from step to step.
	makesState = regexp.MustCompile(`zeros_like|torch\.(?:zeros|empty|full)\(|empty_like|full_like|new_zeros|state(?:_\w+)?\[[^\]]*\]\s*=|` +
		`init_state|get_state_buffer|_init_group`)
	// computes is a line that makes something of tensors that are there.
	computes        = regexp.MustCompile(`[*/+-]=?\s|\.(?:sqrt|add|sub|mul|div|pow|abs|sign|neg|clone|lerp|addcdiv|addcmul|float|norm|maximum|square)_?\(|torch\.(?:_foreach_)?\w+\(`)
	stateLine       = sign{ClassOptimizerState, nil, "makes the optimizer's state, at its first step", 4}
	temporaryLine   = sign{ClassOptimizerTemporary, nil, "computes a temporary of the optimizer's step", 4}
	failingMarks    = regexp.MustCompile(`^[\s^~─│|]*$`)
	ipythonArrow    = regexp.MustCompile(`^\s*-+>\s*\d+\s(.*)$`)
	ipythonNumbered = regexp.MustCompile(`^\s*\d+\s`)
)

// failing is the line of code that failed, the last of a traceback that ends at line at (from 1), and the frame in
// which it stands; code is "" where the traceback has no code.
func failing(all []line, at int) (code string, number int, header string) {
	for i := at - 2; i >= max(0, at-1-failingLines); i-- {
		text := all[i].text
		switch arrow := ipythonArrow.FindStringSubmatch(text); {
		case failingMarks.MatchString(text):
		case frame.MatchString(text), strings.Contains(text, " in ") && strings.Contains(text, ".py"):
			return code, number, text
		case arrow != nil:
			code, number = arrow[1], i+1 // the arrow is on the line that runs
		case code == "" && !ipythonNumbered.MatchString(text):
			code, number = text, i+1
		}
	}
	return "", 0, ""
}

// failingLines is how far above the error its innermost frame may begin: a rich or IPython traceback has ten lines of a
// frame.
const failingLines = 14

// optimizerLine is what the line that failed says of an optimizer's step; nil where it is none.
func optimizerLine(all []line, at int) *clue {
	code, number, header := failing(all, at)
	if code == "" || !optimizerFrame.MatchString(header) {
		return nil
	}
	kind := &temporaryLine
	switch {
	case makesState.MatchString(code):
		kind = &stateLine
	case !computes.MatchString(code):
		return nil
	}
	return &clue{number, clip(strings.TrimSpace(code), 160), kind}
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
		if all[i].is(runsBackward) {
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
		if all[i].is(isFrame) {
			return true
		}
	}
	return false
}

// training are words that a run prints or a traceback shows where something is trained.
var training = regexp.MustCompile(`(?i)\bbackward\b|run_backward|\btrain|fine-?tun|_trainer|\bepochs?\b|optimizer|\bloss\b|\blora\b|learning[ _]rate`)

// patterns are what each mark is looked for with.
var patterns = map[mark]*regexp.Regexp{trains: training, runsBackward: backward, isFrame: frame}

// generates says whether nothing in a text, nor a job beside it, speaks of training.
func generates(k *clue, job *Job, all []line) bool {
	if k != nil {
		return k.sign.class == ClassInference
	}
	if job.Known {
		return false
	}
	for i := range all {
		if all[i].is(trains) {
			return false
		}
	}
	return true
}
