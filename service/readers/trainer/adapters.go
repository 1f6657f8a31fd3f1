package trainer

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// adapters reads whether adapters are trained and of which kind. A rank alone switches nothing on, unless the
// program says so.
func (r *job) adapters(ofTRL bool) {
	on, why := r.adapterSwitch()
	rank, hasRank := r.In.Get(huggingface.LoRARanks...)
	if !on {
		if hasRank && rank.Origin.Kind != setting.Default && !r.knowsSwitch() {
			r.Out.AskWord(rank)
		}
		r.In.Read(huggingface.LoRARanks...)
		r.In.Read(huggingface.LoRADropouts...)
		r.In.Read(huggingface.LoRATargets...)
		r.In.Read("lora_alpha", "lora_bias", "lora_weight_path", "lora_task_type", "lora_modules_to_save")
		r.QuantizedWhole()
		return
	}
	if !hasRank && r.Code != nil {
		rank, hasRank = r.fromLoraConfig()
	}
	switch {
	case hasRank:
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	case ofTRL:
		r.Out.Fall("/training/lora/rank", int64(16), "lora_r", trl.Default("lora_r"))
	default:
		r.Out.Put("/training/lora/dropout", 0.0, why)
		r.Out.Ask("/training/lora/rank", "Of which rank are the adapters?", why.Origin.At.Where()+
			" trains adapters, and nothing says their rank")
	}
	if v, ok := r.In.Get(huggingface.LoRADropouts...); ok {
		if f, isFloat := v.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, v)
		}
	} else if ofTRL {
		r.Out.Fall("/training/lora/dropout", 0.05, "lora_dropout", trl.Default("lora_dropout"))
	}
	r.loraTargets()
	if v, ok := r.In.Get("use_dora"); ok && v.On() {
		r.Out.Put("/training/lora/dora", true, v)
	}
	if v, ok := r.In.Get("lora_modules_to_save", "modules_to_save"); ok && !v.Off() {
		r.Out.Put("/training/lora/modules_to_save", v.Strings(), v)
	}
	r.In.Read("lora_alpha", "lora_bias", "lora_weight_path", "lora_task_type", "use_rslora")
}

// fromLoraConfig lays what the program's own LoraConfig says of dropout and targets under the arguments, and returns
// its rank.
func (r *job) fromLoraConfig() (rank setting.Value, ok bool) {
	call, ok := r.Code.Call("LoraConfig")
	if !ok {
		return rank, false
	}
	for own, key := range map[string]string{"lora_dropout": "lora_dropout", "target_modules": "lora_target_modules",
		"modules_to_save": "lora_modules_to_save", "use_dora": "use_dora"} {
		if v, given := call.Keywords.Peek(own); given && v.Unknown == "" && !r.In.Has(key) {
			r.In.Set(key, v)
		}
	}
	return call.Keywords.Get("r")
}

// programAdapters asks about adapters and quantized weights that are not on by any argument: a program that makes them
// by itself, and a checkpoint that is stored in 4 bits, of which nothing can be trained but adapters.
func (r *job) programAdapters() {
	if r.Adapters() || len(r.Out.Refusals) > 0 {
		return
	}
	if name := r.Out.Text("/model/preset"); models.NameIsQuantized(name) {
		r.Out.Ask("/training/lora", "Of which rank are the adapters?", name+" is stored quantized, so that adapters are "+
			"trained, and no argument speaks of them")
		return
	}
	if r.Code == nil || r.In.Any(huggingface.AdapterSwitches...) || !r.Code.Mentions("get_peft_model") {
		return
	}
	call, ok := r.Code.Call("get_peft_model", "FastLanguageModel.get_peft_model")
	at := r.Code.File
	if ok {
		at = setting.Span{File: r.Code.File, Line: call.Line}.Where()
	}
	r.Out.Ask("/training/lora", "Does this job train adapters, and of which rank?", at+" makes them, and no argument "+
		"says whether it does here")
}

