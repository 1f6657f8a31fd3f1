// Package megatron reads the arguments of Megatron-LM and of Megatron-DeepSpeed.
package megatron

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads the arguments of Megatron-LM's pretrain_gpt.py, and of Megatron-DeepSpeed's.
var Tool = tool.Tool{
	Name:  "megatron",
	New:   func(j *tool.Job) tool.Reader { return &job{Job: shards.Of(j)} },
	Words: words,
	Still: stillText,
}

// job is one job on its way through this tool.
type job struct {
	shards.Job
}

// Where the defaults are from. Megatron-LM builds some of its options from the fields of TransformerConfig.
const (
	refMegatron          = "Megatron-LM@307dcf37 megatron/training/arguments.py"
	refMegatronConfig    = "Megatron-LM@307dcf37 megatron/core/transformer/transformer_config.py"
	refMegatronDeepSpeed = "bigscience-workshop/Megatron-DeepSpeed@b1246143 megatron/arguments.py"
)

// others are Megatron's programs for models that are no decoder of text alone.
var others = regexp.MustCompile(`^(pretrain|train|finetune)_(bert|t5|ict|biencoder|retro|vision\w*|vlm|mamba|hybrid|multimodal|mm|rl|grpo|dino|inpaint)\.py$`)

// switches are options that take no value and that words may follow.
var switches = setting.SetOf("bf16", "fp16", "swiglu", "deepspeed", "sequence_parallel", "use_distributed_optimizer",
	"recompute_activations", "checkpoint_activations", "use_flash_attn",
	"untie_embeddings_and_output_weights", "disable_bias_linear", "group_query_attention", "qk_layernorm",
	"add_qkv_bias", "use_mcore_models", "moe_grouped_gemm")

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if r.Module {
		return false
	}
	name := r.Base()
	s, _, open := argv.Options(r.Args, switches)
	if name != "pretrain_gpt.py" && name != "pretrain_gpt_deepspeed.py" {
		parallel := s.Any("tensor_model_parallel_size", "pipeline_model_parallel_size", "use_mcore_models",
			"use_distributed_optimizer", "deepspeed_config")
		if !s.Has("micro_batch_size") || !s.Any("num_layers", "hidden_size") || !parallel {
			return false
		}
	}
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = s
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Out.Derive("/training/framework", "megatron", "the tool")
	if name := r.Base(); others.MatchString(name) {
		r.Out.Refuse("model-kind", r.At, "Megatron's %s trains another kind of model, or in another way, than the next "+
			"token's loss of a decoder", name)
	}
	if v, ok := r.In.Get("task"); ok { // tasks/main.py
		r.Out.Refuse("model-kind", v.Origin.At, "%s %s is one of Megatron's tasks (%s), not the next token's loss of a decoder",
			v.Origin.Key, v.String(), r.Program.Text)
	}
	deepspeed := r.In.Any("deepspeed", "deepspeed_config")
	r.model(deepspeed)
	r.Number("/training/micro_batch", tool.AskMicroBatch, "micro_batch_size", "batch_size")
	if !r.Number("/training/sequence_length", tool.AskLength, "seq_length", "encoder_seq_length") {
		r.Out.Ask("/training/sequence_length", tool.AskLength, "--seq-length is not given")
	}
	r.degrees()
	if r.precision(); deepspeed {
		r.deepSpeed()
	} else {
		r.optimizerShards()
	}
	r.optimizer()
	r.recompute()
	r.attention(deepspeed)
	r.dropout(deepspeed)
	r.In.Still(still...)
	r.In.Read(harmless...)
	r.Loose(loose...)
}

