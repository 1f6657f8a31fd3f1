package answer

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// assumed reads off what the replay was told to do.
func (r Answerer) assumed(t *job.Training, run *resolved.Replayed) *result.Assumed {
	a := &result.Assumed{
		MicroBatch: r.Shape.Batch / max(r.Arch.Choices, 1), GradientAccumulation: max(t.GradientAccumulation, 1),
		Precision: cmp.Or(t.Precision, job.PrecisionAMPBF16), Optimizer: r.optimizerWords(t.Optimizer),
		GradientCheckpointing: r.checkpointed(t), Compiled: run.Recipe.Compiles(), Framework: r.Framework,
		Releases: map[string]string{},
	}
	a.Training = r.Completed(t)
	if kind := a.Training.ObjectiveKind(); kind != job.LanguageModel {
		a.Objective = kind
	}
	if r.Arch.Sees() {
		a.Images, a.ImageSize = r.Shape.Images, []int64{r.Shape.Height, r.Shape.Width}
		a.ImageTokens = r.PictureTokens
	}
	if r.Arch.FixedTokens == 0 {
		a.SequenceLength = cmp.Or(r.Sequence, r.Shape.Tokens)
	}
	if r.Recipe.Objective != nil { // packing makes one row of what the job says
		a.MicroBatch = t.MicroBatch
		a.SequenceLength = cmp.Or(t.SequenceLength, a.SequenceLength)
	}
	switch r.Recipe.Attention {
	case step.AttentionFlash:
		a.Attention = "flash"
	case step.AttentionEager:
		a.Attention = "eager"
	default:
		a.Attention = "sdpa"
	}
	if l := t.LoRA; l != nil {
		a.Adapters = "lora"
		if l.DoRA {
			a.Adapters = "dora"
		}
		if base := a.Training.LoRA.BasePrecision; base != "" {
			a.Adapters += " on " + base
		}
	}
	defaults := r.Defaults()
	for _, library := range []string{"torch", "transformers"} {
		if library == "transformers" && r.Arch.NanoGPT() {
			continue // its model is its own
		}
		a.Releases[library] = cmp.Or(r.Given[library], defaults[library])
	}
	if a.Objective != "" && r.By.RunsTRL == frameworks.Yes {
		a.Releases["trl"] = r.TRLVersion()
	}
	return a
}

// optimizerWords are the optimizer that updates, and by whom.
func (r Answerer) optimizerWords(o *job.Optimizer) string {
	if o == nil {
		o = &job.Optimizer{}
	}
	words, by := cmp.Or(o.Name, r.Optimizer.Name), o.Implementation
	for _, known := range r.Optimizer.Implementations {
		by = cmp.Or(by, known)
	}
	if by != "" {
		words += ", " + by
	}
	if o.InBackward {
		words += ", in backward"
	}
	return words
}

// checkpointed is what is recomputed; "none" where the job asks for it and the model cannot.
func (r Answerer) checkpointed(t *job.Training) string {
	c := t.GradientCheckpointing
	if c == nil {
		return "none"
	}
	mode := c.Mode
	if mode == "" && c.Every > 0 || mode == "full" {
		mode = "full"
		if r.Recipe.CheckpointEvery == 0 {
			mode = "none"
		}
	}
	if r.Recipe.CheckpointOffload {
		mode += ", offloaded"
	}
	return cmp.Or(mode, "none")
}
