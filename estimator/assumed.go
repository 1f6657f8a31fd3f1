package estimator

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step"
)

// assumed reads off what the replay was told to do.
func (r *resolved) assumed(t *Training, run *run) *Assumed {
	a := &Assumed{
		MicroBatch: r.shape.Batch / max(r.arch.Choices, 1), GradientAccumulation: max(t.GradientAccumulation, 1),
		Precision: cmp.Or(t.Precision, PrecisionAMPBF16), Optimizer: r.optimizerWords(t.Optimizer),
		GradientCheckpointing: r.checkpointed(t), Compiled: run.recipe.Compiles(), Framework: r.framework,
		Releases: map[string]string{},
	}
	if kind := t.ObjectiveKind(); kind != job.LanguageModel {
		a.Objective = kind
	}
	if r.arch.Sees() {
		a.Images, a.ImageSize = r.shape.Images, []int64{r.shape.Height, r.shape.Width}
		a.ImageTokens = r.pictureTokens
	}
	if r.arch.FixedTokens == 0 {
		a.SequenceLength = cmp.Or(r.sequence, r.shape.Tokens)
	}
	if r.recipe.Objective != nil { // packing makes one row of what the job says
		a.MicroBatch = t.MicroBatch
		a.SequenceLength = cmp.Or(t.SequenceLength, a.SequenceLength)
	}
	switch r.recipe.Attention {
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
		if l.BasePrecision != "" {
			a.Adapters += " on " + l.BasePrecision
		}
	}
	defaults := r.defaults()
	for _, library := range []string{"torch", "transformers"} {
		if library == "transformers" && r.arch.NanoGPT() {
			continue // its model is its own
		}
		a.Releases[library] = cmp.Or(r.given[library], defaults[library])
	}
	if a.Objective != "" && r.by.runsTRL == yes {
		a.Releases["trl"] = r.trlVersion()
	}
	return a
}

// optimizerWords are the optimizer that updates, and by whom.
func (r *work) optimizerWords(o *Optimizer) string {
	if o == nil {
		o = &Optimizer{}
	}
	words, by := cmp.Or(o.Name, r.optimizer.Name), o.Implementation
	for _, known := range r.optimizer.Implementations {
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
func (r *work) checkpointed(t *Training) string {
	c := t.GradientCheckpointing
	if c == nil {
		return "none"
	}
	mode := c.Mode
	if mode == "" && c.Every > 0 || mode == "full" {
		mode = "full"
		if r.recipe.CheckpointEvery == 0 {
			mode = "none"
		}
	}
	if r.recipe.CheckpointOffload {
		mode += ", offloaded"
	}
	return cmp.Or(mode, "none")
}
