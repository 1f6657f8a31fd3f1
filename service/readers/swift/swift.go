// Package swift reads ms-swift's command line.
package swift

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// Tool reads ms-swift's command line.
var Tool = tool.Tool{Name: "ms-swift", New: func(j *tool.Job) tool.Reader { return &job{Job: trl.Of(j)} }, Words: words,
	Marks:    map[string]int{"tuner_type": 4, "train_type": 3, "sft_type": 4, "model_type": 1, "lora_rank": 1},
	Still:    stillText,
	Command:  "swift",
	Faithful: true,
}

// job is one job on its way through this tool.
type job struct {
	trl.Job
}

const refSwift = "ms-swift 4 swift/arguments"

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	args, sub := r.Args, ""
	switch name := r.Base(); {
	case name == "swift" && len(args) > 0:
		sub, args = args[0].Text, args[1:]
	case r.Module && strings.HasPrefix(r.Program.Text, "swift.cli."):
		sub = strings.TrimPrefix(r.Program.Text, "swift.cli.")
	case strings.HasSuffix(r.Program.Text, "swift/cli/sft.py"):
		sub = "sft"
	case name == "megatron" && len(args) > 0:
		sub = "megatron"
	default:
		return false
	}
	s, positional, open := argv.Options(args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = s
	if v, ok := s.Get("config"); ok { // cli/main.py prepare_config_args
		r.Under(v)
	}
	if len(positional) > 0 && tool.IsConfigName(positional[0].Text) {
		r.Under(positional[0].Argument("config"))
	}
	r.In.Set("_sub", setting.Value{Any: sub, Text: sub})
	return sub == "sft" || sub == "pt" || sub == "rlhf" || sub == "megatron"
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Out.OlderLosses = true
	s := r.In
	kind := ""
	switch s.Text("_sub") {
	case "rlhf":
		kind = r.kind()
	case "megatron":
		r.Out.Refuse("unsupported", r.At, "Megatron-SWIFT is not read")
	}
	if r.Launcher == "" {
		r.Counted = func() launch.Count {
			per, nodes := launch.Count{N: 1, Known: true, How: "one process without NPROC_PER_NODE"}, launch.Count{N: 1, Known: true}
			if w, ok := r.Env("NPROC_PER_NODE"); ok {
				per = launch.CountOf(launch.Environment(w, "NPROC_PER_NODE"))
			}
			if w, ok := r.Env("NNODES"); ok {
				nodes = launch.CountOf(launch.Environment(w, "NNODES"))
			}
			return launch.Times(per, nodes)
		}
	}
	r.Model("model", "model_id_or_path", "model_type", "model_name_or_path")
	r.tuner()
	r.second()
	if v, ok := s.Get("deepspeed"); ok && v.Unknown == "" && !strings.ContainsAny(v.String(), "./") &&
		strings.HasPrefix(strings.TrimPrefix(v.String(), "default-"), "zero") {
		r.zero(v)
	}
	dtype, typed := s.Get("torch_dtype", "dtype")
	typed = typed && draft.Dtype(dtype.String()) != ""
	if draft.Dtype(dtype.String()) == "bf16" && !s.Any("bf16", "fp16") {
		from := dtype
		from.Any = true
		s.Set("bf16", from)
	}
	r.ReadTrainer(huggingface.Defaults{Framework: "ms-swift", Table: "ms-swift"})
	r.Out.Drop("/training/evaluation")
	r.dealsOut()
	if r.Out.Fields["/training/precision"].Origin.Kind == setting.Default {
		r.Out.Drop("/training/precision") // the Trainer's, where the type of the checkpoint counts
	}
	if r.Adapters() {
		r.base(typed)
	} else if !typed {
		r.Out.Drop("/training/states/weights")
	} else if f := r.Out.Fields["/training/precision"]; f.Value == "amp-bf16" &&
		r.Out.Text("/training/distributed/data") != "fsdp" {
		r.StoredIn("bf16", setting.Value{Text: f.Text, Origin: f.Origin})
	}
	if !s.Has("gradient_accumulation_steps") {
		r.Out.Drop("/training/gradient_accumulation") // 16 sequences over all GPUs, which are counted later
		micro, ok := r.Out.Int("/training/micro_batch")
		if w := r.GPUs(); ok && kind != "" && (w.Known || kind == "grpo") {
			taken, _ := defaults.For("ms-swift", defaults.Accumulation, nil)
			all, _ := taken.Value.(int64)
			if kind == "grpo" { // arguments/rlhf_args.py
				all = 1
			}
			r.Out.Fall("/training/gradient_accumulation", (all+micro*w.N-1)/(micro*w.N), taken.Row.Key, taken.Row.String())
		}
	}
	if !r.Number("/training/sequence_length", tool.AskLength, "max_length") && !programs.Kinds[kind].Writes {
		r.Out.Ask("/training/sequence_length", tool.AskLength, "max_length is not given: the longest sample of "+
			"the data decides")
	}
	r.pictures()
	if v, ok := s.Get("attn_impl"); ok {
		r.AttentionOf(v)
	}
	if kind != "" {
		r.Fill() // as ms-swift: the trainers below it are trl's
	}
	r.objective(kind)
	s.Still(still...)
	s.Read("dataset*", "val_dataset*", "template*", "split_dataset_ratio", "num_train_epochs", "loss_scale", "padding_free",
		"packing", "_sub", "target_modules", "lora_target_modules", "lora_bias", "quant_*", "quantization_bit",
		"teacher_*", "ref_*", "reward_*", "vllm_*", "sglang_*", "use_swift_lora")
	s.Read("freeze_vit", "config", "max_pixels")
	r.Loose("freeze_aligner", "init_weights", "use_logits_to_keep", "lora_ga_*")
}