// degrees reads how many GPUs share a model, and derives the accumulation from those that are left for the
// data.
func (r *job) degrees() {
	s, shared := r.In, int64(1)
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
				r.NumberOf("/training/distributed/"+p.pointer, "Over how many GPUs? "+v.Origin.Key, v)
				r.Fixed(launch.Count{Why: v.Origin.Key + " is not known", At: v.Origin.At})
			}
		}
		shared *= min(r.Degree("/training/distributed/"+p.pointer, keys...), 1<<20)
	}
	experts := r.Degree("/training/distributed/expert_parallel", "expert_model_parallel_size")
	tensor, _ := r.Out.Int("/training/distributed/tensor_parallel")
	// arguments.py switches it off without tensor parallelism
	if v, ok := r.In.FirstOn("sequence_parallel"); ok && tensor > 1 {
		r.Out.Put("/training/distributed/sequence_parallel", true, v)
	}
	if v, ok := s.Peek("expert_tensor_parallel_size"); ok {
		if n, isInt := v.Int(); isInt && n == max(tensor, 1) {
			s.Read("expert_tensor_parallel_size")
		}
	}
	r.virtual()
	r.world(shared, experts)
	global, given := s.Get("global_batch_size")
	if !given {
		r.Out.Fall("/training/gradient_accumulation", int64(1), "global_batch_size", refMegatron+
			": micro-batch × data parallel size")
		return
	}
	if v, ok := s.Get("rampup_batch_size", "step_batch_size_schedule"); ok {
		r.Out.Assume("/training/gradient_accumulation", "the batch has grown to %s (%s)", global.String(), v.Origin.Key)
	}
	r.Out.Sources["/training/gradient_accumulation"] = global
	r.Accumulate(global, shared)
}

// virtual reads the interleaved schedule: how many pieces of the model a GPU of the pipeline holds.
func (r *job) virtual() {
	const pointer = "/training/distributed/virtual_pipeline"
	if r.Degree(pointer, "num_virtual_stages_per_pipeline_rank") > 1 {
		return
	}
	v, ok := r.In.Get("num_layers_per_virtual_pipeline_stage")
	each, isInt := v.Int()
	layers, hasLayers := r.Out.Int("/model/dimensions/layers")
	stages, hasStages := r.Out.Int("/training/distributed/pipeline_parallel")
	switch {
	case !ok || !hasStages:
	case !isInt || each < 1 || !hasLayers || each > layers || stages > layers || layers%(stages*each) != 0:
		r.Out.Ask(pointer, "How many pieces of the model does a GPU of the pipeline hold?", v.Origin.At.Where())
	case layers > stages*each:
		r.Out.Derive(pointer, layers/stages/each, "%d layers / %d stages / %d layers a piece", layers, stages, each)
	}
}

// world holds the number of GPUs against the degrees: validate_args and initialize_model_parallel stop where it
// is no multiple. A number that rests on a variable's default is asked for then.
func (r *job) world(shared, experts int64) {
	w := r.GPUs()
	stages, _ := r.Out.Int("/training/distributed/pipeline_parallel")
	etp, _ := r.Out.Int("/training/distributed/tensor_parallel")
	if v, ok := r.In.Peek("expert_tensor_parallel_size"); ok {
		if n, isInt := v.Int(); isInt {
			etp = n
		}
	}
	product, what := shared, "tensor × pipeline × context parallel"
	if together := min(max(etp, 1), 1<<20) * min(experts, 1<<20) * min(max(stages, 1), 1<<20); w.Known &&
		w.N%shared == 0 && experts > 1 {
		product, what = together, "expert tensor × expert × pipeline parallel"
	}
	if !w.Known || w.N%product == 0 {
		return
	}
	say := fmt.Sprintf("world size (%d) is not divisible by %d (%s)", w.N, product, what)
	for _, key := range []string{"nproc_per_node", "nnodes"} {
		if v, ok := r.Own.Peek(key); ok && v.Assumed != "" && r.Files.Source.GPUs == 0 {
			r.Fixed(launch.Count{Why: say + ", with " + v.Origin.Key + " " + v.String() + ": " + v.Assumed, At: v.Origin.At})
			r.Out.Ask("/training/distributed/world_size", "On how many GPUs does it run?", launch.Because(r.World()))
			return
		}
	}
	r.Out.Put("/training/distributed/world_size", w.N, w.From)
	r.Out.Refuse("cannot-start", r.At, "Megatron stops: %s: on how many GPUs does it run?", say)
}

