// Package foundry reads LLM Foundry's YAML.
package foundry

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/loops"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads LLM Foundry's YAML with the overrides of its command line.
var Tool = tool.Tool{
	Name: "llm-foundry",
	Marks: map[string]int{"train_loader": 3, "device_train_microbatch_size": 2, "max_seq_len": 1,
		"model.attn_config": 1, "model.pretrained_model_name_or_path": 1,
		"fsdp_config": 1, "global_train_batch_size": 1},
	New: func(j *tool.Job) tool.Reader { return &job{Job: loops.Of(j)} },
	Words: tool.Words{"/training/micro_batch": tool.CountWord("device_train_microbatch_size"),
		"/training/sequence_length":        tool.CountWord("max_seq_len"),
		"/training/evaluation/micro_batch": tool.CountWord("device_eval_batch_size"),
		"/training/gradient_checkpointing": tool.ChoiceWord("fsdp_config.activation_checkpointing", tool.OnOff)},
}

// job is one job on its way through this tool.
type job struct {
	loops.Job
}

const (
	refFoundry  = "llm-foundry 0.22 llmfoundry/utils/config_utils.py TrainConfig"
	refMPT      = "llm-foundry 0.22 llmfoundry/models/mpt/configuration_mpt.py"
	refComposer = "composer 0.32 composer/utils/parallelism.py FSDPConfig"
)

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if r.Base() == "llmfoundry" && len(r.Args) > 1 && r.Args[0].Text == "train" {
		r.YAMLWithOverrides(r.Args[1].Argument("config"), r.Args[2:])
		return true
	}
	return r.YAMLAfterProgram("train.py", "train_loader")
}

// optimizers are those of composer and LLM Foundry, which step in a loop over the parameters (composer 0.32
// optim/decoupled_weight_decay.py, llm-foundry 0.22 optim/lion.py).
var optimizers = map[string]draft.Optimizer{
	"decoupled_adamw": {Name: "adamw", Implementation: "for-loop"}, "decoupled_lionw": {Name: "lion", Implementation: "for-loop"},
	"clip_lion": {Name: "lion", Implementation: "for-loop"}, "adalr_lion": {Name: "lion", Implementation: "for-loop"},
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	tool.Interpolate(s)
	r.Out.Derive("/training/framework", "llm-foundry", "the tool")
	r.model()
	r.Number("/training/sequence_length", tool.AskLength, "max_seq_len")
	if r.In.Any("fsdp_config") {
		r.shards()
	}
	r.batch()
	switch v, ok := s.Get("precision"); {
	case !ok:
		r.Out.Fall("/training/precision", "amp-bf16", "precision", refFoundry)
	case v.String() == "amp_bf16" || v.String() == "amp_fp16":
		r.Out.Put("/training/precision", strings.Replace(v.String(), "_", "-", 1), v)
	case v.String() == "fp32":
		r.Out.Put("/training/precision", "fp32", v)
	case v.String() == "amp_fp8":
		r.Out.Put("/training/precision", "fp8", v)
	default:
		r.Out.Ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" says "+v.Text)
	}
	if v, ok := s.Get("optimizer.name"); ok {
		if o, known := optimizers[v.String()]; known {
			r.Out.Put("/training/optimizer", o, v)
		} else {
			r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
		}
	}
	if v, ok := s.Get("compile_config"); ok {
		r.Out.Put("/training/compile", true, v)
	}
	if e, given := s.Peek("eval_loader"); given && e.Given() {
		if interval, set := s.Get("eval_interval"); !set || !interval.Off() {
			if v, ok := s.Get("device_eval_batch_size"); ok {
				r.NumberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", v)
			}
		}
	}
	r.AsksAll("tp_config", "algorithms.alibi", "algorithms.low_precision_groupnorm", "algorithms.seq_length_warmup")
	s.Read("variables*", "train_loader*", "eval_loader*", "tokenizer*", "scheduler*", "optimizer*", "callbacks*",
		"loggers*", "algorithms*", "icl_tasks*", "model.name", "model.init_device", "model.pretrained",
		"model.use_auth_token", "model.trust_remote_code", "model.max_seq_len", "max_duration", "eval_*", "seed",
		"run_name", "save_*", "load_*", "progress_bar", "log_*", "console_log_interval", "dist_timeout",
		"data_*", "global_seed", "autoresume", "python_log_level", "device_eval_batch_size", "metadata*")
}

