package readers

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Calls that load a model which can be trained, by the ends of transformers' names of classes (4.57.6
// models/auto/modeling_auto.py: a family's class ends as the automatic one does), and unsloth's.
var (
	loadsModel = regexp.MustCompile(`(?:^|\.)(?:Fast(?:Language|Vision)?Model|\w*(?:ForCausalLM|LMHeadModel|` +
		`ForConditionalGeneration|ForSeq2SeqLM|ForSequenceClassification|ForTokenClassification|ForQuestionAnswering|` +
		`ForMaskedLM|ForMultipleChoice|ForImageClassification|ForMaskedImageModeling|` +
		`ForImageTextToText|ForVision2Seq|ForMultimodalLM))\.from_pretrained$`)
	loadsPictures = regexp.MustCompile(`(?:ForImageTextToText|ForVision2Seq|ForMultimodalLM)\.from_pretrained$`)
	// loadsAdapters is a checkpoint of adapters, which is what a training made.
	loadsAdapters = regexp.MustCompile(`Peft\w*\.from_pretrained$`)
)

// trainerCall is the call of the trainer.
func trainerCall(code *decode.Program) (decode.Call, bool) {
	return code.Call(append([]string{"SFTTrainer", "Trainer", "Seq2SeqTrainer"}, otherTrainers...)...)
}

// trainedVariable is what the trainer is given as its model, as it is written; "" where it is given none.
func trainedVariable(code *decode.Program) string {
	trainer, has := trainerCall(code)
	if !has {
		return ""
	}
	if v, given := trainer.Keywords.Peek("model"); given {
		return v.Text
	}
	if len(trainer.Position) > 0 {
		return trainer.Position[0].Text
	}
	return ""
}

// modelCall is the call that loads the trained model: of several the one whose result the trainer is given by its name,
// else the first.
func modelCall(code *decode.Program) (found decode.Call, ok bool) {
	trained := trainedVariable(code)
	var assigns *regexp.Regexp
	if trained != "" && utf8.ValidString(trained) { // what Python takes for a name is
		assigns = regexp.MustCompile(`^\s*\(?` + regexp.QuoteMeta(trained) + `\b[^=]*=[^=]`)
	}
	lines := strings.Split(string(code.Source), "\n")
	for _, c := range code.Calls {
		if !loadsModel.MatchString(c.Name) || loadsAdapters.MatchString(c.Name) {
			continue
		}
		if !ok {
			found, ok = c, true
		}
		if assigns != nil && c.Line <= len(lines) && assigns.MatchString(lines[c.Line-1]) {
			return c, true
		}
	}
	return found, ok
}

// scriptModelArguments are model_init_kwargs; a BitsAndBytesConfig of the program is read by its own call.
func (r *reading) scriptModelArguments() {
	if _, quantizes := r.code.Call("BitsAndBytesConfig"); quantizes {
		r.modelArguments("quantization_config")
		return
	}
	r.modelArguments()
}

