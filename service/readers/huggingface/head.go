package huggingface

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// heads are the kinds of heads by the ends of transformers' names of classes (5.23.0 models/auto/modeling_auto.py).
// Those of causal and of sequence-to-sequence models are what their families have.
var heads = []struct{ end, kind string }{
	{"ForSequenceClassification", "classification"}, {"ForTokenClassification", "token-classification"},
	{"ForQuestionAnswering", "question-answering"}, {"ForMaskedLM", "masked-lm"},
	{ChoosesAnswers, "multiple-choice"},
	{ClassifiesImages, "classification"}, {"ForMaskedImageModeling", ""},
}

// ClassifiesImages ends the classes of models that look at one picture each, whose only sequence is its patches.
const ClassifiesImages = "ForImageClassification"

// ChoosesAnswers ends the classes that read every answer of a question as a sequence.
const ChoosesAnswers = "ForMultipleChoice"

// HeadOf reads what stands on top of the model that a call loads: AutoModelForTokenClassification, num_labels=9.
func (r *Job) HeadOf(call decode.Call) {
	class := strings.TrimSuffix(call.Name, ".from_pretrained")
	at := setting.Value{Text: class, Origin: setting.Origin{Kind: setting.File, Key: class,
		At: setting.Span{File: r.Code.File, Line: call.Line}}}
	kind := r.HeadKind(class, at)
	if strings.HasSuffix(class, ChoosesAnswers) {
		r.Out.Ask(draft.HeadPointer+"/choices", "How many answers has each question?", at.Origin.At.Where()+" loads "+class+
			", which reads each as a sequence")
	}
	if n, ok := call.Keywords.Get("num_labels"); ok && strings.HasSuffix(kind, "classification") {
		if labels, isInt := n.Int(); isInt && n.Unknown == "" && labels > 0 {
			r.Out.Put(draft.HeadPointer+"/labels", labels, n)
		}
	}
}

// HeadKind sets the head of a class, and returns its kind; "" where the family's own stands there.
func (r *Job) HeadKind(class string, at setting.Value) string {
	for _, h := range heads {
		if !strings.HasSuffix(class, h.end) {
			continue
		}
		if h.kind == "" {
			r.Out.Refuse("model-kind", at.Origin.At, "%s is a head that is not modelled", class)
			return ""
		}
		r.Out.Put(draft.HeadPointer+"/kind", h.kind, at)
		r.SeesImages = h.end == ClassifiesImages
		return h.kind
	}
	return ""
}

// AskLength asks how long the sequences are, unless they are pictures; why says where that was looked for. What Whisper
// hears is always half a minute, and its sequence is what was said (transformers 5.23.0 WhisperConfig
// max_source_positions 1500, max_target_positions 448).
func (r *Job) AskLength(why string) {
	const pointer = "/training/sequence_length"
	switch {
	case r.SeesImages:
	case strings.Contains(strings.ToLower(r.Out.Text("/model/preset")), "whisper"):
		r.Out.Ask(pointer, "How many tokens has the longest transcript of a batch (448 at most)?", why)
	default:
		r.Out.Ask(pointer, tool.AskLength, why)
	}
}