func (r *job) model() {
	s := r.In
	name, ok := s.Get("model.name")
	switch {
	case !ok:
		r.Out.Ask("/model", "Which model is trained?", "model.name is not there")
	case name.String() == "mpt_causal_lm":
		r.mpt(name)
	case strings.HasPrefix(name.String(), "hf_"):
		r.Model("model.pretrained_model_name_or_path")
		r.huggingFace()
	default:
		r.Out.Ask("/model", "What is "+name.String()+"? Give its config.json.", name.Origin.At.Where()+
			" names a model that is not LLM Foundry's own")
		s.Read("model*")
	}
}

// mpt reads the shape of an MPT model: MPTConfig with its defaults. attn_config is merged with its defaults too.
func (r *job) mpt(name setting.Value) {
	s := r.In
	r.DimensionOr("layers", 24, refMPT, "model.n_layers")
	r.DimensionOr("hidden", 2048, refMPT, "model.d_model")
	r.DimensionOr("heads", 16, refMPT, "model.n_heads")
	r.DimensionOr("vocab", 50368, refMPT, "model.vocab_size")
	r.DimensionOr("max_positions", 2048, refMPT, "model.max_seq_len")
	r.Out.Fall("/model/dimensions/tied_embeddings", true, "model.tie_word_embeddings", refMPT)
	r.DimensionSwitch("tied_embeddings", true, false, refMPT, "model.tie_word_embeddings")
	if !r.Dimension("ffn", "model.ffn_config.ffn_hidden_size") {
		r.expansion()
	}
	gated := false
	switch v, ok := s.Get("model.ffn_config.ffn_type"); {
	case !ok || v.String() == "mptmlp":
	case v.String() == "mptglu":
		gated = true
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "the MLP %s of MPT is not modelled", v.String())
	}
	r.activation(gated, name)
	switch v, ok := s.Get("model.norm_type"); {
	case !ok:
		r.Out.Fall("/model/dimensions/norm", "layernorm", "model.norm_type", refMPT)
	case strings.HasSuffix(v.String(), "rmsnorm"):
		r.Out.Put("/model/dimensions/norm", "rmsnorm", v)
	case strings.HasSuffix(v.String(), "layernorm"):
		r.Out.Put("/model/dimensions/norm", "layernorm", v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "the norm %s is not modelled", v.String())
	}
	if v, ok := r.In.FirstOn("model.no_bias"); ok {
		for _, field := range []string{"attention_bias", "mlp_bias", "norm_bias"} {
			r.Out.Put("/model/dimensions/"+field, false, v)
		}
	}
	r.attention()
	if v, ok := s.Get("model.resid_pdrop"); ok && !v.Off() {
		if f, isFloat := v.Float(); isFloat {
			r.Out.Put("/training/dropout", f, v)
		}
	}
	r.AsksAll("model.attn_config.qk_ln", "model.attn_config.qk_gn", "model.attn_config.attn_pdrop", "model.emb_pdrop",
		"model.block_overrides", "model.attn_config.sliding_window_size")
	s.Read("model.attn_config*", "model.ffn_config*", "model.init_config*", "model.verbose", "model.logit_scale",
		"model.embedding_fraction", "model.use_cache", "model.fc_type*", "model.loss_fn",
		"model.resid_pdrop", "model.emb_pdrop", "model.final_logit_softcapping", "model.norm_eps",
		"model.use_pad_tok_in_ffn")
}

// expansion is expansion_ratio × d_model, which may be a fraction and has to give a whole number.
func (r *job) expansion() {
	const pointer = "/model/dimensions/ffn"
	hidden := r.DimensionInt("hidden")
	v, ok := r.In.Get("model.expansion_ratio")
	if !ok {
		r.Out.Derive(pointer, 4*hidden, "model.expansion_ratio is 4 (%s) × model.d_model", refMPT)
		return
	}
	f, isNumber := v.Float()
	if n, isInt := v.Int(); isInt {
		f, isNumber = float64(n), true
	}
	if width := f * float64(hidden); isNumber && v.Unknown == "" && width >= 1 && width < 1<<31 &&
		width == float64(int64(width)) {
		r.Out.Derive(pointer, int64(width), "model.expansion_ratio %s × model.d_model %d", v.String(), hidden)
		return
	}
	r.Out.Ask(pointer, "How wide is the MLP?", v.Origin.At.Where()+": expansion_ratio "+v.Text)
}

