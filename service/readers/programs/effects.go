package programs

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	syntax "github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// followedOfLoRA are arguments of LoraConfig (peft 0.18.0 tuners/lora/config.py) and of unsloth's get_peft_model that
// are read, or that move no memory.
var followedOfLoRA = strings.Fields("r rank lora_alpha lora_dropout target_modules modules_to_save use_dora task_type " +
	"inference_mode use_rslora fan_in_fan_out base_model_name_or_path revision peft_type auto_mapping model " +
	"use_gradient_checkpointing random_state max_seq_length finetune_language_layers finetune_attention_modules " +
	"finetune_mlp_modules")

// otherAdapters are the configurations of peft 0.18.0 (peft/__init__.py) whose adapters are none of LoRA's.
var otherAdapters = strings.Fields("AdaLoraConfig AdaptionPromptConfig BOFTConfig BoneConfig C3AConfig CPTConfig " +
	"DeloraConfig FourierFTConfig GraloraConfig HRAConfig IA3Config LNTuningConfig LoHaConfig LoKrConfig MissConfig " +
	"MultitaskPromptTuningConfig OFTConfig OSFConfig PolyConfig PrefixTuningConfig PromptEncoderConfig " +
	"PromptTuningConfig RandLoraConfig RoadConfig ShiraConfig TrainableTokensConfig VBLoRAConfig VeraConfig " +
	"WaveFTConfig XLoraConfig")

// stillCallbacks are callbacks of transformers 5.23 and trl that hold nothing on the card.
var stillCallbacks = strings.Fields("EarlyStoppingCallback PrinterCallback ProgressCallback RichProgressCallback " +
	"TensorBoardCallback WandbCallback MLflowCallback CometCallback DefaultFlowCallback")

// stillAttributes are attributes of a model, or beginnings of them, that move no memory where a program trains it:
// training keeps no cache of keys and values, which use_cache would be for.
var stillAttributes = strings.Fields("config.use_cache config.pretraining_tp config.pad_token config.eos_token " +
	"config.bos_token config.decoder_start_token config.id2label config.label2id config.torch_dtype " +
	"config.architectures config.name_or_path generation_config is_parallelizable model_parallel name_or_path " +
	"warnings_issued config.keys_to_ignore config.forced_ config.suppress_tokens config.begin_suppress_tokens " +
	"config.label config.problem_type config.task_specific_params config.prefix")

// Effects asks about what a program does to the trained model, its adapters and its trainer that may move memory and
// that no field of a job says.
func (p *Program) Effects(d *draft.Draft) {
	e := &effects{Program: p, d: d, trained: p.trainedVariable(), asked: map[string]bool{}}
	for _, c := range p.Calls {
		e.call(c)
	}
	if t, ok := p.TrainerCall(); ok {
		e.trainer(t)
	}
	for _, s := range p.Sets {
		e.set(s.Name, s.Line)
	}
	e.statements()
}

type effects struct {
	*Program
	d       *draft.Draft
	trained string
	asked   map[string]bool
}

func (e *effects) ask(key string, line int) {
	if !e.asked[key] {
		e.asked[key] = true
		e.d.AskWord(setting.Value{Text: key, Origin: setting.Origin{Key: key,
			At: setting.Span{File: e.File, Line: line}}})
	}
}

// ofTrained says whether something belongs to the trained model, by the name that the trainer is given.
func (e *effects) ofTrained(name string) bool {
	return e.trained != "" && (name == e.trained || strings.HasPrefix(name, e.trained+"."))
}