// scriptModel reads what is trained: the name that the trainer is given, which it loads by model_init_kwargs, or the
// call that loads the model (trl 1.16.0 trainer/sft_trainer.py: model_init_kwargs of a model that is loaded already are
// ignored).
func (r *reading) scriptModel() {
	if trainer, has := trainerCall(r.code); has {
		v, given := trainer.Keywords.Get("model")
		if !given && len(trainer.Position) > 0 {
			v, given = trainer.Position[0], true
			v.Origin.Key = trainer.Name
		}
		if name, isName := v.Any.(string); given && v.Unknown == "" && isName && name != "" {
			modelOf(r.launch, r.d, v)
			r.scriptModelArguments()
			return
		}
	}
	call, ok := modelCall(r.code)
	if !ok {
		r.d.ask("/model", "Which model is trained?", r.code.File+" loads none in a way that can be read")
		r.scriptModelArguments()
		return
	}
	r.s.Read("model_init_kwargs")
	v, given := call.Keywords.Get("model_name", "pretrained_model_name_or_path")
	if !given && len(call.Position) > 0 {
		v, given = call.Position[0], true
		v.Origin.Key = call.Name
	}
	if given {
		modelOf(r.launch, r.d, v)
	} else {
		r.d.ask("/model", "Which model is trained?", setting.Span{File: r.code.File, Line: call.Line}.Where())
	}
	if call.Spread != nil {
		r.d.ask("/training/precision", "In which type is the model loaded?", call.Spread.Origin.At.Where()+": **"+
			call.Spread.Text+" cannot be followed")
	}
	r.headOf(call)
	modelsBeside(r.code, call, r.d)
	loads := loadsPictures.MatchString(call.Name) ||
		strings.HasSuffix(call.Name, "ForConditionalGeneration.from_pretrained")
	switch {
	case loads && picturesOf(r.launch, r.d) != NoPictures:
		showPictures(r.launch, r.d, call.Name[:strings.LastIndexByte(call.Name, '.')])
	case loadsPictures.MatchString(call.Name):
		r.d.uncertain("/model", "the model trains on text alone: what %s (%s) loads for pictures is not in it", call.Name,
			setting.Span{File: r.code.File, Line: call.Line}.Where())
	}
	for _, key := range []string{"torch_dtype", "dtype", "attn_implementation", "load_in_4bit", "load_in_8bit",
		"full_finetuning", "max_seq_length"} {
		if v, ok := call.Keywords.Peek(key); ok && !r.s.Has(key) && v.Given() {
			r.s.Set(key, v)
		}
	}
}

// literal is the call that configures the trainer with values of the program's own: not a class that a parser fills
// with the command line's words.
func literal(code *decode.Program) (decode.Call, bool) {
	parsed := parsedClasses(code)
	for _, c := range code.Calls {
		last := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		if slices.Contains(argumentCalls, last) && !parsed[last] {
			return c, true
		}
	}
	return decode.Call{}, false
}

// parsedClasses are the classes that HfArgumentParser or TrlParser fill: HfArgumentParser((Own, TrainingArguments)).
func parsedClasses(code *decode.Program) map[string]bool {
	classes := map[string]bool{}
	for _, c := range code.Calls {
		last := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		if last != "HfArgumentParser" && last != "TrlParser" {
			continue
		}
		values := c.Position
		for _, key := range []string{"dataclass_types", "dataclasses"} {
			if v, ok := c.Keywords.Peek(key); ok {
				values = append(values, v)
			}
		}
		for _, v := range values {
			for _, name := range className.FindAllString(v.Text, -1) {
				classes[name] = true
			}
		}
	}
	return classes
}

var className = regexp.MustCompile(`[A-Za-z_]\w*`)

// otherProgram is a program of another kind, by the trainer that it calls.
type otherProgram struct {
	reader, say string
	line        int
}

// otherTrainerClasses are trainers of other kinds, by their classes, with what to use for them.
var otherTrainerClasses = []struct{ reader, class, say string }{
	{"sentence-transformers", "SentenceTransformerTrainer", sayContrastive},
	{"sentence-transformers", "SparseEncoderTrainer", sayContrastive},
	{"sentence-transformers", "CrossEncoderTrainer", "a cross-encoder of sentence-transformers is trained, which the " +
		"readers do not turn into a job"},
}

// sayVisionLanguage is where a model with pictures can be said.
const sayVisionLanguage = ": say it in flags (vramplan estimate --objective vision-language --image-size H,W " +
	"--micro-batch N --sequence-length N --model NAME, or --hf-config FILE) or in a job document " +
	"(training.objective.kind vision-language)"

const sayContrastive = "sentence-transformers trains an encoder on pairs, which the readers do not turn into a job: " +
	"say it in flags (vramplan estimate --objective contrastive --contrastive-loss mnrl --micro-batch N " +
	"--sequence-length N --model NAME) or in a job document (training.objective.kind contrastive)"

func otherKind(code *decode.Program) (otherProgram, bool) {
	for _, o := range otherTrainerClasses {
		if c, ok := code.Call(o.class); ok {
			return otherProgram{o.reader, o.say, c.Line}, true
		}
	}
	return otherProgram{}, false
}
