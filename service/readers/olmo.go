package readers

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// olmoTool reads OLMo's YAML with the overrides of its command line.
var olmoTool = tool{
	name:   "olmo",
	starts: (*reading).olmoStarts,
	marks: map[string]int{"model.mlp_ratio": 3, "model.mlp_hidden_size": 3, "model.block_type": 3,
		"model.activation_type": 2, "save_interval_unsharded": 2, "device_train_microbatch_size": 1},
	read: (*reading).readOLMo,
	words: words{"/training/micro_batch": countWord("device_train_microbatch_size"),
		"/training/sequence_length": countWord("model.max_sequence_length")},
}

const refOLMo = "OLMo 0.6 olmo/config.py"

func (r *reading) olmoStarts() bool {
	return r.yamlAfterProgram("train.py", "model.mlp_ratio", "model.block_type", "model.activation_type")
}

func (r *reading) readOLMo() {
	s := r.s
	interpolate(s)
	r.d.derive("/training/framework", "pytorch", "OLMo trains with a loop of its own")
	r.olmoModel()
	if !r.number("/training/sequence_length", askLength, "model.max_sequence_length") {
		r.d.fall("/training/sequence_length", int64(1024), "model.max_sequence_length", refOLMo)
	}
	r.olmoShards()
	r.number("/training/micro_batch", askMicroBatch, "device_train_microbatch_size")
	r.deviceBatch()
	switch v, ok := s.Get("precision"); {
	case ok && (v.String() == "amp_bf16" || v.String() == "amp_fp16"):
		r.d.put("/training/precision", strings.Replace(v.String(), "_", "-", 1), v)
	case ok && v.String() == "fp32":
		r.d.put("/training/precision", "fp32", v)
	default:
		r.d.ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" precision is "+
			cmp.Or(v.Text, "not there"))
	}
	switch v, ok := s.Get("optimizer.name"); {
	case ok && v.String() == "lionw":
		r.d.put("/training/optimizer", optimizer{"lion", "for-loop"}, v)
	case ok && v.String() != "adamw":
		r.d.refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
	case ok:
		r.d.put("/training/optimizer", classes["AdamW"], v)
	}
	switch v, ok := s.Get("activation_checkpointing"); {
	case !ok:
		r.d.fall("/training/gradient_checkpointing", "none", "activation_checkpointing", refOLMo)
	case v.String() == "whole_layer":
		r.d.put("/training/gradient_checkpointing", "full", v)
	case v.String() == "one_in_two" || v.String() == "one_in_three" || v.String() == "one_in_four":
		every := map[string]int64{"one_in_two": 2, "one_in_three": 3, "one_in_four": 4}[v.String()]
		r.d.put("/training/gradient_checkpointing", map[string]any{"every": every}, v)
	default:
		r.d.refuse("unsupported", v.Origin.At, "activation checkpointing of the kind %s is not modelled", v.String())
	}
	if v, ok := s.Get("compile"); ok && !v.Off() {
		r.d.put("/training/compile", true, v)
	}
	if v, ok := s.Get("device_eval_batch_size"); ok && s.Any("evaluators") {
		r.numberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", v)
	}
	r.asksAll("model.attention_layer_norm", "model.clip_qkv", "model.norm_after", "model.scale_logits", "fused_loss")
	s.Still(olmoStill...)
	s.Read("run_name", "seed", "wandb*", "optimizer*", "scheduler*", "tokenizer*", "save_*", "load_*", "data*", "eval*",
		"speed_monitor*", "max_*", "restore_*", "reset_*", "model*", "compile*", "sharded_checkpointer",
		"device_eval_batch_size", "fast_forward_batches", "gen1_gc_interval", "auxiliary_loss_multiplier",
		"softmax_auxiliary_loss*")
}