func (r *job) activation(gated bool, name setting.Value) {
	act, from := "gelu", name
	if v, ok := r.In.Get("model.ffn_config.ffn_act_fn.name"); ok {
		act, from = v.String(), v
	}
	kinds := map[string]string{"gelu": "gelu", "relu": "relu"}
	if gated {
		kinds = map[string]string{"gelu": "geglu", "silu": "swiglu"}
	}
	kind, known := kinds[act]
	if !known {
		r.Out.Refuse("unsupported", from.Origin.At, "the activation %s is not modelled in this MLP", act)
		return
	}
	r.Out.Derive("/model/dimensions/mlp", kind, "MPT's MLP with %s", act)
}

func (r *job) attention() {
	s := r.In
	switch v, ok := s.Get("model.attn_config.attn_impl"); {
	case !ok:
		r.Out.Fall("/training/attention", "flash", "model.attn_config.attn_impl", refMPT)
	case v.String() == "flash":
		r.Out.Put("/training/attention", "flash", v)
	case v.String() == "torch":
		r.Out.Put("/training/attention", "eager", v)
	default:
		r.Out.Ask("/training/attention", "Which attention is it?", v.Origin.At.Where()+" says "+v.Text)
	}
	switch v, ok := s.Get("model.attn_config.attn_type"); {
	case !ok || v.String() == "multihead_attention":
	case v.String() == "multiquery_attention":
		r.Out.Put("/model/dimensions/kv_heads", int64(1), v)
	case v.String() == "grouped_query_attention":
		if !r.Dimension("kv_heads", "model.attn_config.kv_n_heads") {
			r.Out.Ask("/model/dimensions/kv_heads", "How many heads have keys and values?", v.Origin.At.Where())
		}
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "the attention %s is not modelled", v.String())
	}
	position, from := "", setting.Value{}
	if v, ok := r.In.FirstOn("model.attn_config.alibi"); ok {
		position, from = "alibi", v
	} else if v, ok := r.In.FirstOn("model.attn_config.rope"); ok {
		position, from = "rope", v
	} else if v, ok := s.Get("model.learned_pos_emb"); ok && !v.On() {
		position, from = "none", v
	}
	s.Read("model.learned_pos_emb")
	if position == "" {
		r.Out.Fall("/model/dimensions/position", "learned", "model.learned_pos_emb", refMPT)
		return
	}
	r.Out.Put("/model/dimensions/position", position, from)
}

// huggingFace reads how a model of the Hub is loaded (llm-foundry 0.22 models/hf/hf_causal_lm.py: without
// use_flash_attention_2 or attn_implementation the attention is eager).
func (r *job) huggingFace() {
	s := r.In
	kinds := map[string]string{"flash_attention_2": "flash", "sdpa": "sdpa", "eager": "eager"}
	if v, ok := s.Get("model.attn_implementation"); ok && kinds[v.String()] != "" {
		r.Out.Put("/training/attention", kinds[v.String()], v)
	} else if v, ok := r.In.FirstOn("model.use_flash_attention_2"); ok {
		r.Out.Put("/training/attention", "flash", v)
	} else {
		r.Out.Fall("/training/attention", "eager", "model.use_flash_attention_2",
			"llm-foundry 0.22 llmfoundry/models/hf/hf_causal_lm.py")
	}
	s.Read("model.use_flash_attention_2", "model.attn_implementation")
	for _, key := range s.Keys() {
		if strings.HasPrefix(key, "model.config_overrides.") && strings.Count(key, ".") == 2 {
			r.AsksAll(key)
		}
	}
	if kind, ok := s.Get("model.peft_config.peft_type", "peft_config.peft_type"); ok {
		if !strings.EqualFold(kind.String(), "lora") {
			r.Out.Refuse("unsupported", kind.Origin.At, "adapters of the kind %s are not modelled", kind.String())
			return
		}
		if !r.Number("/training/lora/rank", "Of which rank are the adapters?", "model.peft_config.r") {
			r.Out.Fall("/training/lora/rank", int64(8), "model.peft_config.r",
				"peft 0.18 tuners/lora/config.py LoraConfig")
		}
		if v, ok := s.Get("model.peft_config.target_modules"); ok {
			r.Out.Put("/training/lora/target_modules", v.Strings(), v)
		}
		if v, ok := s.Get("model.peft_config.lora_dropout"); ok {
			if f, isFloat := v.Float(); isFloat {
				r.Out.Put("/training/lora/dropout", f, v)
			}
		}
		r.AsksAll("model.peft_config.modules_to_save", "model.peft_config.use_dora")
		s.Read("model.peft_config.lora_alpha", "model.peft_config.task_type", "model.peft_config.bias",
			"model.peft_config.inference_mode")
	}
	r.AsksAll("model.load_in_8bit")
}
