package answer

import (
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/resolve/denoising"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// diffusionNotes say what of a script is seldom expected.
func (r Answerer) diffusionNotes(t *job.Training) []result.Note {
	var notes []result.Note
	s, ok := denoising.ScriptFor(t, r.Arch.Family)
	if !ok {
		return nil
	}
	if s.ReadsOnce {
		notes = append(notes, result.Note{Code: "text-encoders-stay", Text: s.Name + " keeps its text encoders on the GPU " +
			"through training, though it reads its prompt before"})
	} else if s.KeepsTexts {
		notes = append(notes, result.Note{Code: "text-encoders-stay", Text: s.Name + " keeps its text encoders on the GPU " +
			"through training, and reads the prompts in each step"})
	}
	if s.ReadsFirst {
		notes = append(notes, result.Note{Code: "text-encoders-leave", Text: s.Name + " has its text encoders on the GPU until " +
			"they have read the prompt, and lets go of them before training"})
	}
	if t.Objective.Latents == "cached" && !s.EncodesFirst {
		per := 4 * pipelines.LatentElements(&r.Arch, r.Shape.Height, r.Shape.Width) * r.Recipe.Compute.Size()
		notes = append(notes, result.Note{Code: "latents-cache-grows", Text: fmt.Sprintf("the script keeps the encoded "+
			"pictures on the GPU, %s for each picture of the data set; those of one micro-batch are in the figures",
			result.Bytes(per))})
	}
	return notes
}

// leavingWords say what is there beside the model before training alone.
func (r Answerer) leavingWords() string {
	if !r.ReadFirst {
		return ""
	}
	return ", and text encoders of " + result.Grouped(r.ReaderParameters()) + " × " + result.InBytes(r.Recipe.Compute) +
		", which read the prompt and go before training"
}

// contrastiveNotes say what of contrastive training is seldom expected.
func (r Answerer) contrastiveNotes(t *job.Training) []result.Note {
	c, ok := r.Recipe.Objective.(objective.Contrastive)
	if !ok {
		return nil
	}
	var notes []result.Note
	switch {
	case r.MicroSteps < 2 || !c.Loss.OfBatch():
	case c.Loss != objective.LossRanking && c.Loss != objective.LossSymmetric:
		notes = append(notes, result.Note{Code: "accumulation-changes-contrastive-loss",
			Text: fmt.Sprintf("a pair is compared with those of its own micro-batch alone: %d micro-steps of %d pairs are not "+
				"one batch of %d", r.MicroSteps, t.MicroBatch, r.MicroSteps*t.MicroBatch)})
	default:
		notes = append(notes, result.Note{Code: "accumulation-changes-contrastive-loss",
			Text: fmt.Sprintf("a text is told apart from those of its own micro-batch alone: %d micro-steps of %d see "+
				"%d negatives each, not those of one batch of %d; cached-mnrl with a mini_batch sees them all in "+
				"the memory of one mini-batch", r.MicroSteps, t.MicroBatch,
				t.MicroBatch*(c.Columns-1)-1, r.MicroSteps*t.MicroBatch)})
	}
	return notes
}

// objectiveNotes say what of a trainer is seldom expected.
func (r Answerer) objectiveNotes(t *job.Training) []result.Note {
	if r.Recipe.Objective == nil {
		return nil
	}
	if pipelines.Diffuses(&r.Arch) {
		return r.diffusionNotes(t)
	}
	notes := r.contrastiveNotes(t)
	add := func(code, format string, args ...any) {
		notes = append(notes, result.Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	for i := range r.Beside {
		c := &r.Beside[i]
		if r.DealsBeside() {
			add("model-beside", "a %s stands beside the trained model and is dealt out like it: %s over %d GPUs", c.Name,
				result.Bytes(c.Arch.ParameterCount()*c.Dtype.Size()), t.Distributed.WorldSize)
			continue
		}
		if c.Name != resolved.ReferenceName || r.Together != nil {
			add("model-beside", "a %s stands on the card beside the trained model: %s", c.Name,
				result.Bytes(c.Arch.ParameterCount()*c.Dtype.Size()))
			continue
		}
		add("reference-doubles-weights", "a %s stands on the card beside the trained model: %s; adapters, whose base "+
			"is the reference, or precompute_ref_log_probs save it",
			c.Name, result.Bytes(c.Arch.ParameterCount()*c.Dtype.Size()))
	}
	if c := r.Together; c != nil {
		add("value-model", "a %s is trained together with the policy: %s of weights, with gradients and "+
			"optimizer state "+
			"like the policy's", c.Name, result.Bytes(c.Arch.ParameterCount()*c.Dtype.Size()))
	}
	kind := t.ObjectiveKind()
	fused := r.Holds(resolved.FusesTRLHead)
	if fused && slices.Contains([]string{"sft", "dpo", "kto", "grpo", "rloo"}, kind) {
		add("no-logits", "trl %s computes log-probabilities without logits, tile by tile", r.TRLVersion())
	}
	if kind == "dpo" && !fused && r.Recipe.Autocast && r.Recipe.Stored.Half() {
		add("hidden-states-copied", "DPOTrainer of trl %s asks for all hidden states, which accelerate makes "+
			"float32: %s in each pass", r.TRLVersion(),
			result.Bytes((r.Arch.Layers+1)*2*r.Shape.N()*r.Arch.Hidden*4))
	}
	return notes
}

// Aside is the same of a job that was replayed. A vLLM that sleeps while the model is trained is awake when the trainer
// has given back all but what outlives a step, and then takes what the two need together beyond the trainer's most.
// Source: trl/trainer/grpo_trainer.py (_generate_single_turn: empty_cache, wake_up, sleep), 0.26;
// trl/generation/vllm_generation.py, 1.16.
func (r Answerer) Aside(run *resolved.Replayed, j *job.Job, g *job.GPU) int64 {
	if c := r.Vllm; c != nil && c.Sleeps {
		return r.Reserve + g.HeldBytes + max(run.Ledger.Steady+c.On(g)-run.Figures.Reserved, 0)
	}
	return j.Aside(g)
}

// vllmNotes say what a vLLM on the card takes.
func (r Answerer) vllmNotes(in *resolved.Input, run *resolved.Replayed) []result.Note {
	c := r.Vllm
	if c == nil {
		return nil
	}
	of, when := "the card", "throughout"
	if len(in.GPUs) > 0 && in.GPUs[0].UsableBytes > 0 {
		of = fmt.Sprintf("%s, %s,", in.GPUs[0].ID, result.Bytes(c.On(&in.GPUs[0])))
	}
	if c.Sleeps {
		when = fmt.Sprintf("while it writes, beside %s that the trainer keeps then, and gives them back in training",
			result.Bytes(run.Ledger.Steady))
	}
	notes := []result.Note{{Code: "vllm-share", Text: fmt.Sprintf("vLLM on the same card takes %g of %s %s "+
		"(vllm_gpu_memory_utilization); the figures are the trainer's alone, and a card is judged by what it leaves. "+
		"CUDA graphs that vLLM captures come on top and are in no figure", c.Share, of, when)}}
	weights := r.Arch.ParameterCount() * r.Recipe.Stored.Size()
	if len(in.GPUs) > 0 && in.GPUs[0].UsableBytes > 0 && weights > c.On(&in.GPUs[0]) {
		notes = append(notes, result.Note{Code: "vllm-share-too-small", Text: fmt.Sprintf("vLLM keeps the model's weights "+
			"once more, %s, which its share does not hold: it will not start", result.Bytes(weights))})
	}
	return notes
}
