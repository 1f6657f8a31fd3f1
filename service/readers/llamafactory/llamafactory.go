// Package llamafactory reads LLaMA-Factory's files and command lines.
package llamafactory

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// Tool reads LLaMA-Factory's YAML, JSON and arguments.
var Tool = tool.Tool{
	Name: "llama-factory",
	Marks: map[string]int{"finetuning_type": 5, "stage": 2, "template": 1, "cutoff_len": 2, "lora_target": 1,
		"model_name_or_path": 1, "quantization_bit": 1},
	New:      func(j *tool.Job) tool.Reader { return &job{Job: trl.Of(j)} },
	Words:    words,
	Still:    stillText,
	Command:  "llamafactory-cli",
	Faithful: true,
}

// job is one job on its way through this tool.
type job struct {
	trl.Job
}

// LLaMA-Factory's defaults at ff6d4d12.
const (
	refFactoryCast     = "LLaMA-Factory@ff6d4d12 src/llamafactory/model/adapter.py init_adapter"
	refFactoryInferred = "LLaMA-Factory@ff6d4d12 src/llamafactory/model/patcher.py patch_config: the checkpoint's"
	refFactoryType     = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py finetuning_type"
)

// Starts recognises "llamafactory-cli train FILE [key=value]", "src/train.py FILE" and "src/train_bash.py
// --stage sft …".
func (r *job) Starts() bool {
	args, name := r.Args, path.Base(r.Program.Text)
	cli := name == "llamafactory-cli" || name == "lmf" || r.Module &&
		(r.Program.Text == "llamafactory.cli" || r.Program.Text == "llamafactory.launcher")
	if cli {
		if len(args) == 0 || args[0].Text != "train" {
			return false
		}
		args = args[1:]
		r.Counted = r.world
	} else if name != "train_bash.py" && name != "train.py" && name != "run_exp.py" && name != "launcher.py" {
		return false
	}
	s, files, open := argv.Options(args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	if len(files) > 0 && tool.IsConfigName(files[0].Text) {
		r.In = argv.Overrides(args)
		if s.Len() > 0 && cli { // hparams/parser.py read_args: behind a file the arguments are key=value
			key := s.Keys()[0]
			v, _ := s.Peek(key)
			r.Problems = append(r.Problems, func(d *draft.Draft) {
				d.Refuse("cannot-start", v.Origin.At, "behind %s LLaMA-Factory takes key=value, and stops at %s",
					files[0].Text, v.Origin.Key)
			})
		}
		r.Under(files[0].Argument("config"))
		if strings.HasSuffix(r.Program.Text, "src/train.py") && r.File == "" {
			return true // its own layout, and a file that is not there, which is said
		}
	} else {
		r.In = s
	}
	return cli || name == "train_bash.py" || r.In.Has("finetuning_type") || r.In.Has("stage") && r.In.Has("template")
}

// world is what the command starts itself: one process for every visible GPU, on NNODES nodes
// (src/llamafactory/launcher.py: NPROC_PER_NODE, NNODES, FORCE_TORCHRUN).
func (r *job) world() launch.Count {
	per := r.Visible("gpus_on_node", "llamafactory-cli takes all GPUs that it sees")
	nodes := launch.Count{N: 1, Known: true}
	if w, ok := r.Env("NPROC_PER_NODE"); ok {
		per = launch.CountOf(launch.Environment(w, "NPROC_PER_NODE"))
	}
	if w, ok := r.Env("NNODES"); ok {
		nodes = launch.CountOf(launch.Environment(w, "NNODES"))
	}
	return launch.Times(per, nodes)
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Out.OlderLosses = true
	r.Dequantized = []string{"mxfp4", "fp8"} // src/llamafactory/model/model_utils/quantization.py
	s := r.In
	for _, engine := range []string{"USE_V1", "USE_MCA", "USE_KT"} {
		w, ok := r.Env(engine)
		if !ok || w.Known() && w.Text != "1" && !strings.EqualFold(w.Text, "true") &&
			!strings.EqualFold(w.Text, "y") {
			continue
		}
		what := "another engine"
		if engine == "USE_V1" {
			what = "LLaMA-Factory's new engine"
		}
		r.Out.Refuse("unsupported", r.At, "%s starts %s, which is not read", engine, what)
	}
	kind := r.stage()
	for _, key := range []string{"use_badam", "use_apollo", "use_adam_mini", "use_llama_pro", "shift_attn",
		"mixture_of_depths", "use_unsloth", "use_kt", "use_mca", "use_hyper_parallel", "fp8", "use_asft_loss",
		"use_eaft_loss", "use_dft_loss"} {
		if v, ok := s.Get(key); ok && !v.Off() {
			r.Out.Refuse("unsupported", v.Origin.At, "%s is not modelled", key)
		}
	}
	r.inferenceOnly()
	r.Model("model_name_or_path")
	r.adapter()
	r.optimizer()
	r.checkpointing()
	if v, ok := s.Get("flash_attn"); ok && !strings.EqualFold(v.String(), "auto") {
		if on, isBool := v.Bool(); !isBool {
			r.AttentionOf(v)
		} else if on {
			r.Out.Put("/training/attention", "flash", v)
		}
	}
	r.ReadTrainer(huggingface.Defaults{Framework: "llama-factory"})
	r.precision()
	r.pictures()
	if !r.Number("/training/sequence_length", tool.AskLength, "cutoff_len") {
		if path.Base(r.Program.Text) == "train_bash.py" {
			r.Out.Ask("/training/sequence_length", tool.AskLength, "cutoff_len is not given: 1024 in LLaMA-Factory of early "+
				"2024, which has train_bash.py, and 2048 today")
		}
	}
	// data/processor/supervised.py PackedSupervisedDatasetProcessor pads what it packs (llamafactory 0.9.5)
	packing, given := s.Get("packing")
	neat, _ := s.Get("neat_packing")
	r.Out.Exact = packing.On() || neat.On() || s.Text("stage") == "pt" && !given
	if kind != "" {
		r.Fill() // as LLaMA-Factory: the trainers below it are trl's
	}
	r.objective(kind)
	s.Still(still...)
	s.Read("trust_remote_code", "eval_dataset", "val_size", "freeze_vision_tower", "freeze_multi_modal_projector",
		"freeze_language_model", "packing", "neat_packing", "image_*", "video_*", "visual_inputs", "low_cpu_mem_usage",
		"do_train", "split_special_tokens", "create_new_adapter", "infer_*", "ref_model*", "reward_model*", "ppo_*",
		"pref_*", "vllm_*", "sglang_*", "offload_folder", "fp8_backend", "freeze_trainable_*", "freeze_extra_modules",
		"swanlab_*", "export_*", "profiler_*", "upcast_layernorm")
	r.Loose("rope_scaling", "galore_*", "apollo_*", "badam_*", "kt_*", "pissa_*")
}

func (r *job) adapter() {
	s := r.In
	v, given := s.Get("finetuning_type")
	kind := "lora"
	if given {
		kind = v.String()
	} else {
		v = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "finetuning_type", Ref: refFactoryType}}
	}
	lora := []string{"lora_rank", "lora_dropout", "lora_target", "additional_target", "use_dora",
		"adapter_name_or_path", "quantization_bit", "quantization_*", "double_quantization"}
	switch kind {
	case "full":
		if q, ok := s.Get("quantization_bit"); ok && !q.Off() {
			r.Out.Refuse("cannot-start", q.Origin.At, "quantization_bit with finetuning_type full: LLaMA-Factory stops "+
				"(Quantization is only compatible with the LoRA or OFT method)")
		}
		s.Read(lora...)
		return
	case "lora":
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "finetuning_type %s trains a part of the model, which is not modelled",
			kind)
		return
	}
	if a, ok := s.Get("adapter_name_or_path"); ok && !a.Off() && !s.Has("lora_rank") {
		r.Out.Put("/training/lora/dropout", 0.0, a)
		r.Out.Ask("/training/lora/rank", "Of which rank are the adapters?", a.Origin.At.Where()+
			" goes on with adapters that exist")
	} else if rank, ok := s.Get("lora_rank"); ok {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		r.TakenFor("llama-factory", defaults.LoRARank) // which says that there are adapters
	}
	if d, ok := s.Get("lora_dropout"); ok {
		if f, isFloat := d.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, d)
		}
	}
	if t, ok := s.Get("lora_target"); ok && t.Unknown == "" {
		r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
	} else {
		r.TakenFor("llama-factory", defaults.LoRATargets)
	}
	if t, ok := s.Get("additional_target"); ok && !t.Off() {
		r.Out.Put("/training/lora/modules_to_save", t.Strings(), t)
		s.Read("resize_vocab", "add_tokens")
		// Without it a vocabulary that is resized is trained too (llamafactory 0.9.5 model/adapter.py): the word is
		// asked about.
	}
	if dora, ok := r.In.FirstOn("use_dora"); ok {
		r.Out.Put("/training/lora/dora", true, dora)
	}
	r.quantized()
}

