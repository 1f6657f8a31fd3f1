// Package litgpt reads litgpt's command line and its files.
package litgpt

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads litgpt's YAML and arguments.
var Tool = tool.Tool{
	Name: "litgpt",
	Marks: map[string]int{"checkpoint_dir": 2, "train.micro_batch_size": 3, "train.global_batch_size": 2,
		"lora_query": 3, "train.max_seq_length": 1},
	New:      func(j *tool.Job) tool.Reader { return &job{Job: j} },
	Words:    words,
	Still:    stillText,
	Command:  "litgpt",
	Faithful: true,
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
}

const (
	refLitgpt   = "litgpt 0.5 litgpt/finetune/lora.py setup"
	refPretrain = "litgpt 0.5 litgpt/pretrain.py setup"
)

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	args, sub := r.Args, ""
	switch {
	case r.Base() == "litgpt" && len(args) > 0:
		sub, args = args[0].Text, args[1:]
		if sub == "finetune" && len(args) > 0 && (args[0].Text == "lora" || args[0].Text == "full") {
			sub, args = "finetune_"+args[0].Text, args[1:]
		}
	case r.Module && strings.HasPrefix(r.Program.Text, "litgpt.finetune."):
		sub = "finetune_" + strings.TrimPrefix(r.Program.Text, "litgpt.finetune.")
	case strings.HasSuffix(r.Program.Text, "finetune/lora.py") ||
		strings.HasSuffix(r.Program.Text, "finetune/full.py"):
		sub = "finetune_" + strings.TrimSuffix(r.Base(), ".py")
	default:
		return false
	}
	if !strings.HasPrefix(sub, "finetune") && sub != "pretrain" {
		return false
	}
	s, positional, open := argv.Options(args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = s
	if v, ok := s.Get("config"); ok {
		r.Under(v)
	}
	if len(positional) > 0 {
		// the first parameter of setup, which stands without its name
		first := "checkpoint_dir"
		if sub == "pretrain" {
			first = "model_name"
		}
		r.In.Set(first, positional[0].Argument(first))
	}
	r.In.Set("_recipe", setting.Value{Any: sub, Text: sub, Origin: setting.Origin{Kind: setting.Derived, Key: "recipe"}})
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	recipe := s.Text("_recipe")
	if recipe == "" && s.Any("lora_r", "lora_query") {
		recipe = "finetune_lora"
	}
	r.Out.Derive("/training/framework", "litgpt", "the tool")
	r.model(recipe)
	micro, global, ref := int64(1), int64(16), refLitgpt
	length := "the longest sample of the data decides"
	if recipe == "pretrain" {
		micro, global, ref, length = 4, 512, refPretrain, "the model's block_size is taken then"
		r.Out.Fall("/training/compile", true, "torch.compile(model)", refPretrain)
	}
	if !r.Number("/training/micro_batch", tool.AskMicroBatch, "train.micro_batch_size") {
		r.Out.Fall("/training/micro_batch", micro, "train.micro_batch_size", ref)
	}
	r.world(recipe)
	g, ok := s.Get("train.global_batch_size")
	if !ok {
		g = setting.Value{Any: global, Origin: setting.Origin{Kind: setting.Default, Key: "train.global_batch_size",
			Ref: ref}}
	}
	r.Accumulate(g, 1)
	if !r.Number("/training/sequence_length", tool.AskLength, "train.max_seq_length") {
		r.Out.Ask("/training/sequence_length", tool.AskLength, "train.max_seq_length is not given: "+length)
	}
	r.precision()
	switch recipe {
	case "finetune_lora", "finetune":
		r.loRA()
	case "finetune_adapter", "finetune_adapter_v2":
		r.Out.Refuse("unsupported", r.At, "litgpt's %s is not modelled", recipe)
	default:
		s.Read("quantize")
	}
	v, ok := s.Get("optimizer.class_path", "optimizer")
	if ok {
		fused, _ := s.Get("optimizer.init_args.fused")
		if recipe == "pretrain" { // extra_kwargs
			fused = setting.Value{Any: true, Origin: setting.Origin{Kind: setting.Default, Key: "fused", Ref: refPretrain}}
		}
		r.OptimizerClass(v, fused)
	} else if recipe == "pretrain" {
		r.Out.Fall("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, "optimizer", refPretrain)
	} else {
		r.Out.Fall("/training/optimizer", tool.Classes["AdamW"], "optimizer", refLitgpt)
	}
	s.Still(still...)
	s.Read("data*", "train.epochs", "train.max_steps", "train.max_tokens", "train.max_time", "train.global_batch_size",
		"train.micro_batch_size", "train.max_seq_length", "eval.*", "num_nodes", "devices", "optimizer*",
		"checkpoint_dir", "_recipe", "initial_checkpoint_dir", "resume", "config", "model_name")
	r.Loose("model_config*", "train.tie_embeddings", "ops")
}

func (r *job) model(recipe string) {
	keys := []string{"checkpoint_dir"}
	if recipe == "pretrain" {
		keys = []string{"model_name"}
	}
	v, ok := r.In.Get(keys...)
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", keys[0]+" is not given")
		return
	}
	name := strings.TrimPrefix(v.String(), "./")
	if i := strings.Index(name, "checkpoints/"); i >= 0 {
		name = name[i+len("checkpoints/"):]
	}
	v.Any = strings.TrimSuffix(name, "/")
	models.Of(r.Launch, r.Out, v)
}

