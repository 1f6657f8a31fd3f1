package huggingface

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Names that programs around the Trainer give to the switches of adapters and quantization. trl 1.9 ModelConfig; peft's
// examples/sft; qlora.py; FastChat, LLaVA, Qwen and alignment-handbook.
var (
	AdapterSwitches = []string{"use_peft", "use_lora", "use_peft_lora", "lora_enable", "enable_lora", "lora", "peft",
		"use_qlora", "qlora"}
	FourBit  = []string{"load_in_4bit", "use_4bit_quantization", "use_4bit", "load_4bit"}
	EightBit = []string{"load_in_8bit", "use_8bit_quantization", "use_8bit", "use_int8_training", "load_8bit",
		"use_8bit_qunatization"}
	DoubleQuant = []string{"double_quant", "use_nested_quant", "use_bnb_nested_quant", "bnb_4bit_use_double_quant",
		"use_double_quant", "double_quantization"}
	LoRARanks    = []string{"lora_r", "lora_rank", "lora_dim", "peft_lora_r"}
	LoRADropouts = []string{"lora_dropout"}
	LoRATargets  = []string{"lora_target_modules", "lora_target", "lora_modules", "target_modules"}
)

// QuantizedWhole asks about quantization without adapters: nothing of such a model can be trained.
func (r *Job) QuantizedWhole() {
	for _, key := range append(append([]string(nil), FourBit...), EightBit...) {
		if v, ok := r.In.Get(key); ok && v.On() && v.Origin.Kind != setting.Default {
			r.Out.AskWord(v)
		}
	}
	r.In.Read(DoubleQuant...)
	r.In.Read("bnb_4bit_*", "quant_type", "bits", "full_finetune", "max_memory_MB", "adam8bit")
}

// WholeBase is the type of a base that is not quantized: the one it is loaded in, or what DeepSpeed makes of it.
func (r *Job) WholeBase(pointer string) {
	half := strings.TrimPrefix(r.Out.Text("/training/precision"), "amp-")
	kind, from := r.loadedType()
	if kind != "" && from.Origin.Kind != setting.Default {
		r.Out.Put(pointer, kind, from)
		return
	}
	if r.DeepSpeed != nil || strings.HasPrefix(r.Out.Text("/training/distributed/data"), "zero") ||
		r.In.Has("deepspeed") {
		r.Out.Derive(pointer, half, "DeepSpeed stores weights in the type that is computed in")
		return
	}
	from.Origin.Key = cmp.Or(from.Origin.Key, "dtype")
	from.Origin.Ref = cmp.Or(from.Origin.Ref, defaults.LoadsIn(defaults.FromPretrained, "4.57.6").String())
	r.Out.Fall(pointer, cmp.Or(kind, "fp32"), from.Origin.Key, from.Origin.Ref)
	r.byUnsaid()
}
