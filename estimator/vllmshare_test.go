package estimator

import (
	"testing"
)

// A vLLM in the trainer's process takes its share of every card: awake throughout, beside all that the trainer holds;
// asleep in training, beside what outlives a step.
func TestVLLMTakesItsShare(t *testing.T) {
	job := tracedKinds(t)["grpo-qwen0.5b-b4-g4-128+64"]
	const usable = 80 << 30
	fit := func(rollout string, share float64, sleeps bool) (GPUFit, *Result) {
		t.Helper()
		own := *job.Training.Objective
		own.Rollout, own.VLLMGPUMemoryUtilization, own.VLLMSleep = rollout, share, sleeps
		with := job
		with.Training.Objective = &own
		res, err := Estimate(Input{Job: with, GPUs: []GPU{{ID: "card", UsableBytes: usable, ComputeCapability: 80,
			Multiprocessors: 108}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.GPUs[0], res
	}
	alone, trainer := fit("vllm-server", 0, false)
	if alone.UsableBytes != usable {
		t.Errorf("beside a vLLM elsewhere %d of %d bytes are the trainer's", alone.UsableBytes, usable)
	}
	beside, res := fit("vllm-colocate", 0.5, false)
	if got := beside.UsableBytes; got != usable/2 {
		t.Errorf("beside a share of a half %d bytes are the trainer's, %d are", got, usable/2)
	}
	if res.Peak.DeviceBytes != trainer.Peak.DeviceBytes {
		t.Errorf("the trainer takes %d bytes beside vLLM and %d alone", res.Peak.DeviceBytes, trainer.Peak.DeviceBytes)
	}
	if unsaid, _ := fit("vllm-colocate", 0, false); unsaid.UsableBytes != usable-usable*3/10 {
		t.Errorf("of a share that nobody names %d bytes are left, 0.3 is trl's", unsaid.UsableBytes)
	}
	awake, _ := fit("vllm-colocate", 0.01, false)
	if asleep, _ := fit("vllm-colocate", 0.01, true); asleep.UsableBytes != usable || awake.UsableBytes == usable {
		t.Errorf("a vLLM of 0.01 of the card leaves %d bytes awake and %d asleep, though with what outlives a step it "+
			"takes less than training", awake.UsableBytes, asleep.UsableBytes)
	}
	const most = 0.97 // beside weights and moments of 5.5 GiB it does not fit when it wakes up
	if woken, _ := fit("vllm-colocate", most, true); woken.Verdict == Fits || woken.UsableBytes >= usable {
		t.Errorf("a vLLM of %.2f of the card wakes up beside the optimizer's state, and it %s with %d bytes", most,
			woken.Verdict, woken.UsableBytes)
	}
	if small, _ := fit("vllm-colocate", 0.97, false); small.Verdict != DoesNotFit {
		t.Errorf("beside 0.97 of the card the job %s", small.Verdict)
	}
}