// world is devices × num_nodes; several share the model with FSDP. A fine-tuning has one device where nothing says
// more, and checkpoints every block on several; pretraining takes all devices, and checkpoints none.
func (r *job) world(recipe string) {
	devices, nodes := launch.Count{N: 1, Known: true, How: "devices is 1"}, launch.Count{N: 1, Known: true}
	if recipe == "pretrain" {
		devices = r.Visible("gpus_on_node", "litgpt pretrain takes all GPUs where no --devices is given")
	}
	if v, ok := r.In.Get("devices"); ok {
		if v.String() == "auto" {
			devices = r.Visible("gpus_on_node", "devices: auto takes all GPUs")
		} else {
			devices = launch.CountOf(v)
		}
	}
	if v, ok := r.In.Get("num_nodes"); ok {
		nodes = launch.CountOf(v)
	}
	w := launch.Times(devices, nodes)
	if n := r.Files.Source.GPUs; n > 0 {
		w.N, w.Known = n, true
	}
	r.Fixed(w)
	if w.Known && w.N > 1 {
		r.Out.Fall("/training/distributed/data", "fsdp", "devices", refLitgpt)
		r.Out.Fall("/training/distributed/fsdp_version", int64(1), "devices", refLitgpt)
		if recipe != "pretrain" {
			r.Out.Fall("/training/gradient_checkpointing", "full", "activation_checkpointing_policy", refLitgpt)
			return
		}
		r.Out.Drop("/training/compile")
		r.Out.Assume("/training/compile", "litgpt pretrain compiles the model, which is not modelled under FSDP: it is judged "+
			"as it is without, which takes more")
		if nodes.Known && nodes.N > 1 { // sharding_strategy HYBRID_SHARD
			r.Out.Fall("/training/distributed/shard_group", w.N/nodes.N, "sharding_strategy", refPretrain)
		}
	}
}

func (r *job) precision() {
	v, ok := r.In.Get("precision")
	switch v.String() {
	case "bf16-true":
		r.Out.Put("/training/precision", "bf16", v)
	case "16-true":
		r.Out.Put("/training/precision", "fp16", v)
	case "bf16-mixed":
		r.Out.Put("/training/precision", "amp-bf16", v)
	case "16-mixed":
		r.Out.Put("/training/precision", "amp-fp16", v)
	case "32-true":
		r.Out.Put("/training/precision", "fp32", v)
	default:
		if ok {
			r.Out.Ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" says "+v.String())
			return
		}
		r.Out.Fall("/training/precision", "amp-bf16", "precision",
			"litgpt 0.5 litgpt/utils.py get_default_supported_precision")
	}
}

func (r *job) loRA() {
	s := r.In
	if !r.Number("/training/lora/rank", "Of which rank are the adapters?", "lora_r") {
		r.Out.Fall("/training/lora/rank", int64(8), "lora_r", refLitgpt)
	}
	r.Out.Fall("/training/lora/dropout", 0.05, "lora_dropout", refLitgpt)
	if v, ok := s.Get("lora_dropout"); ok {
		if f, isFloat := v.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, v)
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
	r.Out.Put("/training/lora/target_modules", list, from)
	precision := r.Out.Text("/training/precision")
	base := map[string]string{"bf16": "bf16", "fp16": "fp16"}[precision]
	if base == "" {
		base = "fp32"
	}
	r.Out.Derive("/training/lora/adapter_dtype", base, "precision")
	r.Out.Derive("/training/lora/base_precision", base, "precision")
	v, ok := s.Get("quantize")
	if !ok || v.Off() {
		return
	}
	switch v.String() {
	case "bnb.nf4":
		r.Out.Put("/training/lora/base_precision", "nf4", v)
	case "bnb.nf4-dq":
		r.Out.Put("/training/lora/base_precision", "nf4", v)
		r.Out.Put("/training/lora/double_quantization", true, v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "quantize %s is not modelled", v.String())
	}
}

var words = tool.Words{"/training/micro_batch": tool.CountWord("train.micro_batch_size"),
	"/training/sequence_length": tool.CountWord("train.max_seq_length")}
