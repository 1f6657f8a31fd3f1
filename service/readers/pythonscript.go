package readers

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// scriptTool reads programs that configure themselves: unsloth's notebooks as scripts, and others that call
// TrainingArguments or SFTConfig with plain values.
var scriptTool = tool{name: "unsloth", starts: (*reading).scriptStarts, read: (*reading).readScript,
	words: trainerWords}

// The calls that configure the Trainer, and the trainers of other objectives.
var (
	argumentCalls = []string{"SFTConfig", "UnslothTrainingArguments", "DPOConfig", "ORPOConfig", "CPOConfig",
		"KTOConfig", "RewardConfig", "GRPOConfig", "RLOOConfig", "TrainingArguments", "Seq2SeqTrainingArguments"}
	otherTrainers = []string{"DPOTrainer", "GRPOTrainer", "ORPOTrainer", "KTOTrainer", "PPOTrainer", "RewardTrainer",
		"CPOTrainer", "GKDTrainer", "OnlineDPOTrainer", "RLOOTrainer"}
)

func (r *reading) scriptStarts() bool {
	if r.module || path.Ext(r.program.Text) != ".py" {
		return false
	}
	r.code = r.opened(r.program.Text, "")
	return r.configuresItself()
}

func (r *reading) configuresItself() bool {
	if r.code == nil {
		return false
	}
	if _, ok := otherKind(r.code); ok {
		return true
	}
	_, ok := literal(r.code)
	return ok
}

func (r *reading) readScript() {
	r.compare = r.isRunCLM
	if other, ok := otherKind(r.code); ok {
		r.d.reader = other.reader
		r.d.refuse("model-kind", setting.Span{File: r.code.File, Line: other.line}, "%s", other.say)
		return
	}
	code := r.code
	if !code.Mentions("Trainer") && !code.Mentions(".train") && code.Mentions("vllm") && code.Mentions("LLM(") {
		arguments, _ := literal(r.code)
		r.d.reader = "hf-trainer"
		r.d.refuse("trains-nothing", setting.Span{File: code.File, Line: arguments.Line}, "%s is made, and no trainer is "+
			"called: the program generates; where it starts another one that trains, read that", arguments.Name)
		return
	}
	for _, gap := range code.Gaps {
		r.strangeAt(setting.Span{File: code.File, Line: gap.Line}, "the statement", gap.Why+", and is passed over")
	}
	r.bindArguments()
	unsloth := code.Mentions("FastLanguageModel") || code.Mentions("FastModel") || code.Mentions("FastVisionModel")
	r.d.reader = "hf-trainer"
	t := trainerDefaults{framework: "hf-trainer"}
	switch {
	case unsloth:
		t.framework, r.d.reader = "unsloth", "unsloth"
	case code.Mentions("SFTTrainer"):
		t.framework, r.d.reader = "trl", "trl"
	}
	objective := r.scriptObjective(unsloth)
	if objective != "" {
		t.framework, r.d.reader = "trl", "trl"
	}
	if code.Mentions("FastVisionModel") {
		r.d.refuse("model-kind", setting.Span{File: code.File, Line: 1},
			"FastVisionModel trains a vision-language model, which is not turned into a job")
	}
	arguments, _ := literal(r.code)
	if v := arguments.Spread; v != nil {
		r.d.ask("/training", "What else is "+arguments.Name+" given?", v.Origin.At.Where()+": **"+v.Text+
			" cannot be followed")
	}
	if (strings.HasSuffix(arguments.Name, "SFTConfig") || objective != "") && !unsloth {
		t.ofTRL(r.release("trl"))
	}
	r.s = arguments.Keywords.Clone()
	r.scriptModel()
	ownSteps(r.code, r.d)
	strangeTrainers(r.code, r.d)
	r.scriptAdapters(unsloth)
	if unsloth {
		r.unslothPrecision(&t)
	} else {
		r.loads = r.loadsModelBy()
	}
	r.trainer(t)
	r.scriptLength()
	switch {
	case objective != "":
		r.d.drop("/model/head") // the objective has its own
		r.trlObjective(objective)
	case t.framework == "trl" && !shows(r.launch, r.d):
		r.trlLoss()
		r.fullRows()
	}
	if r.adapters() && !r.d.has("/training/lora/base_precision") {
		r.wholeBase("/training/lora/base_precision")
	}
	if base := r.d.text("/training/lora/base_precision"); t.framework == "trl" && !unsloth &&
		(base == "nf4" || base == "int8") && r.code.Mentions("prepare_model_for_kbit_training(") {
		// which trl's trainers did by themselves before 0.26
		r.d.derive("/training/lora/upcast_base", true, "the program calls prepare_model_for_kbit_training")
	}
	r.s.Still(trainerStill...)
	r.s.Read(trainerAccepted...)
	r.loose(trainerLoose...)
	r.s.Read("dataset_*", "packing", "assistant_only_loss", "completion_only_loss", "dataloader_*", "max_seq_length",
		"max_length", "embedding_learning_rate")
}