// recompute reads what is computed again in backward, in the words of all releases.
func (r *job) recompute() {
	s := r.In
	const pointer = "/training/gradient_checkpointing"
	s.Read("deepspeed_activation_checkpointing", "checkpoint_in_cpu") // how, not whether; the second is asked for below
	granularity, ok := s.Get("recompute_granularity", "activations_checkpoint_granularity")
	method, hasMethod := s.Get("recompute_method", "activations_checkpoint_method")
	layers, hasLayers := s.Get("recompute_num_layers", "activations_checkpoint_num_layers", "checkpoint_num_layers")
	selective, isSelective := r.In.FirstOn("recompute_activations")
	all, isAll := r.In.FirstOn("checkpoint_activations")
	if v, on := r.In.FirstOn("distribute_saved_activations", "checkpoint_in_cpu",
		"distribute_checkpointed_activations", "partition_activations"); on {
		r.Out.AskWord(v)
	}
	switch {
	case ok && granularity.Unknown != "":
		r.Out.Ask(pointer, "What is computed again in backward?", granularity.Origin.At.Where()+": "+granularity.Unknown)
	case isSelective || granularity.String() == "selective":
		if !isSelective {
			selective = granularity
		}
		r.selective(selective)
	case isAll:
		r.full(all, method, layers, hasLayers)
	case granularity.String() == "full" || !ok && hasMethod:
		if !ok {
			granularity = method
		}
		r.full(granularity, method, layers, hasLayers)
	case ok:
		r.Out.Ask(pointer, "What is computed again in backward?", granularity.Origin.At.Where()+" says "+
			draft.Clip(granularity.String()))
	default:
		r.Out.Fall(pointer, "none", "recompute_granularity", refMegatronConfig)
	}
}

// selective: the core of attention is computed again where recompute_modules does not name other modules.
func (r *job) selective(from setting.Value) {
	const pointer = "/training/gradient_checkpointing"
	if v, ok := r.In.Get("recompute_modules"); ok {
		if list := v.Strings(); v.Unknown != "" || len(list) != 1 || list[0] != "core_attn" {
			r.Out.Ask(pointer, "What is computed again in backward? Only the core of attention, or whole "+
				"layers, can be told.", v.Origin.At.Where()+" names "+draft.Clip(v.Text))
			return
		}
	}
	r.Out.Put(pointer, "selective", from)
}

// full: "uniform" keeps the input of every n-th layer, "block" computes the first n of a stage again.
func (r *job) full(from, method, layers setting.Value, hasLayers bool) {
	const pointer = "/training/gradient_checkpointing"
	n, isInt := int64(1), true
	if hasLayers {
		n, isInt = layers.Int()
	}
	if !isInt || n < 1 {
		r.Out.Ask(pointer, "How many layers are computed again together?", layers.Origin.At.Where()+" says "+
			draft.Clip(layers.String()))
		return
	}
	all, _ := r.Out.Int("/model/dimensions/layers")
	stages, _ := r.Out.Int("/training/distributed/pipeline_parallel")
	switch {
	case method.String() == "block" && n*max(stages, 1) < all:
		r.Out.Ask(pointer, fmt.Sprintf("%d layers of each stage are computed again and the others are not, which a job "+
			"document cannot say", n), method.Origin.At.Where())
	case method.String() == "block" || n == 1:
		r.Out.Put(pointer, "full", from)
	default:
		r.Out.Put(pointer, map[string]any{"every": n}, layers)
	}
}

