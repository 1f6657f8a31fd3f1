// Package script reads programs that configure a trainer themselves, unsloth's among them.
package script

import (
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// name is the reader's.
const name = "unsloth"

// Tool reads programs that configure themselves: unsloth's notebooks as scripts, and others that call
// TrainingArguments or SFTConfig with plain values.
var Tool = tool.Tool{Name: name, New: func(j *tool.Job) tool.Reader { return &job{Job: trl.Of(j)} },
	Words:   huggingface.Words,
	Still:   huggingface.StillText + huggingface.ProgramStill,
	Program: file,
}

// job is one job on its way through this tool.
type job struct {
	trl.Job
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if r.Module || path.Ext(r.Program.Text) != ".py" {
		return false
	}
	r.Code = r.Opened(r.Program.Text, "")
	return r.configuresItself()
}

func (r *job) configuresItself() bool {
	if r.Code == nil {
		return false
	}
	if _, ok := otherKind(r.Code); ok {
		return true
	}
	_, ok := r.Code.Configures()
	return ok
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Compare = r.IsRunCLM
	if other, ok := otherKind(r.Code); ok {
		r.Out.Reader = other.reader
		r.Out.Refuse("model-kind", setting.Span{File: r.Code.File, Line: other.line}, "%s", other.say)
		return
	}
	code := r.Code
	if !code.Mentions("Trainer") && !code.Mentions(".train") && code.Mentions("vllm") && code.Mentions("LLM(") {
		arguments, _ := r.Code.Configures()
		r.Out.Reader = "hf-trainer"
		r.Out.Refuse("trains-nothing", setting.Span{File: code.File, Line: arguments.Line}, "%s is made, and no trainer is "+
			"called: the program generates; where it starts another one that trains, read that", arguments.Name)
		return
	}
	for _, gap := range code.Gaps {
		r.StrangeAt(setting.Span{File: code.File, Line: gap.Line}, "the statement", gap.Why+", and is passed over")
	}
	r.follow()
	r.allocator()
	unsloth := code.Mentions("FastLanguageModel") || code.Mentions("FastModel") || code.Mentions("FastVisionModel")
	r.Out.Reader = "hf-trainer"
	t := huggingface.Defaults{Framework: "hf-trainer"}
	switch {
	case unsloth:
		t.Framework, r.Out.Reader = "unsloth", "unsloth"
	case code.Mentions("SFTTrainer"):
		t.Framework, r.Out.Reader = "trl", "trl"
	}
	objective := r.objective()
	if objective != "" {
		t.Framework, r.Out.Reader = "trl", "trl"
	}
	if code.Mentions("FastVisionModel") {
		r.Out.Refuse("model-kind", setting.Span{File: code.File, Line: 1},
			"FastVisionModel trains a vision-language model, which is not turned into a job")
	}
	arguments, ok := r.Code.Configures()
	if !ok {
		r.Out.Refuse("trains-nothing", setting.Span{File: code.File, Line: 1}, "with these arguments the program "+
			"configures no trainer: the branch that does is not taken; give the command that starts the training "+
			"(vramplan read -- python …)")
		return
	}
	if v := arguments.Spread; v != nil {
		r.Out.Ask("/training", "What else is "+arguments.Name+" given?", v.Origin.At.Where()+": **"+v.Text+
			" cannot be followed")
	}
	if (strings.HasSuffix(arguments.Name, "SFTConfig") || objective != "") && !unsloth {
		t.Table = "trl"
	}
	r.In = arguments.Keywords.Clone()
	if objective != "" {
		r.trainersOwn(objective)
	}
	r.model()
	r.Code.OwnSteps(r.Out)
	r.Code.StrangeTrainers(r.Out)
	r.Code.Effects(r.Out)
	for _, c := range r.Code.Calls {
		if r.Code.Compiles(c) && !r.In.Has("torch_compile") {
			r.In.Set("torch_compile", setting.Value{Any: true, Text: "True", Origin: setting.Origin{Kind: setting.File,
				Key: c.Name, At: setting.Span{File: r.Code.File, Line: c.Line}}})
		}
	}
	r.adapters(unsloth)
	if unsloth {
		r.Out.Assume("/training/framework", "unsloth's own loss and kernels are not modelled: those of transformers and peft "+
			"are judged, which keep more, so that it may take much less")
		r.unslothPrecision(&t)
	} else {
		r.Loads = r.LoadsModelBy()
	}
	r.ReadTrainer(t)
	r.length()
	switch {
	case objective != "":
		r.Out.Drop("/model/head") // the objective has its own
		r.Objective(objective)
		if unsloth {
			r.unslothObjective()
		}
	case t.Framework == "trl" && !models.Shows(r.Launch, r.Out):
		r.Loss()
		r.FullRows()
	}
	if r.Adapters() && !r.Out.Has("/training/lora/base_precision") {
		r.WholeBase("/training/lora/base_precision")
	}
	if base := r.Out.Text("/training/lora/base_precision"); t.Framework == "trl" && !unsloth &&
		(base == "nf4" || base == "int8") && r.Code.Mentions("prepare_model_for_kbit_training(") {
		// which trl's trainers did by themselves before 0.26
		r.Out.Derive("/training/lora/upcast_base", true, "the program calls prepare_model_for_kbit_training")
	}
	r.In.Still(huggingface.Still...)
	r.In.Read(huggingface.Accepted...)
	r.Loose(huggingface.Loose...)
	r.In.Read("dataset_*", "packing", "assistant_only_loss", "completion_only_loss", "dataloader_*", "max_seq_length",
		"max_length", "embedding_learning_rate")
}

// objective is the kind of training of a program that runs one of trl's other trainers with arguments of its own
// class; other trainers, and several in one program, are refused by their names.
func (r *job) objective() string {
	var kinds []string
	for _, name := range programs.OtherTrainers {
		c, ok := r.Code.Call(name)
		if !ok {
			continue
		}
		kind := strings.ToLower(strings.TrimSuffix(name, "Trainer"))
		_, configured := r.Code.Call(programs.Kinds[kind].Config)
		formerly := !configured && r.formerly(kind)
		if !configured && !formerly {
			r.RefuseObjective(kind, setting.Span{File: r.Code.File, Line: c.Line})
			continue
		}
		if kinds = append(kinds, kind); len(kinds) > 1 {
			r.RefuseObjective(kind, setting.Span{File: r.Code.File, Line: c.Line})
		}
	}
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

// adapters reads LoraConfig or unsloth's get_peft_model, and the quantization of the base.
func (r *job) adapters(unsloth bool) {
	s := r.In
	peft, isLoRA := r.Code.Call("FastLanguageModel.get_peft_model", "FastModel.get_peft_model", "LoraConfig")
	if v, ok := s.Get("full_finetuning"); ok && v.On() {
		isLoRA = false
	}
	if !isLoRA {
		r.QuantizedWhole()
		r.nothingTrains()
		return
	}
	if r.Code.Conditional(peft) {
		r.Out.Uncertain("/training/lora", "adapters are trained: %s makes them under a condition (%s)", peft.Name,
			setting.Span{File: r.Code.File, Line: peft.Line}.Where())
	}
	k := peft.Keywords
	at := setting.Value{Origin: setting.Origin{Kind: setting.File, Key: peft.Name,
		At: setting.Span{File: r.Code.File, Line: peft.Line}}}
	if rank, ok := k.Get("r", "rank"); ok {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		ref := "peft 0.18 LoraConfig r"
		n := int64(8)
		if unsloth {
			n, ref = 16, "unsloth FastLanguageModel.get_peft_model r"
		}
		r.Out.Fall("/training/lora/rank", n, "r", ref)
	}
	if d, ok := k.Get("lora_dropout"); ok {
		if f, isFloat := d.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, d)
		}
	}
	if t, ok := k.Get("target_modules"); ok && t.Unknown == "" {
		r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
	} else if ok {
		r.Out.Assume("/training/lora/target_modules", "the target modules are those that peft chooses: %s", t.Unknown)
	}
	if m, ok := k.Get("modules_to_save"); ok && !m.Off() {
		r.Out.Put("/training/lora/modules_to_save", m.Strings(), m)
	}
	if d, ok := k.Get("use_dora"); ok && d.On() {
		r.Out.Put("/training/lora/dora", true, d)
	}
	if g, ok := k.Get("use_gradient_checkpointing"); ok {
		switch {
		case g.String() == "unsloth":
			r.Out.Put("/training/gradient_checkpointing", draft.Offloaded, g)
		case g.On():
			r.Out.Put("/training/gradient_checkpointing", "full", g)
		}
	} else if unsloth {
		r.Out.Fall("/training/gradient_checkpointing", draft.Offloaded, "use_gradient_checkpointing",
			"unsloth FastLanguageModel.get_peft_model")
	}
	r.quantized(unsloth, at)
}

