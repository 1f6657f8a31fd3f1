package trainer

import (
	"path"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// exampleHeads are the classes that transformers' example scripts load (4.57.6 examples/pytorch).
var exampleHeads = map[string]string{"run_mlm.py": "ForMaskedLM", "run_glue.py": "ForSequenceClassification",
	"run_classification.py": "ForSequenceClassification", "run_xnli.py": "ForSequenceClassification",
	"run_ner.py": "ForTokenClassification", "run_qa.py": "ForQuestionAnswering", "run_swag.py": huggingface.ChoosesAnswers,
	"run_image_classification.py": huggingface.ClassifiesImages, "run_mim.py": "ForMaskedImageModeling"}

// swagEndings are those of every question of run_swag.py (4.57.6 examples/pytorch/multiple-choice, ending_names).
const swagEndings = 4

// programHead is the head of the model that a program with a command line loads: by its text where it can be opened,
// else by its name.
func (r *job) programHead() {
	if r.Code != nil {
		if call, ok := r.Code.ModelCall(); ok {
			r.HeadOf(call)
		}
		return
	}
	name := path.Base(r.Program.Text)
	class, ok := exampleHeads[name]
	if !ok {
		return
	}
	at := setting.Value{Text: name, Origin: setting.Origin{Kind: setting.Argument, Key: name, At: r.At}}
	if r.HeadKind(class, at); class == huggingface.ChoosesAnswers {
		r.Out.Put(draft.HeadPointer+"/choices", swagEndings, at)
	}
}
