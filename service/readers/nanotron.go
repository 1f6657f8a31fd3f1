package readers

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// nanotronTool reads nanotron's YAML.
var nanotronTool = tool{
	name:   "nanotron",
	starts: (*reading).nanotronStarts,
	marks: map[string]int{"tokens.micro_batch_size": 4, "parallelism.tp": 3, "model.model_config": 2,
		"tokens.batch_accumulation_per_replica": 2},
	read: (*reading).readNanotron,
	words: words{"/training/micro_batch": countWord("tokens.micro_batch_size"),
		"/training/gradient_accumulation": countWord("tokens.batch_accumulation_per_replica"),
		"/training/sequence_length":       countWord("tokens.sequence_length")},
}

const (
	refNanotron       = "nanotron 0.4 src/nanotron/config/config.py"
	refNanotronModel  = "nanotron 0.4 src/nanotron/config/models_config.py"
	refNanotronDegree = "nanotron 0.4 src/nanotron/config/parallelism_config.py"
)

func (r *reading) nanotronStarts() bool {
	s, _, open := options(r.args, nil)
	v, ok := s.Get("config_file")
	if ext := path.Ext(v.String()); !ok || ext != ".yaml" && ext != ".yml" {
		return false
	}
	if file, _, err := r.load(v); err != nil || file == nil || !file.Any("tokens.micro_batch_size", "parallelism.tp") {
		return false
	}
	for _, w := range open {
		r.openWord(w)
	}
	r.s = setting.New()
	r.under(v)
	return true
}

func (r *reading) readNanotron() {
	s := r.s
	r.d.derive("/training/framework", "nanotron", "the tool")
	r.number("/training/micro_batch", askMicroBatch, "tokens.micro_batch_size")
	r.number("/training/sequence_length", askLength, "tokens.sequence_length")
	if !r.number("/training/gradient_accumulation", askAccumulation, "tokens.batch_accumulation_per_replica") {
		r.d.fall("/training/gradient_accumulation", int64(1), "tokens.batch_accumulation_per_replica", refNanotron)
	}
	r.nanotronModel()
	r.nanotronPrecision()
	r.nanotronShards()
	r.asksAll("lora", "peft", "optimizer.optimizer_factory.weight_offload")
	s.Read("checkpoints*", "data_stages*", "general*", "lighteval*", "logging*", "profiler*", "tokenizer*", "tokens*",
		"optimizer.learning_rate_scheduler*", "optimizer.clip_grad", "optimizer.weight_decay*",
		"optimizer.optimizer_factory*", "model.init_method*", "model.ddp_bucket_cap_mb",
		"model.make_vocab_size_divisible_by", "s3_upload*", "metrics_logging*")
}

// nanotronModel reads the shape of the model, whose words are those of a config.json. The vocabulary is padded to a
// multiple of make_vocab_size_divisible_by × tensor parallelism.
func (r *reading) nanotronModel() {
	s := r.s
	const at = "model.model_config."
	for _, key := range []string{"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "is_mamba_config"} {
		v, ok := s.Get(at + key)
		if ok && v.On() && key != "is_llama_config" && key != "is_qwen2_config" {
			r.d.refuse("unsupported", v.Origin.At, "nanotron's model of the kind %s is not modelled",
				strings.TrimSuffix(strings.TrimPrefix(key, "is_"), "_config"))
			return
		}
	}
	for _, d := range [][2]string{{"layers", "num_hidden_layers"}, {"hidden", "hidden_size"},
		{"heads", "num_attention_heads"}, {"ffn", "intermediate_size"}, {"max_positions", "max_position_embeddings"}} {
		if !r.dimension(d[0], at+d[1]) {
			r.d.ask("/model/dimensions/"+d[0], "What is the model's "+d[0]+"?", at+d[1]+" is not in the file")
		}
	}
	r.dimension("kv_heads", at+"num_key_value_heads")
	r.nanotronVocabulary()
	r.dimensionSwitch("tied_embeddings", false, false, refNanotronModel, at+"tie_word_embeddings")
	act, ok := s.Get(at + "hidden_act")
	switch {
	case ok && act.String() != "silu":
		r.d.refuse("unsupported", act.Origin.At, "the activation %s is not modelled in nanotron's gated MLP",
			act.String())
	case ok:
		r.d.put("/model/dimensions/mlp", "swiglu", act)
	default:
		r.d.fall("/model/dimensions/mlp", "swiglu", at+"hidden_act", refNanotronModel)
	}
	r.d.fall("/model/dimensions/norm", "rmsnorm", "RMSNorm", refNanotronModel)
	r.d.fall("/model/dimensions/position", "rope", "RotaryEmbedding", refNanotronModel)
	if v, given := s.Get(at + "attention_bias"); given && v.On() {
		r.d.put("/model/dimensions/attention_bias", "qkv", v)
	}
	kinds := map[string]string{"flash_attention_2": "flash", "sdpa": "sdpa"}
	if v, given := s.Get(at + "_attn_implementation"); given && kinds[v.String()] != "" {
		r.d.put("/training/attention", kinds[v.String()], v)
	}
	r.asksAll(at+"moe_config", at+"num_local_experts", at+"_use_qkv_packed_experts", at+"sliding_window_size",
		at+"no_rope_layer")
	s.Read(at + "*")
}

