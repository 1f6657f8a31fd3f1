package estimator

import (
	"cmp"
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// inProcess is the rollout of a vLLM that runs in the trainer's own process, on its card.
const inProcess = "vllm-colocate"

// colocated is what a vLLM takes of the trainer's card: a share of all that the card has, for weights, passes and as
// much key/value cache as then is left. Asleep it has given both back. Sources: vllm/v1/worker/gpu_worker.py
// (init_device: requested_memory; determine_available_memory), vllm/device_allocator/cumem.py (sleep), 0.11;
// trl/trainer/grpo_config.py (vllm_gpu_memory_utilization), 0.26.
type colocated struct {
	share  float64
	sleeps bool
}

// defaultShare is trl's vllm_gpu_memory_utilization. Source: trl/trainer/grpo_config.py, rloo_config.py, 0.26 and 1.16.
const defaultShare = 0.3

// colocates is what the job says of a vLLM on its card; nil for none.
func colocates(o *Objective) *colocated {
	if o == nil || o.Rollout != inProcess {
		return nil
	}
	return &colocated{share: cmp.Or(o.VLLMGPUMemoryUtilization, defaultShare), sleeps: o.VLLMSleep}
}

// on is the share of a card.
func (c *colocated) on(g *GPU) int64 {
	if c == nil {
		return 0
	}
	return int64(c.share * float64(max(g.UsableBytes, 0)))
}

// Aside is what of a card is not the trainer's: what others hold, and the share of a vLLM that stays.
func (j *Job) Aside(g *GPU) int64 {
	c := colocates(j.Training.Objective)
	if c == nil || c.sleeps {
		return j.ReserveBytes
	}
	return j.ReserveBytes + c.on(g)
}

// aside is the same of a job that was replayed. A vLLM that sleeps while the model is trained is awake when the trainer
// has given back all but what outlives a step, and then takes what the two need together beyond the trainer's most.
// Source: trl/trainer/grpo_trainer.py (_generate_single_turn: empty_cache, wake_up, sleep), 0.26;
// trl/generation/vllm_generation.py, 1.16.
func (r *card) aside(run *run, job *Job, g *GPU) int64 {
	if c := r.vllm; c != nil && c.sleeps {
		return r.reserve + max(run.ledger.Steady+c.on(g)-run.figures.Reserved, 0)
	}
	return job.Aside(g)
}

// vllmFits refuses fields of a vLLM where there is none on the card.
func vllmFits(o *Objective, errs *invalid.List) {
	if o.Rollout == inProcess {
		return
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"vllm_gpu_memory_utilization", o.VLLMGPUMemoryUtilization != 0}, {"vllm_sleep", o.VLLMSleep}} {
		if f.given {
			errs.Add(objectivePointer+"/"+f.name, "conflict", "%s is of a vLLM on the trainer's card; give rollout "+
				"%s, or leave it out", f.name, inProcess)
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
		of = fmt.Sprintf("%s, %s,", in.GPUs[0].ID, Bytes(c.on(&in.GPUs[0])))
	}
	if c.sleeps {
		when = fmt.Sprintf("while it writes, beside %s that the trainer keeps then, and gives them back in training",
			Bytes(run.ledger.Steady))
	}
	notes := []Note{{Code: "vllm-share", Text: fmt.Sprintf("vLLM on the same card takes %g of %s %s "+
		"(vllm_gpu_memory_utilization); the figures are the trainer's alone, and a card is judged by what it leaves. "+
		"CUDA graphs that vLLM captures come on top and are in no figure", c.share, of, when)}}
	weights := r.arch.ParameterCount() * r.recipe.Stored.Size()
	if len(in.GPUs) > 0 && in.GPUs[0].UsableBytes > 0 && weights > c.on(&in.GPUs[0]) {
		notes = append(notes, Note{Code: "vllm-share-too-small", Text: fmt.Sprintf("vLLM keeps the model's weights "+
			"once more, %s, which its share does not hold: it will not start", Bytes(weights))})
	}
	return notes
}
