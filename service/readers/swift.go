package readers

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// swiftTool reads ms-swift's command line.
var swiftTool = tool{name: "ms-swift", starts: (*reading).swiftStarts, read: (*reading).readSwift, words: swiftWords,
	marks: map[string]int{"tuner_type": 4, "train_type": 3, "sft_type": 4, "model_type": 1, "lora_rank": 1}}

const refSwift = "ms-swift 4 swift/arguments"

func (r *reading) swiftStarts() bool {
	args, sub := r.args, ""
	switch name := r.base(); {
	case name == "swift" && len(args) > 0:
		sub, args = args[0].Text, args[1:]
	case r.module && strings.HasPrefix(r.program.Text, "swift.cli."):
		sub = strings.TrimPrefix(r.program.Text, "swift.cli.")
	case strings.HasSuffix(r.program.Text, "swift/cli/sft.py"):
		sub = "sft"
	case name == "megatron" && len(args) > 0:
		sub = "megatron"
	default:
		return false
	}
	s, positional, open := options(args, nil)
	for _, w := range open {
		r.openWord(w)
	}
	r.s = s
	if len(positional) > 0 && isConfigName(positional[0].Text) {
		r.under(positional[0].argument("config"))
	}
	r.s.Set("_sub", setting.Value{Any: sub, Text: sub})
	return sub == "sft" || sub == "pt" || sub == "rlhf" || sub == "megatron"
}

func (r *reading) readSwift() {
	s := r.s
	if sub := s.Text("_sub"); sub == "rlhf" {
		r.refuseObjective(cmp.Or(s.Text("rlhf_type"), "dpo"), r.at)
	} else if sub == "megatron" {
		r.d.refuse("unsupported", r.at, "Megatron-SWIFT is not read")
	}
	if r.launcher == "" {
		r.counted = func() count {
			per, nodes := count{n: 1, known: true, how: "one process without NPROC_PER_NODE"}, count{n: 1, known: true}
			if w, ok := r.env("NPROC_PER_NODE"); ok {
				per = known(environment(w, "NPROC_PER_NODE"))
			}
			if w, ok := r.env("NNODES"); ok {
				nodes = known(environment(w, "NNODES"))
			}
			return times(per, nodes)
		}
	}
	r.model("model", "model_id_or_path", "model_type", "model_name_or_path")
	r.swiftTuner()
	r.swiftSecond()
	if v, ok := s.Get("deepspeed"); ok && v.Unknown == "" && !strings.ContainsAny(v.String(), "./") &&
		strings.HasPrefix(strings.TrimPrefix(v.String(), "default-"), "zero") {
		r.swiftZero(v)
	}
	if v, ok := s.Get("torch_dtype", "dtype"); !ok || dtype(v.String()) == "bf16" {
		from := v
		if !ok {
			from = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "torch_dtype", Ref: refSwift +
				": that of the checkpoint, bfloat16 for today's"}}
		}
		if !s.Any("bf16", "fp16") {
			from.Any = true
			s.Set("bf16", from)
		}
	}
	r.trainer(trainerDefaults{framework: "ms-swift", checkpointing: true, checkpointingRef: refSwift +
		" gradient_checkpointing", microBatch: 1, microBatchRef: refSwift + " per_device_train_batch_size"})
	r.d.drop("/training/evaluation")
	r.swiftDealsOut()
	if r.adapters() {
		r.swiftBase()
	} else if r.d.text("/training/precision") == "amp-bf16" {
		f := r.d.fields["/training/precision"]
		f.value = "bf16"
		r.d.fields["/training/precision"] = f
	}
	if !s.Has("gradient_accumulation_steps") {
		if micro, ok := r.d.int("/training/micro_batch"); ok {
			if w := r.gpus(); w.known {
				r.d.derive("/training/gradient_accumulation", max(1, 16/(micro*w.n)),
					"16 sequences over all GPUs, ms-swift's default (%s)", refSwift)
			}
		}
	}
	if !r.number("/training/sequence_length", askLength, "max_length") {
		r.d.ask("/training/sequence_length", askLength, "max_length is not given: the longest sample of "+
			"the data decides")
	}
	if v, ok := s.Get("attn_impl"); ok {
		r.attentionOf(v)
	}
	s.Still(swiftStill...)
	s.Read("dataset*", "val_dataset*", "template*", "split_dataset_ratio", "num_train_epochs", "loss_scale", "padding_free",
		"packing", "_sub", "target_modules", "lora_target_modules", "lora_bias", "quant_*", "quantization_bit",
		"teacher_*", "ref_*", "reward_*", "vllm_*", "sglang_*", "use_swift_lora")
	r.loose("freeze_vit", "freeze_aligner", "init_weights", "use_logits_to_keep", "lora_ga_*")
}

