package readers

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// llamaFactoryTool reads LLaMA-Factory's YAML, JSON and arguments.
var llamaFactoryTool = tool{
	name:   "llama-factory",
	starts: (*reading).llamaFactoryStarts,
	marks: map[string]int{"finetuning_type": 5, "stage": 2, "template": 1, "cutoff_len": 2, "lora_target": 1,
		"model_name_or_path": 1, "quantization_bit": 1},
	read:  (*reading).readLlamaFactory,
	words: llamaFactoryWords,
}

// LLaMA-Factory's defaults at ff6d4d12.
const (
	refFactoryCheckpointing = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/model_args.py:145"
	refFactoryRank          = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py:77"
	refFactoryTarget        = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py lora_target"
	refFactoryLength        = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/data_args.py cutoff_len"
	refFactoryQuant         = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/model_args.py double_quantization"
	refFactoryKBit          = "LLaMA-Factory@ff6d4d12 src/llamafactory/model/model_utils/checkpointing.py: no upcast " +
		"but of norms on demand"
	refFactoryType = "LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/finetuning_args.py finetuning_type"
)

// llamaFactoryStarts recognises "llamafactory-cli train FILE [key=value]", "src/train.py FILE" and "src/train_bash.py
// --stage sft …".
func (r *reading) llamaFactoryStarts() bool {
	args, name := r.args, path.Base(r.program.Text)
	cli := name == "llamafactory-cli" || name == "lmf" || r.module &&
		(r.program.Text == "llamafactory.cli" || r.program.Text == "llamafactory.launcher")
	if cli {
		if len(args) == 0 || args[0].Text != "train" {
			return false
		}
		args = args[1:]
		r.counted = r.llamaFactoryWorld
	} else if name != "train_bash.py" && name != "train.py" && name != "run_exp.py" && name != "launcher.py" {
		return false
	}
	s, files, open := options(args, nil)
	for _, w := range open {
		r.openWord(w)
	}
	if len(files) > 0 && isConfigName(files[0].Text) {
		r.s = overrides(args)
		if s.Len() > 0 && cli { // hparams/parser.py read_args: behind a file the arguments are key=value
			key := s.Keys()[0]
			v, _ := s.Peek(key)
			r.problems = append(r.problems, func(d *draft) {
				d.refuse("cannot-start", v.Origin.At, "behind %s LLaMA-Factory takes key=value, and stops at %s",
					files[0].Text, v.Origin.Key)
			})
		}
		r.under(files[0].argument("config"))
	} else {
		r.s = s
	}
	return cli || name == "train_bash.py" || r.s.Has("finetuning_type") || r.s.Has("stage") && r.s.Has("template")
}