// attention: Transformer Engine chooses a kernel that keeps no scores, Megatron's own attention keeps them.
func (r *job) attention(deepspeed bool) {
	const pointer = "/training/attention"
	if v, ok := r.In.FirstOn("use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2",
		"use_flash_attn_triton"); ok {
		r.flash(v)
		return
	}
	v, ok := r.In.Get("attention_backend")
	local, _ := r.In.Get("transformer_impl")
	switch {
	case ok && v.Unknown != "":
		r.Out.Ask(pointer, "Which attention?", v.Origin.At.Where()+": "+v.Unknown)
	case strings.HasSuffix(v.String(), "flash"):
		r.flash(v)
	case ok && (v.String() == "unfused" || v.String() == "local"):
		r.Out.Put(pointer, "eager", v)
	case !ok && local.String() == "local":
		r.Out.Put(pointer, "eager", local)
	case deepspeed:
		r.Out.Fall(pointer, "eager", "use_flash_attn", "bigscience-workshop/Megatron-DeepSpeed@b1246143 "+
			"megatron/model/transformer.py ParallelAttention")
	default:
		r.Out.Assume(pointer, "attention keeps no scores: Transformer Engine's kernels do not, Megatron's own "+
			"(--transformer-impl local, and releases before 2024) do")
	}
}

// flash is FlashAttention's package. Where the core of attention is computed again it is told as PyTorch's own kernel,
// for which that is replayed: either keeps queries, keys, values, the output and a number a row.
func (r *job) flash(v setting.Value) {
	const pointer = "/training/attention"
	if r.Out.Text("/training/gradient_checkpointing") != "selective" {
		r.Out.Put(pointer, "flash", v)
		return
	}
	r.Out.Put(pointer, "sdpa", v)
	r.Out.Assume(pointer, "%s (%s) keeps what PyTorch's own kernel keeps where it is computed again in backward",
		v.Origin.Key, v.Origin.At.Where())
}

func (r *job) dropout(deepspeed bool) {
	ref := refMegatronConfig
	if deepspeed {
		ref = refMegatronDeepSpeed
	}
	for key, pointer := range map[string]string{"hidden_dropout": "/training/dropout/hidden",
		"attention_dropout": "/training/dropout/attention"} {
		v, ok := r.In.Get(key)
		f, isFloat := v.Float()
		switch {
		case !ok:
			r.Out.Fall(pointer, 0.1, key, ref)
		case !isFloat || v.Unknown != "":
			r.Out.Ask(pointer, "Which part is dropped?", v.Origin.At.Where()+" says "+cmp.Or(v.Unknown, v.String()))
		default:
			r.Out.Put(pointer, f, v)
		}
	}
}

// harmless are words that look as if they changed the memory and do not.
var harmless = strings.Fields(`data_parallel_random_init ckpt_* no_ckpt_fully_parallel_save dist_ckpt_*
	auto_detect_ckpt_format use_tp_pp_dp_mapping moe_aux_loss_coeff moe_z_loss_coeff moe_per_layer_logging use_sharp
	local_rank zero_stage deepspeed no_load_* no_save_* decoupled_lr decoupled_min_lr pipeline_model_parallel_comm_backend
	high_priority_stream_groups no_pipeline_parallel`)

// loose are words that move memory in a way that is not replayed: communication beside computation, another
// implementation of the layers, how tokens go to experts, how layers go to stages (Megatron-LM core_v0.12
// megatron/training/arguments.py).
var loose = strings.Fields(`overlap_* no_overlap_* async_tensor_model_parallel_allreduce
	no_async_tensor_model_parallel_allreduce tp_comm_* cp_comm_type pp_partition_method moe_router_* moe_grouped_gemm
	moe_token_dispatcher_type moe_permute_fusion moe_enable_deepep moe_shared_expert_overlap moe_use_legacy_grouped_gemm
	ddp_* use_mcore_models transformer_impl ds_*`)

var words = tool.Words{"/training/micro_batch": tool.CountWord("micro_batch_size"),
	"/training/sequence_length": tool.CountWord("seq_length")}