// scriptObjective is the kind of training of a program that runs one of trl's other trainers with arguments of its own
// class; other trainers, and several in one program, are refused by their names.
func (r *reading) scriptObjective(unsloth bool) string {
	var kinds []string
	for _, name := range otherTrainers {
		c, ok := r.code.Call(name)
		if !ok {
			continue
		}
		kind := strings.ToLower(strings.TrimSuffix(name, "Trainer"))
		if _, configured := r.code.Call(trlKinds[kind].config); !configured || unsloth {
			r.refuseObjective(kind, setting.Span{File: r.code.File, Line: c.Line})
			continue
		}
		if kinds = append(kinds, kind); len(kinds) > 1 {
			r.refuseObjective(kind, setting.Span{File: r.code.File, Line: c.Line})
		}
	}
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// scriptAdapters reads LoraConfig or unsloth's get_peft_model, and the quantization of the base.
func (r *reading) scriptAdapters(unsloth bool) {
	s := r.s
	peft, isLoRA := r.code.Call("FastLanguageModel.get_peft_model", "FastModel.get_peft_model", "LoraConfig")
	if v, ok := s.Get("full_finetuning"); ok && v.On() {
		isLoRA = false
	}
	if !isLoRA {
		r.quantizedWhole()
		return
	}
	if r.code.Conditional(peft) {
		r.d.uncertain("/training/lora", "adapters are trained: %s makes them under a condition (%s)", peft.Name,
			setting.Span{File: r.code.File, Line: peft.Line}.Where())
	}
	k := peft.Keywords
	at := setting.Value{Origin: setting.Origin{Kind: setting.File, Key: peft.Name,
		At: setting.Span{File: r.code.File, Line: peft.Line}}}
	if rank, ok := k.Get("r", "rank"); ok {
		r.numberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		ref := "peft 0.18 LoraConfig r"
		n := int64(8)
		if unsloth {
			n, ref = 16, "unsloth FastLanguageModel.get_peft_model r"
		}
		r.d.fall("/training/lora/rank", n, "r", ref)
	}
	if d, ok := k.Get("lora_dropout"); ok {
		if f, isFloat := d.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, d)
		}
	}
	if t, ok := k.Get("target_modules"); ok && t.Unknown == "" {
		r.d.put("/training/lora/target_modules", targets(t), t)
	} else if ok {
		r.d.assume("/training/lora/target_modules", "the target modules are those that peft chooses: %s", t.Unknown)
	}
	if m, ok := k.Get("modules_to_save"); ok && !m.Off() {
		r.d.put("/training/lora/modules_to_save", m.Strings(), m)
	}
	if d, ok := k.Get("use_dora"); ok && d.On() {
		r.d.put("/training/lora/dora", true, d)
	}
	if g, ok := k.Get("use_gradient_checkpointing"); ok {
		switch {
		case g.String() == "unsloth":
			r.d.put("/training/gradient_checkpointing", offloaded, g)
		case g.On():
			r.d.put("/training/gradient_checkpointing", "full", g)
		}
	} else if unsloth {
		r.d.fall("/training/gradient_checkpointing", offloaded, "use_gradient_checkpointing",
			"unsloth FastLanguageModel.get_peft_model")
	}
	r.scriptQuantized(unsloth, at)
}

