// Package nanotron reads nanotron's YAML.
package nanotron

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/loops"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads nanotron's YAML.
var Tool = tool.Tool{
	Name: "nanotron",
	Marks: map[string]int{"tokens.micro_batch_size": 4, "parallelism.tp": 3, "model.model_config": 2,
		"tokens.batch_accumulation_per_replica": 2},
	New: func(j *tool.Job) tool.Reader { return &job{Job: loops.Of(j)} },
	Words: tool.Words{"/training/micro_batch": tool.CountWord("tokens.micro_batch_size"),
		"/training/gradient_accumulation": tool.CountWord("tokens.batch_accumulation_per_replica"),
		"/training/sequence_length":       tool.CountWord("tokens.sequence_length")},
}

// job is one job on its way through this tool.
type job struct {
	loops.Job
}

const (
	refNanotron       = "nanotron 0.4 src/nanotron/config/config.py"
	refNanotronModel  = "nanotron 0.4 src/nanotron/config/models_config.py"
	refNanotronDegree = "nanotron 0.4 src/nanotron/config/parallelism_config.py"
)

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	s, _, open := argv.Options(r.Args, nil)
	v, ok := s.Get("config_file")
	if ext := path.Ext(v.String()); !ok || ext != ".yaml" && ext != ".yml" {
		return false
	}
	if file, _, err := r.Load(v); err != nil || file == nil || !file.Any("tokens.micro_batch_size", "parallelism.tp") {
		return false
	}
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = setting.New()
	r.Under(v)
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	r.Out.Derive("/training/framework", "nanotron", "the tool")
	r.Number("/training/micro_batch", tool.AskMicroBatch, "tokens.micro_batch_size")
	r.Number("/training/sequence_length", tool.AskLength, "tokens.sequence_length")
	if !r.Number("/training/gradient_accumulation", tool.AskAccumulation, "tokens.batch_accumulation_per_replica") {
		r.Out.Fall("/training/gradient_accumulation", int64(1), "tokens.batch_accumulation_per_replica", refNanotron)
	}
	r.model()
	r.precision()
	r.shards()
	r.AsksAll("lora", "peft", "optimizer.optimizer_factory.weight_offload")
	s.Read("checkpoints*", "data_stages*", "general*", "lighteval*", "logging*", "profiler*", "tokenizer*", "tokens*",
		"optimizer.learning_rate_scheduler*", "optimizer.clip_grad", "optimizer.weight_decay*",
		"optimizer.optimizer_factory*", "model.init_method*", "model.ddp_bucket_cap_mb",
		"model.make_vocab_size_divisible_by", "s3_upload*", "metrics_logging*")
}

// model reads the shape of the model, whose words are those of a config.json. The vocabulary is padded to a
// multiple of make_vocab_size_divisible_by × tensor parallelism.
func (r *job) model() {
	s := r.In
	const at = "model.model_config."
	for _, key := range []string{"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "is_mamba_config"} {
		v, ok := s.Get(at + key)
		if ok && v.On() && key != "is_llama_config" && key != "is_qwen2_config" {
			r.Out.Refuse("unsupported", v.Origin.At, "nanotron's model of the kind %s is not modelled",
				strings.TrimSuffix(strings.TrimPrefix(key, "is_"), "_config"))
			return
		}
	}
	for _, d := range [][2]string{{"layers", "num_hidden_layers"}, {"hidden", "hidden_size"},
		{"heads", "num_attention_heads"}, {"ffn", "intermediate_size"}, {"max_positions", "max_position_embeddings"}} {
		if !r.Dimension(d[0], at+d[1]) {
			r.Out.Ask("/model/dimensions/"+d[0], "What is the model's "+d[0]+"?", at+d[1]+" is not in the file")
		}
	}
	r.Dimension("kv_heads", at+"num_key_value_heads")
	r.vocabulary()
	r.DimensionSwitch("tied_embeddings", false, false, refNanotronModel, at+"tie_word_embeddings")
	act, ok := s.Get(at + "hidden_act")
	switch {
	case ok && act.String() != "silu":
		r.Out.Refuse("unsupported", act.Origin.At, "the activation %s is not modelled in nanotron's gated MLP",
			act.String())
	case ok:
		r.Out.Put("/model/dimensions/mlp", "swiglu", act)
	default:
		r.Out.Fall("/model/dimensions/mlp", "swiglu", at+"hidden_act", refNanotronModel)
	}
	r.Out.Fall("/model/dimensions/norm", "rmsnorm", "RMSNorm", refNanotronModel)
	r.Out.Fall("/model/dimensions/position", "rope", "RotaryEmbedding", refNanotronModel)
	if v, given := s.Get(at + "attention_bias"); given && v.On() {
		r.Out.Put("/model/dimensions/attention_bias", "qkv", v)
	}
	kinds := map[string]string{"flash_attention_2": "flash", "sdpa": "sdpa"}
	if v, given := s.Get(at + "_attn_implementation"); given && kinds[v.String()] != "" {
		r.Out.Put("/training/attention", kinds[v.String()], v)
	}
	r.AsksAll(at+"moe_config", at+"num_local_experts", at+"_use_qkv_packed_experts", at+"sliding_window_size",
		at+"no_rope_layer")
	s.Read(at + "*")
}