func (r *reading) nanotronVocabulary() {
	v, ok := r.s.Get("model.model_config.vocab_size")
	n, isInt := v.Int()
	if !ok || !isInt || n < 1 {
		r.d.ask("/model/dimensions/vocab", "How many tokens has the vocabulary?",
			"model.model_config.vocab_size is not a number")
		return
	}
	multiple := r.degree("", "model.make_vocab_size_divisible_by") * r.degree("", "parallelism.tp")
	if padded := (n + multiple - 1) / multiple * multiple; padded != n {
		r.d.derive("/model/dimensions/vocab", padded, "vocab_size %d, padded to a multiple of %d", n, multiple)
		return
	}
	r.d.put("/model/dimensions/vocab", n, v)
}

// nanotronPrecision: everything is in model.dtype, but accumulate_grad_in_fp32 keeps float32 gradients, and with them
// float32 weights and moments in the optimizer (optim/gradient_accumulator.py FP32GradientAccumulator).
func (r *reading) nanotronPrecision() {
	s := r.s
	v, ok := s.Get("model.dtype")
	name := dtype(v.String())
	if !ok || name == "" {
		r.d.ask("/training/precision", "In which precision does it train?", "model.dtype is "+
			cmp.Or(v.Text, "not there"))
	} else {
		r.d.put("/training/precision", name, v)
	}
	if grads, given := s.Get("optimizer.accumulate_grad_in_fp32"); given && grads.On() && name != "fp32" {
		for _, state := range []string{"gradients", "master_weights", "optimizer"} {
			r.d.put("/training/states/"+state, "fp32", grads)
		}
	}
	o, ok := s.Get("optimizer.optimizer_factory.name")
	fused := s.On("optimizer.optimizer_factory.torch_adam_is_fused")
	switch {
	case !ok:
	case strings.EqualFold(o.String(), "adamw") && fused:
		r.d.put("/training/optimizer", optimizer{"adamw", "fused"}, o)
	case strings.EqualFold(o.String(), "adamw"):
		r.d.put("/training/optimizer", classes["AdamW"], o)
	case strings.EqualFold(o.String(), "sgd"):
		r.d.put("/training/optimizer", classes["SGD"], o)
	default:
		r.d.refuse("unsupported", o.Origin.At, "the optimizer %s is not modelled", o.String())
	}
}

// nanotronShards reads how the model is dealt out. The GPUs are dp × tp × pp × context × expert, and the launcher's
// number has to be the same.
func (r *reading) nanotronShards() {
	s := r.s
	tp := r.degree("/training/distributed/tensor_parallel", "parallelism.tp")
	pp := r.degree("/training/distributed/pipeline_parallel", "parallelism.pp")
	cp := r.degree("/training/distributed/context_parallel", "parallelism.context_parallel_size")
	ep := r.degree("/training/distributed/expert_parallel", "parallelism.expert_parallel_size")
	dp, given := s.Get("parallelism.dp")
	n, isInt := dp.Int()
	if given && isInt && n > 0 && n < 1<<20 {
		total := n * tp * pp * cp * ep
		if w := r.gpus(); w.known && r.launcher != "" && w.n != total {
			r.d.refuse("cannot-start", dp.Origin.At, "dp × tp × pp × context × expert parallelism is %d, and %d "+
				"processes are started", total, w.n)
			return
		}
		r.fixed(count{n: total, known: true, how: "dp × tp × pp, times context and expert parallelism"})
	}
	mode, ok := s.Get("parallelism.tp_mode")
	if tp > 1 {
		if ok && strings.EqualFold(mode.String(), "reduce_scatter") {
			r.d.put("/training/distributed/sequence_parallel", true, mode)
		}
	}
	switch stage, ok := s.Get("optimizer.zero_stage"); {
	case ok && stage.String() == "1":
		r.d.put("/training/distributed/data", "zero1", stage)
	case ok && stage.String() != "0":
		r.d.refuse("unsupported", stage.Origin.At, "nanotron's zero_stage is 0 or 1, and this is %s", stage.String())
	}
	const pointer = "/training/gradient_checkpointing"
	if v, ok := s.Get("parallelism.recompute_layer"); ok && v.On() {
		r.d.put(pointer, "full", v)
	} else {
		r.d.fall(pointer, "none", "parallelism.recompute_layer", refNanotronDegree)
	}
	s.Read("parallelism.pp_engine", "parallelism.tp_mode", "parallelism.tp_linear_async_communication",
		"parallelism.tp_recompute_allgather", "parallelism.recompute_layer", "optimizer.zero_stage")
	r.asksAll("parallelism.moe_layer_recompute")
}
