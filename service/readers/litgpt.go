package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// litgptTool reads litgpt's YAML and arguments.
var litgptTool = tool{
	name:   "litgpt",
	starts: (*reading).litgptStarts,
	marks: map[string]int{"checkpoint_dir": 2, "train.micro_batch_size": 3, "train.global_batch_size": 2,
		"lora_query": 3, "train.max_seq_length": 1},
	read:  (*reading).readLitgpt,
	words: litgptWords,
}

const refLitgpt = "litgpt 0.5 litgpt/finetune/lora.py setup"

func (r *reading) litgptStarts() bool {
	args, sub := r.args, ""
	switch {
	case r.base() == "litgpt" && len(args) > 0:
		sub, args = args[0].Text, args[1:]
		if sub == "finetune" && len(args) > 0 && (args[0].Text == "lora" || args[0].Text == "full") {
			sub, args = "finetune_"+args[0].Text, args[1:]
		}
	case r.module && strings.HasPrefix(r.program.Text, "litgpt.finetune."):
		sub = "finetune_" + strings.TrimPrefix(r.program.Text, "litgpt.finetune.")
	case strings.HasSuffix(r.program.Text, "finetune/lora.py") ||
		strings.HasSuffix(r.program.Text, "finetune/full.py"):
		sub = "finetune_" + strings.TrimSuffix(r.base(), ".py")
	default:
		return false
	}
	if !strings.HasPrefix(sub, "finetune") && sub != "pretrain" {
		return false
	}
	s, positional, open := options(args, nil)
	for _, w := range open {
		r.openWord(w)
	}
	r.s = s
	if v, ok := s.Get("config"); ok {
		r.under(v)
	}
	if len(positional) > 0 {
		r.s.Set("checkpoint_dir", positional[0].argument("checkpoint_dir"))
	}
	r.s.Set("_recipe", setting.Value{Any: sub, Text: sub, Origin: setting.Origin{Kind: setting.Derived, Key: "recipe"}})
	return true
}

func (r *reading) readLitgpt() {
	s := r.s
	recipe := s.Text("_recipe")
	if recipe == "" && s.Any("lora_r", "lora_query") {
		recipe = "finetune_lora"
	}
	r.d.derive("/training/framework", "litgpt", "the tool")
	r.litgptModel(recipe)
	micro, global := int64(1), int64(16)
	if recipe == "pretrain" {
		micro, global = 4, 512
	}
	if !r.number("/training/micro_batch", askMicroBatch, "train.micro_batch_size") {
		r.d.fall("/training/micro_batch", micro, "train.micro_batch_size", refLitgpt)
	}
	r.litgptWorld()
	g, ok := s.Get("train.global_batch_size")
	if !ok {
		g = setting.Value{Any: global, Origin: setting.Origin{Kind: setting.Default, Key: "train.global_batch_size",
			Ref: refLitgpt}}
	}
	r.accumulate(g, 1)
	if !r.number("/training/sequence_length", askLength, "train.max_seq_length") {
		r.d.ask("/training/sequence_length", askLength, "train.max_seq_length is not given: the longest sample of "+
			"the data decides")
	}
	r.litgptPrecision()
	switch recipe {
	case "finetune_lora", "finetune":
		r.litgptLoRA()
	case "finetune_adapter", "finetune_adapter_v2":
		r.d.refuse("unsupported", r.at, "litgpt's %s is not modelled", recipe)
	default:
		s.Read("quantize")
	}
	v, ok := s.Get("optimizer.class_path", "optimizer")
	if ok {
		fused, _ := s.Get("optimizer.init_args.fused")
		r.optimizerClass(v, fused)
	} else {
		r.d.fall("/training/optimizer", classes["AdamW"], "optimizer", refLitgpt)
	}
	s.Still(litgptStill...)
	s.Read("data*", "train.epochs", "train.max_steps", "train.max_tokens", "train.max_time", "train.global_batch_size",
		"train.micro_batch_size", "train.max_seq_length", "eval.*", "num_nodes", "devices", "optimizer*",
		"checkpoint_dir", "_recipe", "initial_checkpoint_dir", "resume", "config", "model_name")
	r.loose("model_config*", "train.tie_embeddings", "ops")
}