func (e *effects) call(c decode.Call) {
	of := strings.TrimSuffix(strings.TrimSuffix(c.Name, c.Last()), ".")
	at := setting.Span{File: e.File, Line: c.Line}
	switch last := c.Last(); {
	case last == "resize_token_embeddings" && (e.ofTrained(of) || e.trained == ""):
		e.d.Uncertain("/model", "the embedding has as many rows as the checkpoint's: %s (%s) gives it others", c.Name,
			at.Where())
	case last == "requires_grad_" && e.ofTrained(of):
		e.ask(last, c.Line)
	case slices.Contains([]string{"half", "float", "double", "bfloat16"}, last) && e.ofTrained(of),
		last == "to" && e.ofTrained(of) && retypes(c):
		e.ask(c.Name, c.Line)
	case slices.Contains(otherAdapters, last):
		e.ask(last, c.Line)
	case last == "compile" && (c.Of == "torch.compile" || e.ofTrained(of)) && !e.Compiles(c):
		e.ask(c.Name, c.Line)
	case last == "LoraConfig" || c.Name == "FastLanguageModel.get_peft_model" || c.Name == "FastModel.get_peft_model":
		for _, key := range c.Keywords.Keys() {
			v, _ := c.Keywords.Peek(key)
			if !strings.Contains(key, ".") && !slices.Contains(followedOfLoRA, key) && !stillOfLoRA(key, v) {
				e.ask(key, v.Origin.At.Line)
			}
		}
	}
}

// stillOfLoRA says whether a value of another argument of LoraConfig leaves what it takes as it is.
func stillOfLoRA(key string, v setting.Value) bool {
	switch key {
	case "bias":
		return v.Unknown == "" && (v.Off() || v.String() == "none")
	case "init_lora_weights":
		return v.Unknown == "" && (v.Off() || v.On() || v.String() == "gaussian")
	}
	return v.Unknown == "" && v.Off()
}

// Compiles says whether a call compiles the trained model.
func (p *Program) Compiles(c decode.Call) bool {
	if c.Last() != "compile" {
		return false
	}
	trained := p.trainedVariable()
	return trained != "" && (c.Name == trained+".compile" ||
		c.Of == "torch.compile" && len(c.Position) > 0 && c.Position[0].Text == trained)
}

// retypes says whether to(…) is given a type.
func retypes(c decode.Call) bool {
	if c.Keywords.Has("dtype") {
		return true
	}
	return slices.ContainsFunc(c.Position, func(v setting.Value) bool {
		return v.Unknown == "" && strings.HasPrefix(v.String(), "torch.") && !strings.Contains(v.String(), "device")
	})
}

func (e *effects) trainer(c decode.Call) {
	for _, key := range []string{"compute_loss_func", "optimizers", "optimizer_cls_and_kwargs"} {
		v, given := c.Keywords.Peek(key)
		if given && (v.Unknown != "" || !v.Off()) && !strings.HasPrefix(strings.ReplaceAll(v.Text, " ", ""), "(None,") {
			e.ask(key, v.Origin.At.Line)
		}
	}
	v, given := c.Keywords.Peek("callbacks")
	for _, name := range className.FindAllString(v.Text, -1) {
		if given && strings.HasSuffix(name, "Callback") && slices.Contains(stillCallbacks, name) || v.Unknown == "" {
			given = false
		}
	}
	if given {
		e.d.Uncertain("/training", "what callbacks hold (%s) is not in the answer", v.Origin.At.Where())
	}
}

// set asks about an attribute that is set.
func (e *effects) set(name string, line int) {
	if root, ok := strings.CutSuffix(name, ".requires_grad"); ok {
		if of := e.goesOver(root, line); of == "" || e.trained == "" || e.ofTrained(of) {
			e.ask("requires_grad", line)
		}
		return
	}
	rest, ok := strings.CutPrefix(name, e.trained+".")
	if !ok || e.trained == "" {
		return
	}
	if !slices.ContainsFunc(stillAttributes, func(s string) bool { return strings.HasPrefix(rest, s) }) {
		e.ask(rest, line)
	}
}

// goesOver is what the loop around a line goes over whose turns a name stands for: ref in for p in ref.parameters().
// It is the name itself where there is none, and "" where that cannot be told.
func (e *effects) goesOver(name string, line int) string {
	over := name
	e.Tree().Walk(func(n *syntax.Node) bool {
		if !n.Is("For") || n.Line > line {
			return true
		}
		target := string(e.Source[n.Part("target").Start:n.Part("target").End])
		if slices.Contains(className.FindAllString(target, -1), name) {
			over = ""
			if of := n.Part("iter"); of.Is("Call") && of.Part("func").Is("Attribute") {
				of = of.Part("func").Part("value")
				over = string(e.Source[of.Start:of.End])
			}
		}
		return true
	})
	return over
}
