// Package olmo reads OLMo's YAML.
package olmo

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/loops"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads OLMo's YAML with the overrides of its command line.
var Tool = tool.Tool{
	Name: "olmo",
	Marks: map[string]int{"model.mlp_ratio": 3, "model.mlp_hidden_size": 3, "model.block_type": 3,
		"model.activation_type": 2, "save_interval_unsharded": 2, "device_train_microbatch_size": 1},
	New: func(j *tool.Job) tool.Reader { return &job{Job: loops.Of(j)} },
	Words: tool.Words{"/training/micro_batch": tool.CountWord("device_train_microbatch_size"),
		"/training/sequence_length": tool.CountWord("model.max_sequence_length")},
	Still: stillText,
}

// job is one job on its way through this tool.
type job struct {
	loops.Job
}

const refOLMo = "OLMo 0.6 olmo/config.py"

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	return r.YAMLAfterProgram("train.py", "model.mlp_ratio", "model.block_type", "model.activation_type")
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	tool.Interpolate(s)
	r.Out.Derive("/training/framework", "pytorch", "OLMo trains with a loop of its own")
	r.model()
	if !r.Number("/training/sequence_length", tool.AskLength, "model.max_sequence_length") {
		r.Out.Fall("/training/sequence_length", int64(1024), "model.max_sequence_length", refOLMo)
	}
	r.shards()
	r.Number("/training/micro_batch", tool.AskMicroBatch, "device_train_microbatch_size")
	r.DeviceBatch()
	switch v, ok := s.Get("precision"); {
	case ok && (v.String() == "amp_bf16" || v.String() == "amp_fp16"):
		r.Out.Put("/training/precision", strings.Replace(v.String(), "_", "-", 1), v)
	case ok && v.String() == "fp32":
		r.Out.Put("/training/precision", "fp32", v)
	default:
		r.Out.Ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" precision is "+
			cmp.Or(v.Text, "not there"))
	}
	switch v, ok := s.Get("optimizer.name"); {
	case ok && v.String() == "lionw":
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "lion", Implementation: "for-loop"}, v)
	case ok && v.String() != "adamw":
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
	case ok:
		r.Out.Put("/training/optimizer", tool.Classes["AdamW"], v)
	}
	switch v, ok := s.Get("activation_checkpointing"); {
	case !ok:
		r.Out.Fall("/training/gradient_checkpointing", "none", "activation_checkpointing", refOLMo)
	case v.String() == "whole_layer":
		r.Out.Put("/training/gradient_checkpointing", "full", v)
	case v.String() == "one_in_two" || v.String() == "one_in_three" || v.String() == "one_in_four":
		every := map[string]int64{"one_in_two": 2, "one_in_three": 3, "one_in_four": 4}[v.String()]
		r.Out.Put("/training/gradient_checkpointing", map[string]any{"every": every}, v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "activation checkpointing of the kind %s is not modelled", v.String())
	}
	if v, ok := s.Get("compile"); ok && !v.Off() {
		r.Out.Put("/training/compile", true, v)
	}
	if v, ok := s.Get("device_eval_batch_size"); ok && s.Any("evaluators") {
		r.NumberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", v)
	}
	r.AsksAll("model.attention_layer_norm", "model.clip_qkv", "model.norm_after", "model.scale_logits", "fused_loss")
	s.Still(still...)
	s.Read("run_name", "seed", "wandb*", "optimizer*", "scheduler*", "tokenizer*", "save_*", "load_*", "data*", "eval*",
		"speed_monitor*", "max_*", "restore_*", "reset_*", "model*", "compile*", "sharded_checkpointer",
		"device_eval_batch_size", "fast_forward_batches", "gen1_gc_interval", "auxiliary_loss_multiplier",
		"softmax_auxiliary_loss*")
}