func (r *job) quantized() {
	s := r.In
	const base = "/training/lora/base_precision"
	q, ok := s.Get("quantization_bit")
	if m, has := s.Get("quantization_method"); has && ok && m.String() != "bnb" && m.String() != "bitsandbytes" {
		r.Out.Refuse("unsupported", m.Origin.At, "quantization_method %s is not modelled", m.String())
	}
	bits, _ := q.Int()
	switch {
	case ok && bits == 4:
		r.Out.Put(base, "nf4", q)
		if v, given := s.Get("double_quantization"); given {
			r.Out.Put("/training/lora/double_quantization", v.On(), v)
		}
	case ok && bits == 8:
		r.Out.Put(base, "int8", q)
	case ok:
		r.Out.Refuse("unsupported", q.Origin.At, "quantization_bit %s is not modelled", q.String())
	case models.QuantizedBase(r.Out, r.Dequantized...):
	case r.In.On("bf16", "pure_bf16", "fp16"):
	default:
		if kind, _ := r.inferred(); kind != "" {
			break
		}
		r.Out.Assume(base, "without bf16 and fp16 the model is loaded in the type of its checkpoint, which is not known and "+
			"is taken for float32; where it is a half type, weights take half as much")
	}
	s.Read("quantization_*", "double_quantization")
}