// swiftSecond reads words that only ms-swift 2 had: batch_size, dtype AUTO for the checkpoint's type, and the backend
// of the adapters, of which "peft" is today's only one (ms-swift 2.6 swift/llm/utils/argument.py SftArguments).
func (r *reading) swiftSecond() {
	s := r.s
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

// swiftDealsOut refuses one process that sees several cards: ms-swift then deals the layers out among them
// (ms-swift 4.0 swift/utils/torch_utils.py is_mp, get_default_device_map), and a card holds a part of the model.
func (r *reading) swiftDealsOut() {
	visible, ok := r.env("CUDA_VISIBLE_DEVICES")
	if r.launcher != "" || !ok || !visible.known() || r.sharded {
		return
	}
	if _, several := r.env("NPROC_PER_NODE"); several {
		return
	}
	if n := strings.Count(strings.Trim(visible.Text, ", "), ",") + 1; n > 1 {
		r.d.refuse("unsupported", r.at, "one process sees %d cards (CUDA_VISIBLE_DEVICES) and no "+
			"NPROC_PER_NODE is set: "+
			"ms-swift deals the layers out among them, which is not modelled", n)
	}
}

func (r *reading) swiftTuner() {
	s := r.s
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
		r.d.refuse("unsupported", v.Origin.At, "%s %s is not modelled", v.Origin.Key, kind)
		return
	}
	if !r.number("/training/lora/rank", "Of which rank are the adapters?", "lora_rank") {
		r.d.fall("/training/lora/rank", int64(8), "lora_rank", refSwift+" lora_rank")
	}
	r.d.fall("/training/lora/dropout", 0.05, "lora_dropout", refSwift+" lora_dropout")
	if d, given := s.Get("lora_dropout", "lora_dropout_p"); given {
		if f, isFloat := d.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, d)
		}
	}
	if t, given := s.Get("target_modules", "lora_target_modules"); given && t.Unknown == "" {
		r.d.put("/training/lora/target_modules", targets(t), t)
	} else {
		r.d.fall("/training/lora/target_modules", []string{"all-linear"}, "target_modules", refSwift+" target_modules")
	}
	if t, given := s.Get("modules_to_save"); given && !t.Off() {
		r.d.put("/training/lora/modules_to_save", t.Strings(), t)
	}
	if d, on := r.s.FirstOn("use_dora"); on {
		r.d.put("/training/lora/dora", true, d)
	}
}

func (r *reading) swiftBase() {
	const pointer = "/training/lora/base_precision"
	if v, ok := r.s.Get("quant_bits", "quantization_bit"); ok && !v.Off() {
		switch n, _ := v.Int(); n {
		case 4:
			r.d.put(pointer, "nf4", v)
			r.d.fall("/training/lora/double_quantization", true, "bnb_4bit_use_double_quant", refSwift+
				" bnb_4bit_use_double_quant")
		case 8:
			r.d.put(pointer, "int8", v)
		default:
			r.d.refuse("unsupported", v.Origin.At, "%s %s is not modelled", v.Origin.Key, v.String())
		}
		return
	}
	if quantizedName(r.d, pointer) {
		return
	}
	half := strings.TrimPrefix(r.d.text("/training/precision"), "amp-")
	r.d.derive(pointer, half, "the model is loaded in torch_dtype")
}

// swiftZero reads the names that ms-swift gives to configurations of its own: zero0 to zero3 and zero2_offload,
// zero3_offload.
func (r *reading) swiftZero(v setting.Value) {
	r.s.Read("deepspeed")
	name := strings.TrimPrefix(v.String(), "default-")
	name, offload := strings.CutSuffix(name, "_offload")
	name, _ = strings.CutSuffix(name, "-offload")
	offload = offload || strings.HasSuffix(v.String(), "-offload")
	stage := strings.TrimPrefix(name, "zero")
	r.sharded = true
	if stage != "0" {
		r.d.put("/training/distributed/data", "zero"+stage, v)
	}
	if offload {
		r.d.put("/training/distributed/offload_optimizer", true, v)
		if stage == "3" {
			r.d.put("/training/distributed/offload_parameters", true, v)
		}
	}
	r.s.Replace("deepspeed", setting.Value{Origin: v.Origin})
}