// olmoModel reads the shape of the model with the defaults of ModelConfig. An MLP with a gate halves its width:
// mlp_ratio 8 with swiglu is 4 × d_model. The table of embeddings has embedding_size rows where that is given.
func (r *reading) olmoModel() {
	s := r.s
	r.dimensionOr("layers", 12, refOLMo, "model.n_layers")
	r.dimensionOr("hidden", 768, refOLMo, "model.d_model")
	r.dimensionOr("heads", 12, refOLMo, "model.n_heads")
	r.dimensionOr("max_positions", 1024, refOLMo, "model.max_sequence_length")
	r.dimensionOr("vocab", 50304, refOLMo, "model.embedding_size", "model.vocab_size")
	r.dimensionSwitch("tied_embeddings", true, false, refOLMo, "model.weight_tying")
	if !r.dimension("kv_heads", "model.n_kv_heads") {
		if v, ok := r.s.FirstOn("model.multi_query_attention"); ok {
			r.d.put("/model/dimensions/kv_heads", int64(1), v)
		}
	}
	if v, ok := s.Get("model.block_type"); ok && v.String() != "sequential" {
		r.d.refuse("unsupported", v.Origin.At, "OLMo's block %s is not modelled", v.String())
	}
	act, given := s.Get("model.activation_type")
	kind := cmp.Or(act.String(), "swiglu")
	switch {
	case kind != "swiglu" && kind != "gelu" && kind != "relu":
		r.d.refuse("unsupported", act.Origin.At, "the activation %s is not modelled", kind)
	case given:
		r.d.put("/model/dimensions/mlp", kind, act)
	default:
		r.d.fall("/model/dimensions/mlp", kind, "model.activation_type", refOLMo)
	}
	ratio, width := int64(4), int64(0)
	if v, ok := s.Get("model.mlp_ratio"); ok {
		ratio, _ = v.Int()
	}
	width = ratio * r.dimensionInt("hidden")
	if v, ok := s.Get("model.mlp_hidden_size"); ok {
		width, _ = v.Int()
	}
	if kind == "swiglu" {
		width /= 2
	}
	if width > 0 {
		r.d.derive("/model/dimensions/ffn", width, "mlp_hidden_size, or mlp_ratio × d_model; half of it with a gate")
	} else {
		r.d.ask("/model/dimensions/ffn", "How wide is the MLP?",
			"model.mlp_ratio or model.mlp_hidden_size is no whole number")
	}
	position, from := "learned", setting.Value{}
	for _, key := range []string{"alibi", "rope"} {
		if v, ok := r.s.FirstOn("model." + key); ok {
			position, from = key, v
		}
	}
	if position == "learned" {
		r.d.fall("/model/dimensions/position", position, "model.rope, model.alibi", refOLMo)
	} else {
		r.d.put("/model/dimensions/position", position, from)
	}
	if v, ok := s.Get("model.layer_norm_type"); ok {
		name := "layernorm"
		if v.String() == "rms" {
			name = "rmsnorm"
		}
		r.d.put("/model/dimensions/norm", name, v)
	}
	if v, ok := s.Get("model.include_bias"); ok && v.Off() {
		for _, field := range []string{"attention_bias", "mlp_bias", "norm_bias"} {
			r.d.put("/model/dimensions/"+field, false, v)
		}
	}
	if v, ok := s.Get("model.layer_norm_with_affine"); ok && v.Off() {
		r.d.assume("/model/dimensions/norm", "norms without weights are counted with them, which is a few KiB a layer")
	}
	if v, ok := r.s.FirstOn("model.flash_attention"); ok {
		r.d.put("/training/attention", "flash", v)
	}
}

// olmoShards reads FSDP, which is the default without distributed_strategy.
func (r *reading) olmoShards() {
	s := r.s
	if v, ok := s.Get("distributed_strategy"); ok && v.String() != "fsdp" {
		s.Read("fsdp*", "ddp*")
		if v.String() == "ddp" {
			r.d.put("/training/distributed/data", "ddp", v)
		}
		return
	}
	r.d.fall("/training/distributed/data", "fsdp", "distributed_strategy", refOLMo)
	r.d.fall("/training/distributed/fsdp_version", int64(1), "fsdp", refOLMo)
	if v, ok := s.Get("fsdp.sharding_strategy"); ok {
		r.strategy(v)
	}
	s.Read("fsdp.wrapping_strategy", "fsdp.precision", "fsdp.use_orig_params", "ddp*")
	r.asksAll("fsdp.hybrid_sharding_num_model_replicas")
}
