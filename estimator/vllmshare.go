package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
)

// aside is the same of a job that was replayed. A vLLM that sleeps while the model is trained is awake when the trainer
// has given back all but what outlives a step, and then takes what the two need together beyond the trainer's most.
// Source: trl/trainer/grpo_trainer.py (_generate_single_turn: empty_cache, wake_up, sleep), 0.26;
// trl/generation/vllm_generation.py, 1.16.
func (r *card) aside(run *run, job *Job, g *GPU) int64 {
	if c := r.vllm; c != nil && c.Sleeps {
		return r.reserve + max(run.ledger.Steady+c.On(g)-run.figures.Reserved, 0)
	}
	return job.Aside(g)
}

// vllmFits refuses fields of a vLLM where there is none on the card.
func vllmFits(o *Objective, errs *invalid.List) {
	if o.Rollout == job.VLLMColocated {
		return
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"vllm_gpu_memory_utilization", o.VLLMGPUMemoryUtilization != 0}, {"vllm_sleep", o.VLLMSleep}} {
		if f.given {
			errs.Add(objectivePointer+"/"+f.name, "conflict", "%s is of a vLLM on the trainer's card; give rollout "+
				"%s, or leave it out", f.name, job.VLLMColocated)
		}
	}
}

// vllmNotes say what a vLLM on the card takes.
func (r *resolved) vllmNotes(in *Input, run *run) []Note {
	c := r.vllm
	if c == nil {
		return nil
	}
	of, when := "the card", "throughout"
	if len(in.GPUs) > 0 && in.GPUs[0].UsableBytes > 0 {
		of = fmt.Sprintf("%s, %s,", in.GPUs[0].ID, Bytes(c.On(&in.GPUs[0])))
	}
	if c.Sleeps {
		when = fmt.Sprintf("while it writes, beside %s that the trainer keeps then, and gives them back in training",
			Bytes(run.ledger.Steady))
	}
	notes := []Note{{Code: "vllm-share", Text: fmt.Sprintf("vLLM on the same card takes %g of %s %s "+
		"(vllm_gpu_memory_utilization); the figures are the trainer's alone, and a card is judged by what it leaves. "+
		"CUDA graphs that vLLM captures come on top and are in no figure", c.Share, of, when)}}
	weights := r.arch.ParameterCount() * r.recipe.Stored.Size()
	if len(in.GPUs) > 0 && in.GPUs[0].UsableBytes > 0 && weights > c.On(&in.GPUs[0]) {
		notes = append(notes, Note{Code: "vllm-share-too-small", Text: fmt.Sprintf("vLLM keeps the model's weights "+
			"once more, %s, which its share does not hold: it will not start", Bytes(weights))})
	}
	return notes
}
