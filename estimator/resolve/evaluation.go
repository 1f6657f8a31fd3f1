package resolve

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/recordings"
)

// evaluate is training.evaluation: a pass over batches of their own between two optimizer steps.
func (r resolver) evaluate(t *job.Training, errs *invalid.List) {
	e := t.Evaluation
	if e == nil {
		return
	}
	const pointer = "/training/evaluation"
	if e.MicroBatch < 0 || e.MicroBatch > 1<<30 {
		errs.Add(pointer+"/micro_batch", "out_of_range", "micro_batch is %d; it is from 1 to %d", e.MicroBatch, 1<<30)
		return
	}
	if d := t.Distributed; r.Compilation.Compiles() && (!r.Compilation.Compile || d != nil && d.WorldSize > 1 ||
		recordings.Recording(&r.Arch) != nil) {
		errs.Add(pointer, "unsupported", "an evaluation pass together with torch.compile is modelled on one GPU, of a "+
			"whole model that is described; leave one of them out")
	}
	if e.KeepLogits && r.By.EvaluatesAsTrainer() && r.writesWords() {
		errs.Add(pointer+"/keep_logits", "unsupported", "with compute_metrics %s joins the logits of all batches of the "+
			"evaluation on the GPU, and how many there are is not in a job; over a vocabulary that may be more than "+
			"everything else. Leave the field out, and give the training prediction_loss_only, "+
			"preprocess_logits_for_metrics, or eval_accumulation_steps: 1", r.Framework)
		return
	}
	own := *e
	if own.MicroBatch == 0 {
		own.MicroBatch = t.MicroBatch
	}
	own.MicroBatch *= max(r.Arch.Choices, 1)
	r.Evaluation = &own
}

// writesWords says whether the model's logits are over a vocabulary.
func (r resolver) writesWords() bool {
	switch r.Arch.Class {
	case arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions, arch.ClassChoices, arch.ClassImage,
		arch.ClassBase:
		return false
	}
	return true
}