func (r *job) vocabulary() {
	v, ok := r.In.Get("model.model_config.vocab_size")
	n, isInt := v.Int()
	if !ok || !isInt || n < 1 {
		r.Out.Ask("/model/dimensions/vocab", "How many tokens has the vocabulary?",
			"model.model_config.vocab_size is not a number")
		return
	}
	multiple := r.Degree("", "model.make_vocab_size_divisible_by") * r.Degree("", "parallelism.tp")
	if padded := (n + multiple - 1) / multiple * multiple; padded != n {
		r.Out.Derive("/model/dimensions/vocab", padded, "vocab_size %d, padded to a multiple of %d", n, multiple)
		return
	}
	r.Out.Put("/model/dimensions/vocab", n, v)
}

// precision: everything is in model.dtype, but accumulate_grad_in_fp32 keeps float32 gradients, and with them
// float32 weights and moments in the optimizer (optim/gradient_accumulator.py FP32GradientAccumulator).
func (r *job) precision() {
	s := r.In
	v, ok := s.Get("model.dtype")
	name := draft.Dtype(v.String())
	if !ok || name == "" {
		r.Out.Ask("/training/precision", "In which precision does it train?", "model.dtype is "+
			cmp.Or(v.Text, "not there"))
	} else {
		r.Out.Put("/training/precision", name, v)
	}
	if grads, given := s.Get("optimizer.accumulate_grad_in_fp32"); given && grads.On() && name != "fp32" {
		for _, state := range []string{"gradients", "master_weights", "optimizer"} {
			r.Out.Put("/training/states/"+state, "fp32", grads)
		}
	}
	o, ok := s.Get("optimizer.optimizer_factory.name")
	fused := s.On("optimizer.optimizer_factory.torch_adam_is_fused")
	switch {
	case !ok:
	case strings.EqualFold(o.String(), "adamw") && fused:
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, o)
	case strings.EqualFold(o.String(), "adamw"):
		r.Out.Put("/training/optimizer", tool.Classes["AdamW"], o)
	case strings.EqualFold(o.String(), "sgd"):
		r.Out.Put("/training/optimizer", tool.Classes["SGD"], o)
	default:
		r.Out.Refuse("unsupported", o.Origin.At, "the optimizer %s is not modelled", o.String())
	}
}

// shards reads how the model is dealt out. The GPUs are dp × tp × pp × context × expert, and the launcher's
// number has to be the same.
func (r *job) shards() {
	s := r.In
	tp := r.Degree("/training/distributed/tensor_parallel", "parallelism.tp")
	pp := r.Degree("/training/distributed/pipeline_parallel", "parallelism.pp")
	cp := r.Degree("/training/distributed/context_parallel", "parallelism.context_parallel_size")
	ep := r.Degree("/training/distributed/expert_parallel", "parallelism.expert_parallel_size")
	dp, given := s.Get("parallelism.dp")
	n, isInt := dp.Int()
	if given && isInt && n > 0 && n < 1<<20 {
		total := n * tp * pp * cp * ep
		if w := r.GPUs(); w.Known && r.Launcher != "" && w.N != total {
			r.Out.Refuse("cannot-start", dp.Origin.At, "dp × tp × pp × context × expert parallelism is %d, and %d "+
				"processes are started", total, w.N)
			return
		}
		r.Fixed(launch.Count{N: total, Known: true, How: "dp × tp × pp, times context and expert parallelism"})
	}
	mode, ok := s.Get("parallelism.tp_mode")
	if tp > 1 {
		if ok && strings.EqualFold(mode.String(), "reduce_scatter") {
			r.Out.Put("/training/distributed/sequence_parallel", true, mode)
		}
	}
	switch stage, ok := s.Get("optimizer.zero_stage"); {
	case ok && stage.String() == "1":
		r.Out.Put("/training/distributed/data", "zero1", stage)
	case ok && stage.String() != "0":
		r.Out.Refuse("unsupported", stage.Origin.At, "nanotron's zero_stage is 0 or 1, and this is %s", stage.String())
	}
	const pointer = "/training/gradient_checkpointing"
	if v, ok := s.Get("parallelism.recompute_layer"); ok && v.On() {
		r.Out.Put(pointer, "full", v)
	} else {
		r.Out.Fall(pointer, "none", "parallelism.recompute_layer", refNanotronDegree)
	}
	s.Read("parallelism.pp_engine", "parallelism.tp_mode", "parallelism.tp_linear_async_communication",
		"parallelism.tp_recompute_allgather", "parallelism.recompute_layer", "optimizer.zero_stage")
	r.AsksAll("parallelism.moe_layer_recompute")
}
