package job

import "cmp"

// VLLMColocated is the rollout of a vLLM that runs in the trainer's own process, on its card.
const VLLMColocated = "vllm-colocate"

// Colocated is what a vLLM takes of the trainer's card: a share of all that the card has, for weights, passes and as
// much key/value cache as then is left. Asleep it has given both back. Sources: vllm/v1/worker/gpu_worker.py
// (init_device: requested_memory; determine_available_memory), vllm/device_allocator/cumem.py (sleep), 0.11;
// trl/trainer/grpo_config.py (vllm_gpu_memory_utilization), 0.26.
type Colocated struct {
	// Share is of all that the card has.
	Share float64
	// Sleeps says that it gives its memory back while the model is trained.
	Sleeps bool
}

// defaultShare is trl's vllm_gpu_memory_utilization. Source: trl/trainer/grpo_config.py, rloo_config.py, 0.26 and 1.16.
const defaultShare = 0.3

// VLLMOf is what the job says of a vLLM on its card; nil for none.
func VLLMOf(o *Objective) *Colocated {
	if o == nil || o.Rollout != VLLMColocated {
		return nil
	}
	return &Colocated{Share: cmp.Or(o.VLLMGPUMemoryUtilization, defaultShare), Sleeps: o.VLLMSleep}
}

// On is the share of a card.
func (c *Colocated) On(g *GPU) int64 {
	if c == nil {
		return 0
	}
	return int64(c.Share * float64(max(g.UsableBytes, 0)))
}

// Aside is what of a card is not the trainer's: what others hold, and the share of a vLLM that stays.
func (j *Job) Aside(g *GPU) int64 {
	c := VLLMOf(j.Training.Objective)
	if c == nil || c.Sleeps {
		return j.HeldOn(g)
	}
	return j.HeldOn(g) + c.On(g)
}
