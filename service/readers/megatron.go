package readers

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// megatronTool reads the arguments of Megatron-LM's pretrain_gpt.py, and of Megatron-DeepSpeed's.
var megatronTool = tool{
	name:   "megatron",
	starts: (*reading).megatronStarts,
	read:   (*reading).readMegatron,
	words:  megatronWords,
}

// Where the defaults are from. Megatron-LM builds some of its options from the fields of TransformerConfig.
const (
	refMegatron          = "Megatron-LM@307dcf37 megatron/training/arguments.py"
	refMegatronConfig    = "Megatron-LM@307dcf37 megatron/core/transformer/transformer_config.py"
	refMegatronDeepSpeed = "bigscience-workshop/Megatron-DeepSpeed@b1246143 megatron/arguments.py"
)

// megatronOthers are Megatron's programs for models that are no decoder of text alone.
var megatronOthers = regexp.MustCompile(`^(pretrain|train|finetune)_(bert|t5|ict|biencoder|retro|vision\w*|vlm|mamba|hybrid|multimodal|mm|rl|grpo|dino|inpaint)\.py$`)

// megatronSwitches are options that take no value and that words may follow.
var megatronSwitches = set("bf16", "fp16", "swiglu", "deepspeed", "sequence_parallel", "use_distributed_optimizer",
	"recompute_activations", "checkpoint_activations", "use_flash_attn",
	"untie_embeddings_and_output_weights", "disable_bias_linear", "group_query_attention", "qk_layernorm",
	"add_qkv_bias", "use_mcore_models", "moe_grouped_gemm")

func (r *reading) megatronStarts() bool {
	if r.module {
		return false
	}
	name := r.base()
	s, _, open := options(r.args, megatronSwitches)
	if name != "pretrain_gpt.py" && name != "pretrain_gpt_deepspeed.py" {
		parallel := s.Any("tensor_model_parallel_size", "pipeline_model_parallel_size", "use_mcore_models",
			"use_distributed_optimizer", "deepspeed_config")
		if !s.Has("micro_batch_size") || !s.Any("num_layers", "hidden_size") || !parallel {
			return false
		}
	}
	for _, w := range open {
		r.openWord(w)
	}
	r.s = s
	return true
}

func (r *reading) readMegatron() {
	r.d.derive("/training/framework", "megatron", "the tool")
	if name := r.base(); megatronOthers.MatchString(name) {
		r.d.refuse("model-kind", r.at, "Megatron's %s trains another kind of model, or in another way, than the next "+
			"token's loss of a decoder", name)
	}
	deepspeed := r.s.Any("deepspeed", "deepspeed_config")
	r.megatronModel(deepspeed)
	r.number("/training/micro_batch", askMicroBatch, "micro_batch_size", "batch_size")
	if !r.number("/training/sequence_length", askLength, "seq_length", "encoder_seq_length") {
		r.d.ask("/training/sequence_length", askLength, "--seq-length is not given")
	}
	r.megatronDegrees()
	if r.megatronPrecision(); deepspeed {
		r.megatronDeepSpeed()
	} else {
		r.megatronOptimizerShards()
	}
	r.megatronOptimizer()
	r.megatronRecompute()
	r.megatronAttention(deepspeed)
	r.megatronDropout(deepspeed)
	r.s.Still(megatronStill...)
	r.s.Read(megatronHarmless...)
	r.loose(megatronLoose...)
}

// megatronDegrees reads how many GPUs share a model, and derives the accumulation from those that are left for the
// data.
func (r *reading) megatronDegrees() {
	s, shared := r.s, int64(1)
	for _, p := range []struct{ key, pointer string }{
		{"tensor_model_parallel_size", "tensor_parallel"}, {"pipeline_model_parallel_size", "pipeline_parallel"},
		{"context_parallel_size", "context_parallel"},
	} {
		keys := []string{p.key}
		if p.key == "tensor_model_parallel_size" {
			keys = append(keys, "model_parallel_size") // its name of 2020
		}
		if v, ok := s.Get(keys...); ok {
			if n, isInt := v.Int(); v.Unknown != "" || !isInt || n < 1 || n > 1<<20 {
				r.numberOf("/training/distributed/"+p.pointer, "Over how many GPUs? "+v.Origin.Key, v)
				r.fixed(count{why: v.Origin.Key + " is not known", at: v.Origin.At})
			}
		}
		shared *= min(r.degree("/training/distributed/"+p.pointer, keys...), 1<<20)
	}
	experts := r.degree("/training/distributed/expert_parallel", "expert_model_parallel_size")
	tensor, _ := r.d.int("/training/distributed/tensor_parallel")
	// arguments.py switches it off without tensor parallelism
	if v, ok := r.s.FirstOn("sequence_parallel"); ok && tensor > 1 {
		r.d.put("/training/distributed/sequence_parallel", true, v)
	}
	if v, ok := s.Peek("expert_tensor_parallel_size"); ok {
		if n, isInt := v.Int(); isInt && n == max(tensor, 1) {
			s.Read("expert_tensor_parallel_size")
		}
	}
	r.megatronVirtual()
	r.megatronWorld(shared, experts)
	global, given := s.Get("global_batch_size")
	if !given {
		r.d.fall("/training/gradient_accumulation", int64(1), "global_batch_size", refMegatron+
			": micro-batch × data parallel size")
		return
	}
	if v, ok := s.Get("rampup_batch_size", "step_batch_size_schedule"); ok {
		r.d.assume("/training/gradient_accumulation", "the batch has grown to %s (%s)", global.String(), v.Origin.Key)
	}
	r.d.sources["/training/gradient_accumulation"] = global
	r.accumulate(global, shared)
}

