// Package programs finds in a program in Python what it loads, makes and trains.
package programs

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/vramplan/vramplan/service/readers/decode"
)

// Calls that load a model which can be trained, by the ends of transformers' names of classes (4.57.6
// models/auto/modeling_auto.py: a family's class ends as the automatic one does), and unsloth's.
var (
	loadsModel = regexp.MustCompile(`(?:^|\.)(?:Fast(?:Language|Vision)?Model|\w*(?:ForCausalLM|LMHeadModel|` +
		`ForConditionalGeneration|ForSeq2SeqLM|ForSequenceClassification|ForTokenClassification|ForQuestionAnswering|` +
		`ForMaskedLM|ForMultipleChoice|ForImageClassification|ForMaskedImageModeling|` +
		`ForImageTextToText|ForVision2Seq|ForMultimodalLM))\.from_pretrained$`)
	LoadsPictures = regexp.MustCompile(`(?:ForImageTextToText|ForVision2Seq|ForMultimodalLM)\.from_pretrained$`)
	// loadsAdapters is a checkpoint of adapters, which is what a training made.
	loadsAdapters = regexp.MustCompile(`Peft\w*\.from_pretrained$`)
)

// TrainerCall is the call of the trainer.
func (p *Program) TrainerCall() (decode.Call, bool) {
	return p.Call(append([]string{"SFTTrainer", "Trainer", "Seq2SeqTrainer"}, OtherTrainers...)...)
}

// trainedVariable is what the trainer is given as its model, as it is written; "" where it is given none.
func (p *Program) trainedVariable() string {
	trainer, has := p.TrainerCall()
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

// ModelCall is the call that loads the trained model: of several the one whose result the trainer is given by its name,
// else the first.
func (p *Program) ModelCall() (decode.Call, bool) {
	if p.model == nil {
		call, ok := p.findModel()
		p.model = &found{call, ok}
	}
	return p.model.call, p.model.ok
}

func (p *Program) findModel() (found decode.Call, ok bool) {
	trained := p.trainedVariable()
	if trainer, has := p.TrainerCall(); has {
		for _, key := range []string{"model", "0"} {
			of := trainer.From[key]
			if of != nil && loadsModel.MatchString(of.Name) && !loadsAdapters.MatchString(of.Name) {
				return *of, true
			}
		}
	}
	var assigns *regexp.Regexp
	if trained != "" && utf8.ValidString(trained) { // what Python takes for a name is
		assigns = regexp.MustCompile(`^\s*\(?` + regexp.QuoteMeta(trained) + `\b[^=]*=[^=]`)
	}
	lines := strings.Split(string(p.Source), "\n")
	for _, c := range p.Calls {
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

// Configures is the call that configures the trainer with values of the program's own: not a class that a parser fills
// with the command line's words.
func (p *Program) Configures() (decode.Call, bool) {
	if p.configures == nil {
		call, ok := p.findConfigures()
		p.configures = &found{call, ok}
	}
	return p.configures.call, p.configures.ok
}

func (p *Program) findConfigures() (decode.Call, bool) {
	parsed := p.parsedClasses()
	for _, c := range p.Calls {
		if c.Is(ArgumentCalls...) && !parsed[c.Last()] {
			return c, true
		}
	}
	return decode.Call{}, false
}

// parsedClasses are the classes that HfArgumentParser or TrlParser fill: HfArgumentParser((Own, TrainingArguments)).
func (p *Program) parsedClasses() map[string]bool {
	classes := map[string]bool{}
	for _, c := range p.Calls {
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
