package programs

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	syntax "github.com/vramplan/vramplan/service/readers/python"
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
	known, strange := map[string]bool{}, map[string]string{}
	p.Tree().Walk(func(n *syntax.Node) bool {
		if !n.Is("ImportFrom") {
			return true
		}
		top, _, _ := strings.Cut(n.Name, ".")
		for _, alias := range n.List("names") {
			name := alias.Name
			if len(alias.Names) > 0 {
				name = alias.Names[0]
			}
			if n.Number == 0 && slices.Contains(trainersModules, top) {
				known[name] = true
			} else {
				strange[name] = n.Name
			}
		}
		return false
	})
	for _, c := range p.Calls {
		class := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		module, imported := strange[class]
		if !strings.HasSuffix(class, "Trainer") || !imported || known[class] {
			continue
		}
		found = append(found, setting.Value{Text: class + " of " + module, Origin: setting.Origin{Key: class,
			At: setting.Span{File: p.File, Line: c.Line}}})
	}
	return found
}
