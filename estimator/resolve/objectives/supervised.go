package objectives

import (
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// supervised says that trl trains the model on its own text, in a release whose SFTTrainer has no logits by default
// (loss_type chunked_nll), though the job names no objective: whoever names the framework alone, as configurations
// read do, runs that trainer. Source: trl/trainer/sft_config.py and sft_trainer.py (SFTConfig.loss_type), 1.7 and 1.16.
func (r Pursuer) supervised(t *job.Training) bool {
	return t.Framework == "trl" && t.Objective == nil && t.Loss == nil && t.HoldLogits == nil && t.LogitsDtype == "" &&
		r.Holds(chunksSFTLoss) && r.Arch.Family != "" && r.Arch.LanguageModel() && r.Arch.MatrixHead()
}

// superviseAlone is SFTTrainer itself, where the job runs it and it is modelled; nil elsewhere.
func (r Pursuer) superviseAlone(t *job.Training) step.Objective {
	if r.Compilation.Compiles() || t.Distributed != nil && t.Distributed.WorldSize > 1 ||
		r.Arch.AdaptedHead() || !r.supervised(t) {
		return nil
	}
	r.Sequences = Trainers["sft"].sequences
	return objective.SFT{Rows: r.Shape.Batch, Sequences: r.Shape.Batch, Tokens: r.Shape.Tokens, Fused: true}
}

// SuperviseElsewhere says that its loss is replayed as Liger's, where the trainer itself is not modelled: on several
// GPUs.
func (r Pursuer) SuperviseElsewhere(t *job.Training) bool {
	apart := t.Distributed != nil && t.Distributed.WorldSize > 1
	return apart && !r.Compilation.Compiles() && !r.Arch.AdaptedHead() && r.supervised(t)
}
