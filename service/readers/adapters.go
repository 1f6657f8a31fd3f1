package readers

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Names that programs around the Trainer give to the switches of adapters and quantization. trl 1.9 ModelConfig; peft's
// examples/sft; qlora.py; FastChat, LLaVA, Qwen and alignment-handbook.
var (
	adapterSwitches = []string{"use_peft", "use_lora", "use_peft_lora", "lora_enable", "enable_lora", "lora", "peft",
		"use_qlora", "qlora"}
	fourBit  = []string{"load_in_4bit", "use_4bit_quantization", "use_4bit", "load_4bit"}
	eightBit = []string{"load_in_8bit", "use_8bit_quantization", "use_8bit", "use_int8_training", "load_8bit",
		"use_8bit_qunatization"}
	doubleQuant = []string{"double_quant", "use_nested_quant", "use_bnb_nested_quant", "bnb_4bit_use_double_quant",
		"use_double_quant", "double_quantization"}
	loraRanks    = []string{"lora_r", "lora_rank", "lora_dim", "peft_lora_r"}
	loraDropouts = []string{"lora_dropout"}
	loraTargets  = []string{"lora_target_modules", "lora_target", "lora_modules", "target_modules"}
)

// trainerAdapters reads whether adapters are trained and of which kind. A rank alone switches nothing on, unless the
// program says so.
func (r *reading) trainerAdapters(ofTRL bool) {
	on, why := r.adapterSwitch()
	rank, hasRank := r.s.Get(loraRanks...)
	if !on {
		if hasRank && rank.Origin.Kind != setting.Default && !r.knowsSwitch() {
			r.d.askWord(rank)
		}
		r.s.Read(loraRanks...)
		r.s.Read(loraDropouts...)
		r.s.Read(loraTargets...)
		r.s.Read("lora_alpha", "lora_bias", "lora_weight_path", "lora_task_type", "lora_modules_to_save")
		r.quantizedWhole()
		return
	}
	if !hasRank && r.code != nil {
		rank, hasRank = r.fromLoraConfig()
	}
	switch {
	case hasRank:
		r.numberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	case ofTRL:
		r.d.fall("/training/lora/rank", int64(16), "lora_r", trlDefault("lora_r"))
	default:
		r.d.put("/training/lora/dropout", 0.0, why)
		r.d.ask("/training/lora/rank", "Of which rank are the adapters?", why.Origin.At.Where()+
			" trains adapters, and nothing says their rank")
	}
	if v, ok := r.s.Get(loraDropouts...); ok {
		if f, isFloat := v.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, v)
		}
	} else if ofTRL {
		r.d.fall("/training/lora/dropout", 0.05, "lora_dropout", trlDefault("lora_dropout"))
	}
	r.loraTargets()
	if v, ok := r.s.Get("use_dora"); ok && v.On() {
		r.d.put("/training/lora/dora", true, v)
	}
	if v, ok := r.s.Get("lora_modules_to_save", "modules_to_save"); ok && !v.Off() {
		r.d.put("/training/lora/modules_to_save", v.Strings(), v)
	}
	r.s.Read("lora_alpha", "lora_bias", "lora_weight_path", "lora_task_type", "use_rslora")
}

// fromLoraConfig lays what the program's own LoraConfig says of dropout and targets under the arguments, and returns
// its rank.
func (r *reading) fromLoraConfig() (rank setting.Value, ok bool) {
	call, ok := r.code.Call("LoraConfig")
	if !ok {
		return rank, false
	}
	for own, key := range map[string]string{"lora_dropout": "lora_dropout", "target_modules": "lora_target_modules",
		"modules_to_save": "lora_modules_to_save", "use_dora": "use_dora"} {
		if v, given := call.Keywords.Peek(own); given && v.Unknown == "" && !r.s.Has(key) {
			r.s.Set(key, v)
		}
	}
	return call.Keywords.Get("r")
}

// programAdapters asks about adapters and quantized weights that are not on by any argument: a program that makes them
// by itself, and a checkpoint that is stored in 4 bits, of which nothing can be trained but adapters.
func (r *reading) programAdapters() {
	if r.adapters() || len(r.d.refusals) > 0 {
		return
	}
	if name := r.d.text("/model/preset"); gptqName(name) || strings.Contains(strings.ToLower(name), "bnb-4bit") {
		r.d.ask("/training/lora", "Of which rank are the adapters?", name+" is stored quantized, so that adapters are "+
			"trained, and no argument speaks of them")
		return
	}
	if r.code == nil || r.s.Any(adapterSwitches...) || !r.code.Mentions("get_peft_model") {
		return
	}
	call, ok := r.code.Call("get_peft_model", "FastLanguageModel.get_peft_model")
	at := r.code.File
	if ok {
		at = setting.Span{File: r.code.File, Line: call.Line}.Where()
	}
	r.d.ask("/training/lora", "Does this job train adapters, and of which rank?", at+" makes them, and no argument "+
		"says whether it does here")
}

// adapterSwitch reports whether something switches adapters on; from is what does.
func (r *reading) adapterSwitch() (on bool, from setting.Value) {
	for _, key := range adapterSwitches {
		if v, ok := r.s.Get(key); ok {
			if b, isBool := v.Bool(); isBool && b {
				on, from = true, v
			}
			if v.Unknown != "" {
				r.d.askWord(v)
			}
		}
	}
	if v, ok := r.s.Get("bits"); ok && !on { // qlora.py: adapters unless --full_finetune
		full, _ := r.s.Get("full_finetune")
		if n, isInt := v.Int(); isInt && n <= 16 && !full.On() && (r.s.Has("full_finetune") || r.s.Has("lora_r") ||
			path.Base(r.program.Text) == "qlora.py") {
			on, from = n != 16 || r.s.Has("lora_r"), v
		}
	}
	if !on && strings.Contains(strings.ToLower(path.Base(r.program.Text)), "lora") &&
		(r.code == nil || r.code.Mentions("get_peft_model") || r.code.Mentions("LoraConfig")) {
		v, _ := r.s.Get(loraRanks...)
		if v.Origin.Key == "" {
			v = setting.Value{Text: r.program.Text, Origin: setting.Origin{Kind: setting.Argument,
				Key: r.program.Text, At: r.at}}
		}
		on, from = true, v
	}
	return on, from
}

