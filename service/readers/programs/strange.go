package programs

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// trainersModules are the modules whose trainers are read, or train as those do: trainer_qa and trainer_seq2seq_qa
// lie beside run_qa.py and evaluate otherwise (transformers 4.57.6 examples/pytorch/question-answering); those of
// tokenizers train vocabularies.
var trainersModules = []string{"transformers", "trl", "unsloth", "sentence_transformers", "tokenizers", "trainer_qa",
	"trainer_seq2seq_qa"}

// StrangeTrainers asks about trainers that a program takes from a module that no reader knows, whatever they are
// called: what such a class holds beside the trained model, and what its loss keeps, no file here says.
func (p *Program) StrangeTrainers(d *draft.Draft) {
	if p == nil {
		return
	}
	if p.strange == nil {
		p.strange = p.strangeTrainers()
	}
	for _, v := range p.strange {
		d.AskWord(v)
	}
}

func (p *Program) strangeTrainers() []setting.Value {
	found := []setting.Value{}
	for _, c := range p.Calls {
		class := c.Last()
		module, _, imported := strings.Cut(strings.TrimPrefix(c.Of, "."), ".")
		if !strings.HasSuffix(class, "Trainer") || !imported || slices.Contains(trainersModules, module) {
			continue
		}
		module = strings.TrimSuffix(c.Of, "."+class)
		found = append(found, setting.Value{Text: class + " of " + module, Origin: setting.Origin{Key: class,
			At: setting.Span{File: p.File, Line: c.Line}}})
	}
	return found
}