func isConfigName(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// llamaFactoryWorld is what the command starts itself: one process for every visible GPU, on NNODES nodes
// (src/llamafactory/launcher.py: NPROC_PER_NODE, NNODES, FORCE_TORCHRUN).
func (r *reading) llamaFactoryWorld() count {
	per := r.visible("gpus_on_node", "llamafactory-cli takes all GPUs that it sees")
	nodes := count{n: 1, known: true}
	if w, ok := r.env("NPROC_PER_NODE"); ok {
		per = known(environment(w, "NPROC_PER_NODE"))
	}
	if w, ok := r.env("NNODES"); ok {
		nodes = known(environment(w, "NNODES"))
	}
	return times(per, nodes)
}

// environment is a variable as a setting.
func environment(w word, name string) setting.Value {
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v
}

func (r *reading) readLlamaFactory() {
	s := r.s
	for _, engine := range []string{"USE_V1", "USE_MCA", "USE_KT"} {
		w, ok := r.env(engine)
		if !ok || w.known() && w.Text != "1" && !strings.EqualFold(w.Text, "true") &&
			!strings.EqualFold(w.Text, "y") {
			continue
		}
		what := "another engine"
		if engine == "USE_V1" {
			what = "LLaMA-Factory's new engine"
		}
		r.d.refuse("unsupported", r.at, "%s starts %s, which is not read", engine, what)
	}
	if v, ok := s.Get("stage"); ok && v.String() != "sft" && v.String() != "pt" {
		r.refuseObjective(cmp.Or(v.String(), "stage"), v.Origin.At)
	}
	for _, key := range []string{"use_badam", "use_apollo", "use_adam_mini", "use_llama_pro", "shift_attn",
		"mixture_of_depths", "use_unsloth", "use_kt", "use_mca", "use_hyper_parallel", "fp8", "use_asft_loss",
		"use_eaft_loss", "use_dft_loss"} {
		if v, ok := s.Get(key); ok && !v.Off() {
			r.d.refuse("unsupported", v.Origin.At, "%s is not modelled", key)
		}
	}
	r.inferenceOnly()
	r.model("model_name_or_path")
	r.llamaFactoryAdapter()
	r.llamaFactoryOptimizer()
	r.llamaFactoryCheckpointing()
	if v, ok := s.Get("flash_attn"); ok && !strings.EqualFold(v.String(), "auto") {
		if on, isBool := v.Bool(); !isBool {
			r.attentionOf(v)
		} else if on {
			r.d.put("/training/attention", "flash", v)
		}
	}
	r.trainer(trainerDefaults{framework: "llama-factory"})
	r.llamaFactoryPrecision()
	r.llamaFactoryPictures()
	if !r.number("/training/sequence_length", askLength, "cutoff_len") {
		if path.Base(r.program.Text) == "train_bash.py" {
			r.d.ask("/training/sequence_length", askLength, "cutoff_len is not given: 1024 in LLaMA-Factory of early "+
				"2024, which has train_bash.py, and 2048 today")
		} else {
			r.d.fall("/training/sequence_length", int64(2048), "cutoff_len", refFactoryLength)
		}
	}
	// data/processor/supervised.py PackedSupervisedDatasetProcessor pads what it packs (llamafactory 0.9.5)
	packing, given := s.Get("packing")
	neat, _ := s.Get("neat_packing")
	r.d.exact = packing.On() || neat.On() || s.Text("stage") == "pt" && !given
	s.Still(llamaFactoryStill...)
	s.Read("trust_remote_code", "eval_dataset", "val_size", "freeze_vision_tower", "freeze_multi_modal_projector",
		"freeze_language_model", "packing", "neat_packing", "image_*", "video_*", "visual_inputs", "low_cpu_mem_usage",
		"do_train", "split_special_tokens", "create_new_adapter", "infer_*", "ref_model*", "reward_model*", "ppo_*",
		"pref_*", "vllm_*", "sglang_*", "offload_folder", "fp8_backend", "freeze_trainable_*", "freeze_extra_modules",
		"swanlab_*", "export_*", "profiler_*", "upcast_layernorm")
	r.loose("rope_scaling", "galore_*", "apollo_*", "badam_*", "kt_*", "pissa_*")
}

func (r *reading) llamaFactoryAdapter() {
	s := r.s
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
			r.d.refuse("cannot-start", q.Origin.At, "quantization_bit with finetuning_type full: LLaMA-Factory stops "+
				"(Quantization is only compatible with the LoRA or OFT method)")
		}
		s.Read(lora...)
		return
	case "lora":
	default:
		r.d.refuse("unsupported", v.Origin.At, "finetuning_type %s trains a part of the model, which is not modelled",
			kind)
		return
	}
	if a, ok := s.Get("adapter_name_or_path"); ok && !a.Off() && !s.Has("lora_rank") {
		r.d.put("/training/lora/dropout", 0.0, a)
		r.d.ask("/training/lora/rank", "Of which rank are the adapters?", a.Origin.At.Where()+
			" goes on with adapters that exist")
	} else if rank, ok := s.Get("lora_rank"); ok {
		r.numberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		r.d.fall("/training/lora/rank", int64(8), "lora_rank", refFactoryRank)
	}
	r.d.fall("/training/lora/dropout", 0.0, "lora_dropout", refFactoryRank)
	if d, ok := s.Get("lora_dropout"); ok {
		if f, isFloat := d.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, d)
		}
	}
	if t, ok := s.Get("lora_target"); ok && t.Unknown == "" {
		r.d.put("/training/lora/target_modules", targets(t), t)
	} else {
		r.d.fall("/training/lora/target_modules", []string{"all-linear"}, "lora_target", refFactoryTarget)
	}
	if t, ok := s.Get("additional_target"); ok && !t.Off() {
		r.d.put("/training/lora/modules_to_save", t.Strings(), t)
		s.Read("resize_vocab", "add_tokens")
		// Without it a vocabulary that is resized is trained too (llamafactory 0.9.5 model/adapter.py): the word is
		// asked about.
	}
	if dora, ok := r.s.FirstOn("use_dora"); ok {
		r.d.put("/training/lora/dora", true, dora)
	}
	r.llamaFactoryQuantized(v)
}