// knowsSwitch reports whether the program is known to have a switch that is off: its text can be opened, or an argument
// says so.
func (r *reading) knowsSwitch() bool {
	return r.s.Any(adapterSwitches...) || r.code != nil && !r.code.Mentions("get_peft_model") &&
		!r.code.Mentions("peft_config")
}

// quantizedWhole asks about quantization without adapters: nothing of such a model can be trained.
func (r *reading) quantizedWhole() {
	for _, key := range append(append([]string(nil), fourBit...), eightBit...) {
		if v, ok := r.s.Get(key); ok && v.On() && v.Origin.Kind != setting.Default {
			r.d.askWord(v)
		}
	}
	r.s.Read(doubleQuant...)
	r.s.Read("bnb_4bit_*", "quant_type", "bits", "full_finetune", "max_memory_MB", "adam8bit")
}

func (r *reading) loraTargets() {
	v, ok := r.s.Get(loraTargets...)
	switch {
	case r.code != nil && r.code.Mentions("find_all_linear_names"):
		if !ok {
			v = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "find_all_linear_names",
				Ref: r.code.File}}
		}
		r.d.put("/training/lora/target_modules", []string{"all-linear"}, v)
	case !ok || v.Unknown != "":
	default:
		r.d.put("/training/lora/target_modules", targets(v), v)
	}
}

// targets is a list of modules; "all" is every linear layer in tools that have their own word for it.
func targets(v setting.Value) []string {
	list := v.Strings()
	if len(list) == 1 && (list[0] == "all" || list[0] == "all-linear" || list[0] == "all_linear") {
		return []string{"all-linear"}
	}
	return list
}

// adapterBase sets the type of the frozen base, once precision and sharding are known.
func (r *reading) adapterBase() {
	if !r.adapters() {
		return
	}
	const pointer = "/training/lora/base_precision"
	four, isFour := r.s.FirstOn(fourBit...)
	eight, isEight := r.s.FirstOn(eightBit...)
	if v, ok := r.s.Get("bits"); ok {
		switch n, _ := v.Int(); n {
		case 4:
			four, isFour = v, true
		case 8:
			eight, isEight = v, true
		}
	}
	if v, ok := r.s.FirstOn("q_lora", "use_qlora", "qlora"); ok && !isFour {
		four, isFour = v, true
	}
	switch {
	case isFour && r.code != nil && r.code.Mentions("GPTQConfig") || isFour && gptqName(r.d.text("/model/preset")):
		r.d.put(pointer, "gptq-int4", four)
	case isFour:
		r.fourBitBase(pointer, four)
	case isEight:
		r.d.put(pointer, "int8", eight)
	case quantizedName(r.d, pointer):
	default:
		r.wholeBase(pointer)
	}
	r.s.Read(doubleQuant...)
	r.s.Read("bnb_4bit_*", "quant_type", "full_finetune", "max_memory_MB", "q_lora", "adam8bit")
}

func (r *reading) fourBitBase(pointer string, four setting.Value) {
	if v, ok := r.s.Get("bnb_4bit_quant_type", "quant_type", "quantization_type"); ok && v.Unknown == "" &&
		v.String() != "nf4" {
		r.d.assume(pointer, "%s takes what nf4 takes", v.String())
	}
	r.d.put(pointer, "nf4", four)
	if v, ok := r.s.FirstOn(doubleQuant...); ok {
		r.d.put("/training/lora/double_quantization", true, v)
	}
}

// wholeBase is the type of a base that is not quantized: the one it is loaded in, or what DeepSpeed makes of it.
func (r *reading) wholeBase(pointer string) {
	half := strings.TrimPrefix(r.d.text("/training/precision"), "amp-")
	kind, from := r.loadedType()
	if kind != "" && from.Origin.Kind != setting.Default {
		r.d.put(pointer, kind, from)
		return
	}
	if r.ds != nil || strings.HasPrefix(r.d.text("/training/distributed/data"), "zero") ||
		r.s.Has("deepspeed") {
		r.d.derive(pointer, half, "DeepSpeed stores weights in the type that is computed in")
		return
	}
	from.Origin.Key = cmp.Or(from.Origin.Key, "dtype")
	from.Origin.Ref = cmp.Or(from.Origin.Ref, loadsIn(fromPretrained, "4.57.6").String())
	r.d.fall(pointer, cmp.Or(kind, "fp32"), from.Origin.Key, from.Origin.Ref)
	r.byUnsaid()
}

// quantizedName takes the base's type from the name of a checkpoint that is stored quantized.
func quantizedName(d *draft, pointer string) bool {
	name := strings.ToLower(d.text("/model/preset"))
	kind := ""
	switch {
	case strings.Contains(name, "bnb-4bit"):
		kind = "nf4"
	case gptqName(name):
		kind = "gptq-int4"
	default:
		return false
	}
	d.derive(pointer, kind, "the checkpoint %s is stored so", d.text("/model/preset"))
	return true
}

func gptqName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "gptq") || strings.HasSuffix(name, "-int4")
}

// trlDefault is where a default of TRL's stands.
func trlDefault(key string) string {
	d, _ := defaultOf("trl", key, "")
	return d.String()
}
