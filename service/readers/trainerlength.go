package readers

import (
	"path"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// lengthKeys are the names that programs give to the longest sequence, the Trainer's users' most common first.
var lengthKeys = []string{"model_max_length", "max_seq_length", "max_length", "block_size", "cutoff_len", "max_seq_len",
	"seq_length", "sequence_length", "seq_len", "max_len", "context_length"}

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

func (r *reading) trainerLength(trl bool) {
	const pointer = "/training/sequence_length"
	s, okS := r.s.Get("source_max_len")
	t, okT := r.s.Get("target_max_len")
	if a, isA := s.Int(); okS && okT && isA {
		if b, isB := t.Int(); isB { // qlora.py puts one behind the other
			r.d.derive(pointer, a+b, "%s %d + %s %d", s.Origin.Key, a, t.Origin.Key, b)
			return
		}
	}
	if r.number(pointer, askLength, "max_source_length") {
		r.number("/training/target_sequence_length", "How many tokens has the decoder?", "max_target_length")
		return
	}
	if r.number(pointer, askLength, lengthKeys...) {
		return
	}
	if r.uncut(r.s) {
		return
	}
	if e, ok := exampleLengths[path.Base(r.program.Text)]; ok && e.source > 0 {
		r.d.fall(pointer, e.source, "max_seq_length", e.ref)
		if e.target > 0 {
			r.d.fall("/training/target_sequence_length", e.target, "max_target_length", e.ref)
		}
		return
	}
	if trl {
		release := r.release("trl")
		d, ok := defaultOf("trl", "max_length", release)
		if !ok {
			d, _ = defaultOf("trl", "max_seq_length", release)
		}
		if d.Value == "1024" {
			r.d.fall(pointer, int64(1024), d.Key, d.String())
		} else {
			r.d.ask(pointer, askLength, "trl "+release+" takes "+d.Means)
		}
		return
	}
	r.askLength("no argument of the program is one for the length of a sequence")
}

// uncut asks for the length where a setting says that nothing is cut (trl 1.16.0 trainer/sft_config.py max_length:
// None).
func (r *reading) uncut(s *setting.Settings) bool {
	for _, key := range lengthKeys {
		if v, ok := s.Peek(key); ok && !v.Given() {
			r.d.ask("/training/sequence_length", askLength, v.Origin.At.Where()+": "+key+
				" is none, so that the longest sample of the data decides")
			return true
		}
	}
	return false
}