// second reads words that only ms-swift 2 had: batch_size, dtype AUTO for the checkpoint's type, and the backend
// of the adapters, of which "peft" is today's only one (ms-swift 2.6 swift/llm/utils/argument.py SftArguments).
func (r *job) second() {
	s := r.In
	if v, ok := s.Get("batch_size"); ok && !s.Has("per_device_train_batch_size") {
		s.Set("per_device_train_batch_size", v)
	}
	if v, ok := s.Peek("dtype"); ok && strings.EqualFold(v.String(), "AUTO") {
		s.Read("dtype")
		v.Any, v.Text = "auto", "auto"
		s.Replace("dtype", v)
	}
	if v, ok := s.Peek("tuner_backend"); ok && v.String() == "peft" {
		s.Read("tuner_backend")
	}
}

// dealsOut refuses one process that sees several cards: ms-swift then deals the layers out among them
// (ms-swift 4.0 swift/utils/torch_utils.py is_mp, get_default_device_map), and a card holds a part of the model.
func (r *job) dealsOut() {
	visible, ok := r.Env("CUDA_VISIBLE_DEVICES")
	if r.Launcher != "" || !ok || !visible.Known() || r.Sharded {
		return
	}
	if _, several := r.Env("NPROC_PER_NODE"); several {
		return
	}
	if n := strings.Count(strings.Trim(visible.Text, ", "), ",") + 1; n > 1 {
		r.Out.Refuse("unsupported", r.At, "one process sees %d cards (CUDA_VISIBLE_DEVICES) and no "+
			"NPROC_PER_NODE is set: "+
			"ms-swift deals the layers out among them, which is not modelled", n)
	}
}

