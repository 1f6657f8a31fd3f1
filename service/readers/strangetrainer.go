package readers

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

var (
	// fromImport is a line that takes names from a module, with brackets where it runs over several.
	fromImport   = regexp.MustCompile(`(?m)^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#]*))`)
	importedName = regexp.MustCompile(`(\w+)(?:\s+as\s+(\w+))?`)
)

// trainersModules are the modules whose trainers are read, or train as those do: trainer_qa and trainer_seq2seq_qa lie
// beside run_qa.py and evaluate otherwise (transformers 4.57.6 examples/pytorch/question-answering).
var trainersModules = []string{"transformers", "trl", "unsloth", "sentence_transformers", "trainer_qa",
	"trainer_seq2seq_qa"}

// strangeTrainers asks about trainers that a program takes from a module that no reader knows, whatever they are
// called: what such a class holds beside the trained model, and what its loss keeps, no file here says.
func (r *reading) strangeTrainers() {
	if r.code == nil {
		return
	}
	from := map[string]string{}
	for _, m := range fromImport.FindAllSubmatch(r.code.Source, -1) {
		for _, n := range importedName.FindAllStringSubmatch(string(m[2])+string(m[3]), -1) {
			from[n[1]] = string(m[1])
			if n[2] != "" {
				from[n[2]] = string(m[1])
			}
		}
	}
	for _, c := range r.code.Calls {
		class := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
		module, imported := from[class]
		if !strings.HasSuffix(class, "Trainer") || !imported {
			continue
		}
		top, _, _ := strings.Cut(module, ".")
		if slices.Contains(trainersModules, top) {
			continue
		}
		r.d.askWord(setting.Value{Text: class + " of " + module, Origin: setting.Origin{Key: class,
			At: setting.Span{File: r.code.File, Line: c.Line}}})
	}
}