// unslothPrecision is what unsloth sets where neither bf16 nor fp16 is on: the trainers of trl that it patches train
// adapters under autocast, in the half type in which it loads the model (unsloth models/rl.py,
// patch_trl_rl_trainers: args.bf16 = not float16). What it does with whole models differs from release to release.
func (r *reading) unslothPrecision(t *trainerDefaults) {
	const ref = "unsloth models/rl.py: args.bf16 = not float16, where neither is on"
	v, given := r.s.Get("dtype", "torch_dtype")
	switch kind := dtype(v.String()); {
	case !r.adapters():
		t.asksPrecision = "neither bf16 nor fp16 is on, and unsloth chooses by its release how a whole model is trained"
	case !r.code.Mentions("SFTTrainer"):
		t.asksPrecision = "neither bf16 nor fp16 is on, and unsloth chooses for the trainers of trl alone"
	case given && v.Unknown != "" || kind == "fp32":
		t.asksPrecision = "neither bf16 nor fp16 is on, and unsloth goes by the type in which the model is loaded"
	case kind == "fp16":
		t.autocast, t.autocastRef = "fp16", ref
	default:
		t.autocast, t.autocastRef = "bf16", ref
	}
}

func (r *reading) scriptQuantized(unsloth bool, at setting.Value) {
	const base = "/training/lora/base_precision"
	four, has := r.s.Get("load_in_4bit")
	eight, hasEight := r.s.Get("load_in_8bit")
	if c, ok := r.code.Call("BitsAndBytesConfig"); ok && r.code.Conditional(c) && !withTheModel(r.code, c) {
		r.s.Read("load_in_4bit", "load_in_8bit")
		r.d.ask(base, "In which type does the base lie?", setting.Span{File: r.code.File, Line: c.Line}.Where()+
			": BitsAndBytesConfig quantizes it under a condition, which is not followed")
		return
	} else if ok {
		if v, given := c.Keywords.Get("load_in_4bit"); given {
			four, has = v, true
		}
		if v, given := c.Keywords.Get("load_in_8bit"); given {
			eight, hasEight = v, true
		}
		if v, given := c.Keywords.Get("bnb_4bit_use_double_quant"); given && v.On() && has && four.On() {
			r.d.put("/training/lora/double_quantization", true, v)
		}
	}
	switch {
	case has && four.Unknown != "":
		r.d.ask(base, "Is the base quantized to 4 bits?", four.Origin.At.Where()+": "+four.Unknown)
	case has && four.On():
		r.d.put(base, "nf4", four)
	case hasEight && eight.On():
		r.d.put(base, "int8", eight)
	case unsloth && !has:
		r.d.fall(base, "nf4", "load_in_4bit", "unsloth FastLanguageModel.from_pretrained load_in_4bit")
	case quantizedName(r.d, base):
	case unsloth:
		r.d.put(base, "bf16", at)
	}
}

// scriptLength is the longest sequence: of the configuration, of the trainer or of the call that loads the model.
func (r *reading) scriptLength() {
	for _, c := range append([]string{}, append(append([]string{}, argumentCalls...), "SFTTrainer",
		"FastLanguageModel.from_pretrained", "FastModel.from_pretrained", "FastLanguageModel.get_peft_model")...) {
		call, ok := r.code.Call(c)
		if !ok {
			continue
		}
		if v, given := call.Keywords.Get("max_seq_length", "max_length"); given {
			r.numberOf("/training/sequence_length", askLength, v)
			return
		}
		if r.uncut(call.Keywords) {
			return
		}
	}
	if v, ok := r.tokenizerLength(); ok {
		r.numberOf("/training/sequence_length", askLength, v)
		return
	}
	if r.d.text("/training/framework") == "trl" {
		r.d.fall("/training/sequence_length", int64(1024), "max_length", trlDefault("max_length"))
		return
	}
	r.askLength(r.code.File + " says it in no way that can be read")
}

// tokenizerLength is max_length in a call of the tokenizer.
func (r *reading) tokenizerLength() (setting.Value, bool) {
	for _, c := range r.code.Calls {
		if !strings.Contains(c.Name, "tokenizer") {
			continue
		}
		if v, ok := c.Keywords.Peek("max_length"); ok && v.Unknown == "" && v.Given() {
			return v, true
		}
	}
	return setting.Value{}, false
}

// scriptFile recognises a program that was handed over alone.
func scriptFile(f *files, full string, text []byte) *reading {
	code, err := decode.Python(f.shown(full), text, "")
	if err != nil {
		return nil
	}
	r := &reading{launch: alone(f), file: full, code: code, d: newDraft(scriptTool.name), s: setting.New()}
	if !r.configuresItself() {
		return nil
	}
	return r
}