// model reads the shape of the model with the defaults of ModelConfig. An MLP with a gate halves its width:
// mlp_ratio 8 with swiglu is 4 × d_model. The table of embeddings has embedding_size rows where that is given.
func (r *job) model() {
	s := r.In
	r.DimensionOr("layers", 12, refOLMo, "model.n_layers")
	r.DimensionOr("hidden", 768, refOLMo, "model.d_model")
	r.DimensionOr("heads", 12, refOLMo, "model.n_heads")
	r.DimensionOr("max_positions", 1024, refOLMo, "model.max_sequence_length")
	r.DimensionOr("vocab", 50304, refOLMo, "model.embedding_size", "model.vocab_size")
	r.DimensionSwitch("tied_embeddings", true, false, refOLMo, "model.weight_tying")
	if !r.Dimension("kv_heads", "model.n_kv_heads") {
		if v, ok := r.In.FirstOn("model.multi_query_attention"); ok {
			r.Out.Put("/model/dimensions/kv_heads", int64(1), v)
		}
	}
	if v, ok := s.Get("model.block_type"); ok && v.String() != "sequential" {
		r.Out.Refuse("unsupported", v.Origin.At, "OLMo's block %s is not modelled", v.String())
	}
	act, given := s.Get("model.activation_type")
	kind := cmp.Or(act.String(), "swiglu")
	switch {
	case kind != "swiglu" && kind != "gelu" && kind != "relu":
		r.Out.Refuse("unsupported", act.Origin.At, "the activation %s is not modelled", kind)
	case given:
		r.Out.Put("/model/dimensions/mlp", kind, act)
	default:
		r.Out.Fall("/model/dimensions/mlp", kind, "model.activation_type", refOLMo)
	}
	ratio, width := int64(4), int64(0)
	if v, ok := s.Get("model.mlp_ratio"); ok {
		ratio, _ = v.Int()
	}
	width = ratio * r.DimensionInt("hidden")
	if v, ok := s.Get("model.mlp_hidden_size"); ok {
		width, _ = v.Int()
	}
	if kind == "swiglu" {
		width /= 2
	}
	if width > 0 {
		r.Out.Derive("/model/dimensions/ffn", width, "mlp_hidden_size, or mlp_ratio × d_model; half of it with a gate")
	} else {
		r.Out.Ask("/model/dimensions/ffn", "How wide is the MLP?",
			"model.mlp_ratio or model.mlp_hidden_size is no whole number")
	}
	position, from := "learned", setting.Value{}
	for _, key := range []string{"alibi", "rope"} {
		if v, ok := r.In.FirstOn("model." + key); ok {
			position, from = key, v
		}
	}
	if position == "learned" {
		r.Out.Fall("/model/dimensions/position", position, "model.rope, model.alibi", refOLMo)
	} else {
		r.Out.Put("/model/dimensions/position", position, from)
	}
	if v, ok := s.Get("model.layer_norm_type"); ok {
		name := "layernorm"
		if v.String() == "rms" {
			name = "rmsnorm"
		}
		r.Out.Put("/model/dimensions/norm", name, v)
	}
	if v, ok := s.Get("model.include_bias"); ok && v.Off() {
		for _, field := range []string{"attention_bias", "mlp_bias", "norm_bias"} {
			r.Out.Put("/model/dimensions/"+field, false, v)
		}
	}
	if v, ok := s.Get("model.layer_norm_with_affine"); ok && v.Off() {
		r.Out.Assume("/model/dimensions/norm", "norms without weights are counted with them, which is a few KiB a layer")
	}
	if v, ok := r.In.FirstOn("model.flash_attention"); ok {
		r.Out.Put("/training/attention", "flash", v)
	}
}

// shards reads FSDP, which is the default without distributed_strategy.
func (r *job) shards() {
	s := r.In
	if v, ok := s.Get("distributed_strategy"); ok && v.String() != "fsdp" {
		s.Read("fsdp*", "ddp*")
		if v.String() == "ddp" {
			r.Out.Put("/training/distributed/data", "ddp", v)
		}
		return
	}
	r.Out.Fall("/training/distributed/data", "fsdp", "distributed_strategy", refOLMo)
	r.Out.Fall("/training/distributed/fsdp_version", int64(1), "fsdp", refOLMo)
	if v, ok := s.Get("fsdp.sharding_strategy"); ok {
		r.Strategy(v)
	}
	s.Read("fsdp.wrapping_strategy", "fsdp.precision", "fsdp.use_orig_params", "ddp*")
	r.AsksAll("fsdp.hybrid_sharding_num_model_replicas")
}