func (r *reading) llamaFactoryQuantized(kind setting.Value) {
	s := r.s
	const base = "/training/lora/base_precision"
	q, ok := s.Get("quantization_bit")
	if m, has := s.Get("quantization_method"); has && ok && m.String() != "bnb" && m.String() != "bitsandbytes" {
		r.d.refuse("unsupported", m.Origin.At, "quantization_method %s is not modelled", m.String())
	}
	bits, _ := q.Int()
	switch {
	case ok && bits == 4:
		r.d.put(base, "nf4", q)
		if v, given := s.Get("double_quantization"); !given {
			r.d.fall("/training/lora/double_quantization", true, "double_quantization", refFactoryQuant)
		} else if v.On() {
			r.d.put("/training/lora/double_quantization", true, v)
		}
		r.d.fall("/training/lora/upcast_base", false, "upcast_layernorm", refFactoryKBit)
	case ok && bits == 8:
		r.d.put(base, "int8", q)
		r.d.fall("/training/lora/upcast_base", false, "upcast_layernorm", refFactoryKBit)
	case ok:
		r.d.refuse("unsupported", q.Origin.At, "quantization_bit %s is not modelled", q.String())
	case quantizedName(r.d, base):
	case r.s.On("bf16", "pure_bf16"):
		r.d.derive(base, "bf16", "the model is loaded in the type that is computed in")
	case r.s.On("fp16"):
		r.d.derive(base, "fp16", "the model is loaded in the type that is computed in")
	default:
		r.d.put(base, "fp32", kind)
		r.d.assume(base, "without bf16 and fp16 the model is computed with in float32")
	}
	s.Read("quantization_*", "double_quantization")
}

// galore is a job document's GaLore.
type galore struct {
	Name       string `json:"name"`
	Rank       int64  `json:"rank,omitempty"`
	InBackward bool   `json:"in_backward,omitempty"`
}

func (r *reading) llamaFactoryOptimizer() {
	s := r.s
	if v, ok := r.s.FirstOn("use_galore"); ok {
		g := galore{Name: "galore-adamw", Rank: 16, InBackward: s.On("galore_layerwise")}
		if rank, given := s.Get("galore_rank"); given {
			if n, isInt := rank.Int(); isInt {
				g.Rank = n
			}
		}
		r.d.put("/training/optimizer", g, v)
	}
	if v, ok := r.s.FirstOn("use_muon"); ok {
		r.d.put("/training/optimizer", optimizer{Name: "muon"}, v)
	}
}

func (r *reading) llamaFactoryCheckpointing() {
	const pointer = "/training/gradient_checkpointing"
	if v, ok := r.s.FirstOn("disable_gradient_checkpointing"); ok {
		r.d.put(pointer, "none", v)
		return
	}
	if v, ok := r.s.FirstOn("use_unsloth_gc"); ok {
		r.d.put(pointer, offloaded, v)
		return
	}
	r.s.Read("gradient_checkpointing")
	r.d.fall(pointer, ofKind(r.flag("use_reentrant_gc")), "disable_gradient_checkpointing", refFactoryCheckpointing)
}

// llamaFactoryPrecision: trainable parameters are float32 unless pure_bf16 says otherwise; DeepSpeed stores them as it
// computes.
func (r *reading) llamaFactoryPrecision() {
	if v, ok := r.s.FirstOn("pure_bf16"); ok {
		r.d.put("/training/precision", "bf16", v)
		if r.adapters() {
			r.d.put("/training/lora/adapter_dtype", "bf16", v)
		}
	}
}