// nothingTrains asks for the adapters of a base that is loaded quantized: the Trainer stops without them
// (transformers 4.57.6 trainer.py, "You cannot perform fine-tuning on purely quantized models").
func (r *job) nothingTrains() {
	call, ok := r.Code.ModelCall()
	if !ok {
		return
	}
	v, given := call.Keywords.Peek("quantization_config")
	if !given || v.Unknown == "" && !v.Given() {
		return
	}
	if strings.Contains(v.Text, "Mxfp4Config") { // which is dequantized
		return
	}
	r.Out.Ask("/training/lora", "Of which rank are the adapters?", v.Origin.At.Where()+" loads the base quantized, and "+
		"no adapters are made that can be told: the Trainer stops without them")
}

// unslothPrecision is what unsloth sets where neither bf16 nor fp16 is on: the trainers of trl that it patches train
// adapters under autocast, in the half type in which it loads the model (unsloth models/rl.py,
// patch_trl_rl_trainers: args.bf16 = not float16). What it does with whole models differs from release to release.
func (r *job) unslothPrecision(t *huggingface.Defaults) {
	const ref = "unsloth models/rl.py: args.bf16 = not float16, where neither is on"
	v, given := r.In.Get("dtype", "torch_dtype")
	switch kind := draft.Dtype(v.String()); {
	case !r.Adapters():
		t.AsksPrecision = "neither bf16 nor fp16 is on, and unsloth chooses by its release how a whole model is trained"
	case !r.Code.Mentions("SFTTrainer") && !r.Out.Has("/training/objective") && !r.trains(programs.OtherTrainers):
		t.AsksPrecision = "neither bf16 nor fp16 is on, and unsloth chooses for the trainers of trl alone"
	case given && v.Unknown != "" || kind == "fp32":
		t.AsksPrecision = "neither bf16 nor fp16 is on, and unsloth goes by the type in which the model is loaded"
	case kind == "fp16":
		t.Autocast, t.AutocastRef = "fp16", ref
	default:
		t.Autocast, t.AutocastRef = "bf16", ref
	}
}