func (r *job) tuner() {
	s := r.In
	v, ok := s.Get("tuner_type", "train_type", "sft_type")
	kind := "lora"
	if ok {
		kind = v.String()
	} else {
		v = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "tuner_type", Ref: refSwift +
			" tuner_type"}}
	}
	switch kind {
	case "full":
		s.Read("lora_*")
		return
	case "lora":
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "%s %s is not modelled", v.Origin.Key, kind)
		return
	}
	if !r.Number("/training/lora/rank", "Of which rank are the adapters?", "lora_rank") {
		r.TakenFor("ms-swift", defaults.LoRARank) // which says that there are adapters
	}
	if d, given := s.Get("lora_dropout", "lora_dropout_p"); given {
		if f, isFloat := d.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, d)
		}
	}
	if t, given := s.Get("target_modules", "lora_target_modules"); given && t.Unknown == "" {
		r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
	} else {
		r.TakenFor("ms-swift", defaults.LoRATargets)
	}
	if t, given := s.Get("modules_to_save"); given && !t.Off() {
		r.Out.Put("/training/lora/modules_to_save", t.Strings(), t)
	}
	if d, on := r.In.FirstOn("use_dora"); on {
		r.Out.Put("/training/lora/dora", true, d)
	}
}

func (r *job) base(typed bool) {
	const pointer = "/training/lora/base_precision"
	if v, ok := r.In.Get("quant_bits", "quantization_bit"); ok && !v.Off() {
		switch n, _ := v.Int(); n {
		case 4:
			r.Out.Put(pointer, "nf4", v)
		case 8:
			r.Out.Put(pointer, "int8", v)
		default:
			r.Out.Refuse("unsupported", v.Origin.At, "%s %s is not modelled", v.Origin.Key, v.String())
		}
		return
	}
	if models.QuantizedBase(r.Out) || !typed {
		return
	}
	half := strings.TrimPrefix(r.Out.Text("/training/precision"), "amp-")
	r.Out.Derive(pointer, half, "the model is loaded in torch_dtype")
}

// zero reads the names that ms-swift gives to configurations of its own: zero0 to zero3 and zero2_offload,
// zero3_offload.
func (r *job) zero(v setting.Value) {
	r.In.Read("deepspeed")
	name := strings.TrimPrefix(v.String(), "default-")
	name, offload := strings.CutSuffix(name, "_offload")
	name, _ = strings.CutSuffix(name, "-offload")
	offload = offload || strings.HasSuffix(v.String(), "-offload")
	stage := strings.TrimPrefix(name, "zero")
	r.Sharded = true
	if stage != "0" {
		r.Out.Put("/training/distributed/data", "zero"+stage, v)
	}
	if offload {
		r.Out.Put("/training/distributed/offload_optimizer", true, v)
		if stage == "3" {
			r.Out.Put("/training/distributed/offload_parameters", true, v)
		}
	}
	r.In.Replace("deepspeed", setting.Value{Origin: v.Origin})
}

var words = tool.Words{
	"/training/micro_batch":            tool.CountWord("per_device_train_batch_size"),
	"/training/gradient_accumulation":  tool.CountWord("gradient_accumulation_steps"),
	"/training/sequence_length":        tool.CountWord("max_length"),
	"/training/gradient_checkpointing": tool.ChoiceWord("gradient_checkpointing", tool.OnOff),
	"/training/attention": tool.ChoiceWord("attn_impl",
		map[string]string{"sdpa": "sdpa", "flash": "flash_attn"}),
	"/training/loss": tool.ChoiceWord("use_liger_kernel", map[string]string{"fused-linear": "true"}),
	"/training/gradient_checkpointing/reentrant": huggingface.Reentrant,
	"/training/optimizer":                        tool.OptimizerWord("optim"),
	"/training/lora": tool.ValueWords(map[string][]tool.Set{"true": {
		{Key: "tuner_type", Or: []string{"train_type", "sft_type"}, Text: "lora"}, {Key: "lora_dropout", Text: "0"}}}),
	"/training/lora/rank":           tool.CountWord("lora_rank"),
	"/training/lora/target_modules": tool.TargetWords("target_modules", "all-linear"),
	"/training/lora/base_precision": tool.ValueWords(map[string][]tool.Set{"nf4": {
		{Key: "quant_method", Text: "bnb", Not: []string{"sft_type"}}, {Key: "quant_bits", Text: "4", Not: []string{"sft_type"}}}}),
	"/training/lora/double_quantization": tool.ByItself("true"),
}