// megatronVirtual reads the interleaved schedule: how many pieces of the model a GPU of the pipeline holds.
func (r *reading) megatronVirtual() {
	const pointer = "/training/distributed/virtual_pipeline"
	if r.degree(pointer, "num_virtual_stages_per_pipeline_rank") > 1 {
		return
	}
	v, ok := r.s.Get("num_layers_per_virtual_pipeline_stage")
	each, isInt := v.Int()
	layers, hasLayers := r.d.int("/model/dimensions/layers")
	stages, hasStages := r.d.int("/training/distributed/pipeline_parallel")
	switch {
	case !ok || !hasStages:
	case !isInt || each < 1 || !hasLayers || each > layers || stages > layers || layers%(stages*each) != 0:
		r.d.ask(pointer, "How many pieces of the model does a GPU of the pipeline hold?", v.Origin.At.Where())
	case layers > stages*each:
		r.d.derive(pointer, layers/stages/each, "%d layers / %d stages / %d layers a piece", layers, stages, each)
	}
}

// megatronWorld holds the number of GPUs against the degrees: validate_args and initialize_model_parallel stop where it
// is no multiple. A number that rests on a variable's default is asked for then.
func (r *reading) megatronWorld(shared, experts int64) {
	w := r.gpus()
	stages, _ := r.d.int("/training/distributed/pipeline_parallel")
	etp, _ := r.d.int("/training/distributed/tensor_parallel")
	if v, ok := r.s.Peek("expert_tensor_parallel_size"); ok {
		if n, isInt := v.Int(); isInt {
			etp = n
		}
	}
	product, what := shared, "tensor × pipeline × context parallel"
	if together := min(max(etp, 1), 1<<20) * min(experts, 1<<20) * min(max(stages, 1), 1<<20); w.known &&
		w.n%shared == 0 && experts > 1 {
		product, what = together, "expert tensor × expert × pipeline parallel"
	}
	if !w.known || w.n%product == 0 {
		return
	}
	say := fmt.Sprintf("world size (%d) is not divisible by %d (%s)", w.n, product, what)
	for _, key := range []string{"nproc_per_node", "nnodes"} {
		if v, ok := r.own.Peek(key); ok && v.Assumed != "" && r.files.source.GPUs == 0 {
			r.fixed(count{why: say + ", with " + v.Origin.Key + " " + v.String() + ": " + v.Assumed, at: v.Origin.At})
			r.d.ask("/training/distributed/world_size", "On how many GPUs does it run?", because(r.world()))
			return
		}
	}
	r.d.put("/training/distributed/world_size", w.n, w.from)
	r.d.refuse("cannot-start", r.at, "Megatron stops: %s: on how many GPUs does it run?", say)
}

// megatronRecompute reads what is computed again in backward, in the words of all releases.
func (r *reading) megatronRecompute() {
	s := r.s
	const pointer = "/training/gradient_checkpointing"
	s.Read("deepspeed_activation_checkpointing", "checkpoint_in_cpu") // how, not whether; the second is asked for below
	granularity, ok := s.Get("recompute_granularity", "activations_checkpoint_granularity")
	method, hasMethod := s.Get("recompute_method", "activations_checkpoint_method")
	layers, hasLayers := s.Get("recompute_num_layers", "activations_checkpoint_num_layers", "checkpoint_num_layers")
	selective, isSelective := r.s.FirstOn("recompute_activations")
	all, isAll := r.s.FirstOn("checkpoint_activations")
	if v, on := r.s.FirstOn("distribute_saved_activations", "checkpoint_in_cpu",
		"distribute_checkpointed_activations", "partition_activations"); on {
		r.d.askWord(v)
	}
	switch {
	case ok && granularity.Unknown != "":
		r.d.ask(pointer, "What is computed again in backward?", granularity.Origin.At.Where()+": "+granularity.Unknown)
	case isSelective || granularity.String() == "selective":
		if !isSelective {
			selective = granularity
		}
		r.megatronSelective(selective)
	case isAll:
		r.megatronFull(all, method, layers, hasLayers)
	case granularity.String() == "full" || !ok && hasMethod:
		if !ok {
			granularity = method
		}
		r.megatronFull(granularity, method, layers, hasLayers)
	case ok:
		r.d.ask(pointer, "What is computed again in backward?", granularity.Origin.At.Where()+" says "+
			clip(granularity.String()))
	default:
		r.d.fall(pointer, "none", "recompute_granularity", refMegatronConfig)
	}
}

