package estimator

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// supervised says that trl trains the model on its own text, in a release whose SFTTrainer has no logits by default
// (loss_type chunked_nll), though the job names no objective: whoever names the framework alone, as configurations
// read do, runs that trainer. Source: trl/trainer/sft_config.py and sft_trainer.py (SFTConfig.loss_type), 1.7 and 1.16.
func (r *resolved) supervised(t *Training) bool {
	return t.Framework == "trl" && t.Objective == nil && t.Loss == nil && t.HoldLogits == nil && t.LogitsDtype == "" &&
		r.holds(chunksSFTLoss) && r.arch.Family != "" && r.arch.LanguageModel() && r.arch.MatrixHead()
}

// superviseAlone is SFTTrainer itself, where the job runs it and it is modelled; nil elsewhere.
func (r *resolved) superviseAlone(t *Training) step.Objective {
	if r.compilation.Compiles() || evaluatesLogits(t) || t.Distributed != nil && t.Distributed.WorldSize > 1 ||
		r.arch.AdaptedHead() || !r.supervised(t) {
		return nil
	}
	r.sequences = trainers["sft"].sequences
	return objective.SFT{Rows: r.shape.Batch, Sequences: r.shape.Batch, Tokens: r.shape.Tokens, Fused: true}
}

// evaluatesLogits says that an evaluation keeps logits for metrics, for which SFTTrainer runs the model once more.
func evaluatesLogits(t *Training) bool { return t.Evaluation != nil && t.Evaluation.KeepLogits }

// superviseElsewhere says that its loss is replayed as Liger's, where the trainer itself is not modelled: on several
// GPUs, and where an evaluation keeps logits.
func (r *resolved) superviseElsewhere(t *Training) bool {
	apart := t.Distributed != nil && t.Distributed.WorldSize > 1 || evaluatesLogits(t)
	return apart && !r.compilation.Compiles() && !r.arch.AdaptedHead() && r.supervised(t)
}