// adapterSwitch reports whether something switches adapters on; from is what does.
func (r *job) adapterSwitch() (on bool, from setting.Value) {
	for _, key := range huggingface.AdapterSwitches {
		if v, ok := r.In.Get(key); ok {
			if b, isBool := v.Bool(); isBool && b {
				on, from = true, v
			}
			if v.Unknown != "" {
				r.Out.AskWord(v)
			}
		}
	}
	if v, ok := r.In.Get("bits"); ok && !on { // qlora.py: adapters unless --full_finetune
		full, _ := r.In.Get("full_finetune")
		if n, isInt := v.Int(); isInt && n <= 16 && !full.On() && (r.In.Has("full_finetune") || r.In.Has("lora_r") ||
			path.Base(r.Program.Text) == "qlora.py") {
			on, from = n != 16 || r.In.Has("lora_r"), v
		}
	}
	if !on && strings.Contains(strings.ToLower(path.Base(r.Program.Text)), "lora") &&
		(r.Code == nil || r.Code.Mentions("get_peft_model") || r.Code.Mentions("LoraConfig")) {
		v, _ := r.In.Get(huggingface.LoRARanks...)
		if v.Origin.Key == "" {
			v = setting.Value{Text: r.Program.Text, Origin: setting.Origin{Kind: setting.Argument,
				Key: r.Program.Text, At: r.At}}
		}
		on, from = true, v
	}
	return on, from
}

// knowsSwitch reports whether the program is known to have a switch that is off: its text can be opened, or an argument
// says so.
func (r *job) knowsSwitch() bool {
	return r.In.Any(huggingface.AdapterSwitches...) || r.Code != nil && !r.Code.Mentions("get_peft_model") &&
		!r.Code.Mentions("peft_config")
}

func (r *job) loraTargets() {
	v, ok := r.In.Get(huggingface.LoRATargets...)
	switch {
	case r.Code != nil && r.Code.Mentions("find_all_linear_names"):
		if !ok {
			v = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "find_all_linear_names",
				Ref: r.Code.File}}
		}
		r.Out.Put("/training/lora/target_modules", []string{"all-linear"}, v)
	case !ok || v.Unknown != "":
	default:
		r.Out.Put("/training/lora/target_modules", models.Targets(v), v)
	}
}

// adapterBase sets the type of the frozen base, once precision and sharding are known.
func (r *job) adapterBase() {
	if !r.Adapters() {
		return
	}
	const pointer = "/training/lora/base_precision"
	four, isFour := r.In.FirstOn(huggingface.FourBit...)
	eight, isEight := r.In.FirstOn(huggingface.EightBit...)
	if v, ok := r.In.Get("bits"); ok {
		switch n, _ := v.Int(); n {
		case 4:
			four, isFour = v, true
		case 8:
			eight, isEight = v, true
		}
	}
	if v, ok := r.In.FirstOn("q_lora", "use_qlora", "qlora"); ok && !isFour {
		four, isFour = v, true
	}
	switch {
	case isFour && r.Code != nil && r.Code.Mentions("GPTQConfig") || isFour && models.IsGPTQ(r.Out.Text("/model/preset")):
		r.Out.Put(pointer, "gptq-int4", four)
	case isFour:
		r.fourBitBase(pointer, four)
	case isEight:
		r.Out.Put(pointer, "int8", eight)
	case models.QuantizedBase(r.Out):
	default:
		r.WholeBase(pointer)
	}
	r.In.Read(huggingface.DoubleQuant...)
	r.In.Read("bnb_4bit_*", "quant_type", "full_finetune", "max_memory_MB", "q_lora", "adam8bit")
}

func (r *job) fourBitBase(pointer string, four setting.Value) {
	if v, ok := r.In.Get("bnb_4bit_quant_type", "quant_type", "quantization_type"); ok && v.Unknown == "" &&
		v.String() != "nf4" {
		r.Out.Assume(pointer, "%s takes what nf4 takes", v.String())
	}
	r.Out.Put(pointer, "nf4", four)
	if v, ok := r.In.FirstOn(huggingface.DoubleQuant...); ok {
		r.Out.Put("/training/lora/double_quantization", true, v)
	}
}