// megatronSelective: the core of attention is computed again where recompute_modules does not name other modules.
func (r *reading) megatronSelective(from setting.Value) {
	const pointer = "/training/gradient_checkpointing"
	if v, ok := r.s.Get("recompute_modules"); ok {
		if list := v.Strings(); v.Unknown != "" || len(list) != 1 || list[0] != "core_attn" {
			r.d.ask(pointer, "What is computed again in backward? Only the core of attention, or whole "+
				"layers, can be told.", v.Origin.At.Where()+" names "+clip(v.Text))
			return
		}
	}
	r.d.put(pointer, "selective", from)
}

// megatronFull: "uniform" keeps the input of every n-th layer, "block" computes the first n of a stage again.
func (r *reading) megatronFull(from, method, layers setting.Value, hasLayers bool) {
	const pointer = "/training/gradient_checkpointing"
	n, isInt := int64(1), true
	if hasLayers {
		n, isInt = layers.Int()
	}
	if !isInt || n < 1 {
		r.d.ask(pointer, "How many layers are computed again together?", layers.Origin.At.Where()+" says "+
			clip(layers.String()))
		return
	}
	all, _ := r.d.int("/model/dimensions/layers")
	stages, _ := r.d.int("/training/distributed/pipeline_parallel")
	switch {
	case method.String() == "block" && n*max(stages, 1) < all:
		r.d.ask(pointer, fmt.Sprintf("%d layers of each stage are computed again and the others are not, which a job "+
			"document cannot say", n), method.Origin.At.Where())
	case method.String() == "block" || n == 1:
		r.d.put(pointer, "full", from)
	default:
		r.d.put(pointer, map[string]any{"every": n}, layers)
	}
}

// megatronAttention: Transformer Engine chooses a kernel that keeps no scores, Megatron's own attention keeps them.
func (r *reading) megatronAttention(deepspeed bool) {
	const pointer = "/training/attention"
	if v, ok := r.s.FirstOn("use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2",
		"use_flash_attn_triton"); ok {
		r.d.put(pointer, "flash", v)
		return
	}
	v, ok := r.s.Get("attention_backend")
	local, _ := r.s.Get("transformer_impl")
	switch {
	case ok && v.Unknown != "":
		r.d.ask(pointer, "Which attention?", v.Origin.At.Where()+": "+v.Unknown)
	case strings.HasSuffix(v.String(), "flash"):
		r.d.put(pointer, "flash", v)
	case ok && (v.String() == "unfused" || v.String() == "local"):
		r.d.put(pointer, "eager", v)
	case !ok && local.String() == "local":
		r.d.put(pointer, "eager", local)
	case deepspeed:
		r.d.fall(pointer, "eager", "use_flash_attn", "bigscience-workshop/Megatron-DeepSpeed@b1246143 "+
			"megatron/model/transformer.py ParallelAttention")
	default:
		r.d.assume(pointer, "attention keeps no scores: Transformer Engine's kernels do not, Megatron's own "+
			"(--transformer-impl local, and releases before 2024) do")
	}
}

func (r *reading) megatronDropout(deepspeed bool) {
	ref := refMegatronConfig
	if deepspeed {
		ref = refMegatronDeepSpeed
	}
	for key, pointer := range map[string]string{"hidden_dropout": "/training/dropout/hidden",
		"attention_dropout": "/training/dropout/attention"} {
		v, ok := r.s.Get(key)
		f, isFloat := v.Float()
		switch {
		case !ok:
			r.d.fall(pointer, 0.1, key, ref)
		case !isFloat || v.Unknown != "":
			r.d.ask(pointer, "Which part is dropped?", v.Origin.At.Where()+" says "+cmp.Or(v.Unknown, v.String()))
		default:
			r.d.put(pointer, f, v)
		}
	}
}

// megatronHarmless are words that look as if they changed the memory and do not.
var megatronHarmless = strings.Fields(`data_parallel_random_init ckpt_* no_ckpt_fully_parallel_save dist_ckpt_*
	auto_detect_ckpt_format use_tp_pp_dp_mapping moe_aux_loss_coeff moe_z_loss_coeff moe_per_layer_logging use_sharp
	local_rank zero_stage deepspeed no_load_* no_save_* decoupled_lr decoupled_min_lr pipeline_model_parallel_comm_backend
	high_priority_stream_groups no_pipeline_parallel`)

// megatronLoose are words that move memory in a way that is not replayed: communication beside computation, another
// implementation of the layers, how tokens go to experts, how layers go to stages (Megatron-LM core_v0.12
// megatron/training/arguments.py).
var megatronLoose = strings.Fields(`overlap_* no_overlap_* async_tensor_model_parallel_allreduce
	no_async_tensor_model_parallel_allreduce tp_comm_* cp_comm_type pp_partition_method moe_router_* moe_grouped_gemm
	moe_token_dispatcher_type moe_permute_fusion moe_enable_deepep moe_shared_expert_overlap moe_use_legacy_grouped_gemm
	ddp_* use_mcore_models transformer_impl ds_*`)