func (r *reading) litgptModel(recipe string) {
	keys := []string{"checkpoint_dir"}
	if recipe == "pretrain" {
		keys = []string{"model_name"}
	}
	v, ok := r.s.Get(keys...)
	if !ok {
		r.d.ask("/model", "Which model is trained?", keys[0]+" is not given")
		return
	}
	name := strings.TrimPrefix(v.String(), "./")
	if i := strings.Index(name, "checkpoints/"); i >= 0 {
		name = name[i+len("checkpoints/"):]
	}
	v.Any = strings.TrimSuffix(name, "/")
	modelOf(r.launch, r.d, v)
}

// litgptWorld is devices × num_nodes, 1 each without them; several share the model with FSDP.
func (r *reading) litgptWorld() {
	devices, nodes := count{n: 1, known: true, how: "devices is 1"}, count{n: 1, known: true}
	if v, ok := r.s.Get("devices"); ok {
		if v.String() == "auto" {
			devices = r.visible("gpus_on_node", "devices: auto takes all GPUs")
		} else {
			devices = known(v)
		}
	}
	if v, ok := r.s.Get("num_nodes"); ok {
		nodes = known(v)
	}
	w := times(devices, nodes)
	if n := r.files.source.GPUs; n > 0 {
		w.n, w.known = n, true
	}
	r.fixed(w)
	if w.known && w.n > 1 {
		r.d.fall("/training/distributed/data", "fsdp", "devices", refLitgpt)
		r.d.fall("/training/distributed/fsdp_version", int64(1), "devices", refLitgpt)
		r.d.fall("/training/gradient_checkpointing", "full", "activation_checkpointing_policy", refLitgpt)
	}
}

func (r *reading) litgptPrecision() {
	v, ok := r.s.Get("precision")
	switch v.String() {
	case "bf16-true":
		r.d.put("/training/precision", "bf16", v)
	case "16-true":
		r.d.put("/training/precision", "fp16", v)
	case "bf16-mixed":
		r.d.put("/training/precision", "amp-bf16", v)
	case "16-mixed":
		r.d.put("/training/precision", "amp-fp16", v)
	case "32-true":
		r.d.put("/training/precision", "fp32", v)
	default:
		if ok {
			r.d.ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" says "+v.String())
			return
		}
		r.d.fall("/training/precision", "amp-bf16", "precision",
			"litgpt 0.5 litgpt/utils.py get_default_supported_precision")
	}
}

func (r *reading) litgptLoRA() {
	s := r.s
	if !r.number("/training/lora/rank", "Of which rank are the adapters?", "lora_r") {
		r.d.fall("/training/lora/rank", int64(8), "lora_r", refLitgpt)
	}
	r.d.fall("/training/lora/dropout", 0.05, "lora_dropout", refLitgpt)
	if v, ok := s.Get("lora_dropout"); ok {
		if f, isFloat := v.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, v)
		}
	}
	var list []string
	from := setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "lora_query, lora_value", Ref: refLitgpt}}
	for _, t := range []struct {
		key     string
		on      bool
		modules []string
	}{
		{"lora_query", true, []string{"q_proj"}}, {"lora_key", false, []string{"k_proj"}},
		{"lora_value", true, []string{"v_proj"}}, {"lora_projection", false, []string{"o_proj"}},
		{"lora_mlp", false, []string{"gate_proj", "up_proj", "down_proj"}}, {"lora_head", false, []string{"lm_head"}},
	} {
		on := t.on
		if v, ok := s.Get(t.key); ok {
			on, from = v.On(), v
		}
		if on {
			list = append(list, t.modules...)
		}
	}
	r.d.put("/training/lora/target_modules", list, from)
	precision := r.d.text("/training/precision")
	base := map[string]string{"bf16": "bf16", "fp16": "fp16"}[precision]
	if base == "" {
		base = "fp32"
	}
	r.d.derive("/training/lora/adapter_dtype", base, "precision")
	r.d.derive("/training/lora/base_precision", base, "precision")
	v, ok := s.Get("quantize")
	if !ok || v.Off() {
		return
	}
	switch v.String() {
	case "bnb.nf4":
		r.d.put("/training/lora/base_precision", "nf4", v)
	case "bnb.nf4-dq":
		r.d.put("/training/lora/base_precision", "nf4", v)
		r.d.put("/training/lora/double_quantization", true, v)
	default:
		r.d.refuse("unsupported", v.Origin.At, "quantize %s is not modelled", v.String())
	}
}
