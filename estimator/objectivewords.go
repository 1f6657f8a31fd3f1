package estimator

import (
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// objectiveDoubts are those about a trainer.
func (r *work) objectiveDoubts(run *run) []doubt.Doubt {
	if r.recipe.Objective == nil {
		return nil
	}
	if _, contrasts := r.recipe.Objective.(objective.Contrastive); contrasts {
		return []doubt.Doubt{doubt.Contrastive}
	}
	if _, unets := r.recipe.Objective.(objective.Noise); unets {
		return []doubt.Doubt{doubt.Diffusion, doubt.Convolution}
	}
	if o, diffuses := r.recipe.Objective.(objective.Diffusion); diffuses {
		m := &run.ledger.Peak
		if o.CachedLatents || m.Backward || m.Stage == play.StageOptimizer { // where no convolution runs
			return []doubt.Doubt{doubt.Diffusion}
		}
		return []doubt.Doubt{doubt.Diffusion, doubt.Convolution}
	}
	list := []doubt.Doubt{doubt.Objective}
	if r.arch.LoRA != nil && r.arch.LoRA.Base != step.NotQuantised {
		list = append(list, doubt.QuantisedTrainer)
	}
	if g, writes := r.recipe.Objective.(objective.GRPO); writes && g.Generates && r.recipe.Strategy != nil {
		list = append(list, doubt.DealtGeneration)
	}
	if run.ledger.Peak.Stage == play.StageGeneration {
		list = append(list, doubt.Generation)
	}
	return list
}

// objectiveNotes say what of a trainer is seldom expected.
func (r *resolved) objectiveNotes(t *Training) []Note {
	if r.recipe.Objective == nil {
		return nil
	}
	if pipelines.Diffuses(&r.arch) {
		return r.diffusionNotes(t)
	}
	notes := r.contrastiveNotes(t)
	add := func(code, format string, args ...any) {
		notes = append(notes, Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	for i := range r.beside {
		c := &r.beside[i]
		if r.dealsBeside() {
			add("model-beside", "a %s stands beside the trained model and is dealt out like it: %s over %d GPUs", c.name,
				Bytes(c.arch.ParameterCount()*c.dtype.Size()), t.Distributed.WorldSize)
			continue
		}
		if c.name != referenceName || r.together != nil {
			add("model-beside", "a %s stands on the card beside the trained model: %s", c.name,
				Bytes(c.arch.ParameterCount()*c.dtype.Size()))
			continue
		}
		add("reference-doubles-weights", "a %s stands on the card beside the trained model: %s; adapters, whose base "+
			"is the reference, or precompute_ref_log_probs save it",
			c.name, Bytes(c.arch.ParameterCount()*c.dtype.Size()))
	}
	if c := r.together; c != nil {
		add("value-model", "a %s is trained together with the policy: %s of weights, with gradients and "+
			"optimizer state "+
			"like the policy's", c.name, Bytes(c.arch.ParameterCount()*c.dtype.Size()))
	}
	kind := t.ObjectiveKind()
	fused := r.holds(fusesTRLHead)
	if fused && slices.Contains([]string{"sft", "dpo", "kto", "grpo", "rloo"}, kind) {
		add("no-logits", "trl %s computes log-probabilities without logits, tile by tile", r.trlVersion())
	}
	if kind == "dpo" && !fused && r.recipe.Autocast && r.recipe.Stored.Half() {
		add("hidden-states-copied", "DPOTrainer of trl %s asks for all hidden states, which accelerate makes "+
			"float32: %s in each pass", r.trlVersion(),
			Bytes((r.arch.Layers+1)*2*r.shape.N()*r.arch.Hidden*4))
	}
	return notes
}