// inferred is the type in which a model is loaded and computed with where neither bf16 nor fp16 is on: that of its
// checkpoint, and bfloat16 where that says none; "" where nobody knows that (src/llamafactory/model/patcher.py
// patch_config, extras/misc.py infer_optim_dtype).
func (r *job) inferred() (kind, from string) {
	kind, from = models.CheckpointType(r.Launch, r.Out)
	if kind == "" && r.Out.Has("/model/hf_config") {
		kind, from = "bf16", "as its config.json says no type"
	}
	return kind, refFactoryInferred + ", " + from
}

// galore is a job document's GaLore.
type galore struct {
	Name       string `json:"name"`
	Rank       int64  `json:"rank,omitempty"`
	InBackward bool   `json:"in_backward,omitempty"`
}

func (r *job) optimizer() {
	s := r.In
	if v, ok := r.In.FirstOn("use_galore"); ok {
		g := galore{Name: "galore-adamw", Rank: 16, InBackward: s.On("galore_layerwise")}
		if rank, given := s.Get("galore_rank"); given {
			if n, isInt := rank.Int(); isInt {
				g.Rank = n
			}
		}
		r.Out.Put("/training/optimizer", g, v)
	}
	if v, ok := r.In.FirstOn("use_muon"); ok {
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "muon"}, v)
	}
}

func (r *job) checkpointing() {
	const pointer = "/training/gradient_checkpointing"
	if v, ok := r.In.FirstOn("disable_gradient_checkpointing"); ok {
		r.Out.Put(pointer, "none", v)
		return
	}
	if v, ok := r.In.FirstOn("use_unsloth_gc"); ok {
		r.Out.Put(pointer, draft.Offloaded, v)
		return
	}
	r.In.Read("gradient_checkpointing")
	if taken, ok := defaults.For("llama-factory", defaults.Checkpointing, nil); ok {
		r.Out.Fall(pointer, draft.OfKind(r.Flag("use_reentrant_gc")), taken.Row.Key, taken.Row.String())
	}
}

// precision: trainable parameters are float32 unless pure_bf16 says otherwise; DeepSpeed stores them as it
// computes.
func (r *job) precision() {
	if v, ok := r.In.FirstOn("pure_bf16"); ok {
		r.Out.Put("/training/precision", "bf16", v)
		if r.Adapters() {
			r.Out.Put("/training/lora/adapter_dtype", "bf16", v)
		}
		return
	}
	if r.Out.Fields["/training/precision"].Origin.Kind == setting.Default {
		r.Out.Drop("/training/precision") // the Trainer's, where the type of the checkpoint counts
	}
}

var words = tool.Words{
	"/training/micro_batch":           tool.CountWord("per_device_train_batch_size"),
	"/training/gradient_accumulation": tool.CountWord("gradient_accumulation_steps"),
	"/training/sequence_length":       tool.CountWord("cutoff_len"),
	"/training/gradient_checkpointing": tool.ChoiceWord("disable_gradient_checkpointing",
		map[string]string{"full": "false", "none": "true"}),
	"/training/attention": tool.ChoiceWord("flash_attn", map[string]string{"sdpa": "sdpa", "flash": "fa2",
		"eager": "disabled"}), "/training/loss": tool.ChoiceWord("enable_liger_kernel",
		map[string]string{"fused-linear": "true"}),
	"/training/gradient_checkpointing/reentrant": tool.SwitchWord("use_reentrant_gc"),
	"/training/optimizer":                        tool.OptimizerWord("optim"),
	"/training/precision":                        tool.HalfWords,
	"/training/compile":                          tool.SwitchWord("torch_compile"),
	"/training/lora":                             tool.ValueWords(map[string][]tool.Set{"true": {{Key: "finetuning_type", Text: "lora"}}}),
	"/training/lora/rank":                        tool.CountWord("lora_rank"),
	"/training/lora/target_modules":              tool.TargetWords("lora_target", "all"),
	"/training/lora/base_precision":              tool.ValueWords(map[string][]tool.Set{"nf4": {{Key: "quantization_bit", Text: "4"}}}),
	"/training/lora/double_quantization":         tool.ByItself("true"), // hparams/model_args.py
}
