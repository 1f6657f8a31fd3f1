package trainer

import (
	"path"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// exampleLengths are the defaults of transformers' example scripts (4.57.6 examples/pytorch).
var exampleLengths = map[string]struct {
	source, target int64
	ref            string
}{
	"run_clm.py": {1024, 0, "transformers 4.57.6 examples/pytorch/language-modeling/run_clm.py: " +
		"min(tokenizer, 1024)"},
	"run_glue.py": {128, 0, "transformers 4.57.6 " +
		"examples/pytorch/text-classification/run_glue.py max_seq_length"},
	"run_qa.py": {384, 0,
		"transformers 4.57.6 examples/pytorch/question-answering/run_qa.py max_seq_length"},
	"run_summarization.py": {1024, 128, "transformers 4.57.6 examples/pytorch/summarization/run_summarization.py"},
	"run_translation.py":   {1024, 128, "transformers 4.57.6 examples/pytorch/translation/run_translation.py"},
	"run_classification.py": {128, 0, "transformers 4.57.6 " +
		"examples/pytorch/text-classification/run_classification.py max_seq_length"},
	"run_xnli.py": {128, 0, "transformers 4.57.6 " +
		"examples/pytorch/text-classification/run_xnli.py max_seq_length"},
	"run_ner.py": {0, 0, ""},
	"run_mlm.py": {0, 0, ""},
}

func (r *job) length(trl bool) {
	const pointer = "/training/sequence_length"
	s, okS := r.In.Get("source_max_len")
	t, okT := r.In.Get("target_max_len")
	if a, isA := s.Int(); okS && okT && isA {
		if b, isB := t.Int(); isB { // qlora.py puts one behind the other
			r.Out.Derive(pointer, a+b, "%s %d + %s %d", s.Origin.Key, a, t.Origin.Key, b)
			return
		}
	}
	if r.Number(pointer, tool.AskLength, "max_source_length") {
		r.Number("/training/target_sequence_length", "How many tokens has the decoder?", "max_target_length")
		return
	}
	if r.Number(pointer, tool.AskLength, huggingface.LengthKeys...) {
		return
	}
	if r.Uncut(r.In) {
		return
	}
	if e, ok := exampleLengths[path.Base(r.Program.Text)]; ok && e.source > 0 {
		r.Out.Fall(pointer, e.source, "max_seq_length", e.ref)
		if e.target > 0 {
			r.Out.Fall("/training/target_sequence_length", e.target, "max_target_length", e.ref)
		}
		return
	}
	if trl {
		release := r.Release("trl")
		d, ok := defaults.Row("trl", "max_length", release)
		if !ok {
			d, _ = defaults.Row("trl", "max_seq_length", release)
		}
		if d.Value == "1024" {
			r.Out.Fall(pointer, int64(1024), d.Key, d.String())
		} else {
			r.Out.Ask(pointer, tool.AskLength, "trl "+release+" takes "+d.Means)
		}
		return
	}
	r.AskLength("no argument of the program is one for the length of a sequence")
}
