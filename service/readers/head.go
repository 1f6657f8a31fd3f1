package readers

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

const headPointer = "/model/head"

// heads are the kinds of heads by the ends of transformers' names of classes (5.23.0 models/auto/modeling_auto.py).
// Those of causal and of sequence-to-sequence models are what their families have.
var heads = []struct{ end, kind string }{
	{"ForSequenceClassification", "classification"}, {"ForTokenClassification", "token-classification"},
	{"ForQuestionAnswering", "question-answering"}, {"ForMaskedLM", "masked-lm"},
	{choosesAnswers, "multiple-choice"},
	{classifiesImages, "classification"}, {"ForMaskedImageModeling", ""},
}

// classifiesImages ends the classes of models that look at one picture each, whose only sequence is its patches.
const classifiesImages = "ForImageClassification"

// choosesAnswers ends the classes that read every answer of a question as a sequence.
const choosesAnswers = "ForMultipleChoice"

// exampleHeads are the classes that transformers' example scripts load (4.57.6 examples/pytorch).
var exampleHeads = map[string]string{"run_mlm.py": "ForMaskedLM", "run_glue.py": "ForSequenceClassification",
	"run_classification.py": "ForSequenceClassification", "run_xnli.py": "ForSequenceClassification",
	"run_ner.py": "ForTokenClassification", "run_qa.py": "ForQuestionAnswering", "run_swag.py": choosesAnswers,
	"run_image_classification.py": classifiesImages, "run_mim.py": "ForMaskedImageModeling"}

// swagEndings are those of every question of run_swag.py (4.57.6 examples/pytorch/multiple-choice, ending_names).
const swagEndings = 4

// headOf reads what stands on top of the model that a call loads: AutoModelForTokenClassification, num_labels=9.
func (r *reading) headOf(call decode.Call) {
	class := strings.TrimSuffix(call.Name, ".from_pretrained")
	at := setting.Value{Text: class, Origin: setting.Origin{Kind: setting.File, Key: class,
		At: setting.Span{File: r.code.File, Line: call.Line}}}
	kind := r.headKind(class, at)
	if strings.HasSuffix(class, choosesAnswers) {
		r.d.ask(headPointer+"/choices", "How many answers has each question?", at.Origin.At.Where()+" loads "+class+
			", which reads each as a sequence")
	}
	if n, ok := call.Keywords.Get("num_labels"); ok && strings.HasSuffix(kind, "classification") {
		if labels, isInt := n.Int(); isInt && n.Unknown == "" && labels > 0 {
			r.d.put(headPointer+"/labels", labels, n)
		}
	}
}

// headKind sets the head of a class, and returns its kind; "" where the family's own stands there.
func (r *reading) headKind(class string, at setting.Value) string {
	for _, h := range heads {
		if !strings.HasSuffix(class, h.end) {
			continue
		}
		if h.kind == "" {
			r.d.refuse("model-kind", at.Origin.At, "%s is a head that is not modelled", class)
			return ""
		}
		r.d.put(headPointer+"/kind", h.kind, at)
		r.seesImages = h.end == classifiesImages
		return h.kind
	}
	return ""
}

// programHead is the head of the model that a program with a command line loads: by its text where it can be opened,
// else by its name.
func (r *reading) programHead() {
	if r.code != nil {
		if call, ok := modelCall(r.code); ok {
			r.headOf(call)
		}
		return
	}
	name := path.Base(r.program.Text)
	class, ok := exampleHeads[name]
	if !ok {
		return
	}
	at := setting.Value{Text: name, Origin: setting.Origin{Kind: setting.Argument, Key: name, At: r.at}}
	if r.headKind(class, at); class == choosesAnswers {
		r.d.put(headPointer+"/choices", swagEndings, at)
	}
}

// askLength asks how long the sequences are, unless they are pictures; why says where that was looked for. What Whisper
// hears is always half a minute, and its sequence is what was said (transformers 5.23.0 WhisperConfig
// max_source_positions 1500, max_target_positions 448).
func (r *reading) askLength(why string) {
	const pointer = "/training/sequence_length"
	switch {
	case r.seesImages:
	case strings.Contains(strings.ToLower(r.d.text("/model/preset")), "whisper"):
		r.d.ask(pointer, "How many tokens has the longest transcript of a batch (448 at most)?", why)
	default:
		r.d.ask(pointer, askLength, why)
	}
}

// dropModel removes the model, and leaves what the program puts on top of it.
func (d *draft) dropModel() {
	for p := range d.fields {
		if p == "/model" || strings.HasPrefix(p, "/model/") && !strings.HasPrefix(p, headPointer+"/") {
			delete(d.fields, p)
		}
	}
}