func (r *job) quantized(unsloth bool, at setting.Value) {
	const base = "/training/lora/base_precision"
	four, has := r.In.Get("load_in_4bit")
	eight, hasEight := r.In.Get("load_in_8bit")
	if c, ok := r.Code.Call("BitsAndBytesConfig"); ok && r.Code.Conditional(c) && !r.Code.WithTheModel(c) {
		r.In.Read("load_in_4bit", "load_in_8bit")
		r.Out.Ask(base, "In which type does the base lie?", setting.Span{File: r.Code.File, Line: c.Line}.Where()+
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
			r.Out.Put("/training/lora/double_quantization", true, v)
		}
	}
	switch {
	case has && four.Unknown != "":
		r.Out.Ask(base, "Is the base quantized to 4 bits?", four.Origin.At.Where()+": "+four.Unknown)
	case has && four.On():
		r.Out.Put(base, "nf4", four)
	case hasEight && eight.On():
		r.Out.Put(base, "int8", eight)
	case unsloth && !has:
		r.Out.Fall(base, "nf4", "load_in_4bit", "unsloth FastLanguageModel.from_pretrained load_in_4bit")
	case models.QuantizedBase(r.Out):
	case unsloth:
		r.Out.Put(base, "bf16", at)
	}
}

// length is the longest sequence: of the configuration, of the trainer or of the call that loads the model.
func (r *job) length() {
	for _, c := range slices.Concat(programs.ArgumentCalls, programs.OtherTrainers, []string{"SFTTrainer",
		"FastLanguageModel.from_pretrained", "FastModel.from_pretrained", "FastLanguageModel.get_peft_model"}) {
		call, ok := r.Code.Call(c)
		if !ok {
			continue
		}
		if v, given := call.Keywords.Get("max_seq_length", "max_length"); given {
			r.NumberOf("/training/sequence_length", tool.AskLength, v)
			return
		}
		if r.Uncut(call.Keywords) {
			return
		}
	}
	if v, ok := r.tokenizerLength(); ok {
		r.NumberOf("/training/sequence_length", tool.AskLength, v)
		return
	}
	if r.Out.Text("/training/framework") == "trl" {
		r.Out.Fall("/training/sequence_length", int64(1024), "max_length", trl.Default("max_length"))
		return
	}
	r.AskLength(r.Code.File + " says it in no way that can be read")
}

// tokenizerLength is max_length in a call of the tokenizer.
func (r *job) tokenizerLength() (setting.Value, bool) {
	for _, c := range r.Code.Calls {
		if !strings.Contains(c.Name, "tokenizer") {
			continue
		}
		if v, ok := c.Keywords.Peek("max_length"); ok && v.Unknown == "" && v.Given() {
			return v, true
		}
	}
	return setting.Value{}, false
}

// file recognises a program that was handed over alone.
func file(f *source.Files, full string, text []byte) (*tool.Job, tool.Reader) {
	code, err := programs.Read(f, full, text, "")
	if err != nil {
		return nil, nil
	}
	j := &tool.Job{Launch: launch.Alone(f), File: full, Code: code, Out: draft.New(name), In: setting.New()}
	r := &job{Job: trl.Of(j)}
	if !r.configuresItself() {
		return nil, nil
	}
	return j, r
}
