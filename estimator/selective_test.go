package estimator

import (
	"errors"
	"testing"
)

// TestSelectiveOps holds what keeping every second product takes between keeping all and nothing of a layer, and names
// what it does not go together with.
func TestSelectiveOps(t *testing.T) {
	job := func(mode string) Job {
		return Job{Model: Model{HFConfig: []byte(llamaConfig)}, Training: Training{MicroBatch: 8, SequenceLength: 1024,
			GradientCheckpointing: &Checkpointing{Mode: mode}}}
	}
	activations := func(mode string) int64 {
		res := mustEstimate(t, Input{Job: job(mode)})
		return component(res, "activations").Bytes
	}
	if none, ops, full := activations("none"), activations("selective-op"), activations("full"); ops >= none ||
		ops <= full {
		t.Errorf("activations take %d bytes, with selective-op %d, with full %d", none, ops, full)
	}
	for name, change := range map[string]func(*Job){
		"a compiled model": func(j *Job) { j.Training.Compile = &Compile{Model: true} },
		"a packed base":    func(j *Job) { j.Training.LoRA = &LoRA{Rank: 4, BasePrecision: "nf4"} },
		"experts":          func(j *Job) { j.Model.HFConfig = []byte(`{"model_type": "mixtral"}`) },
		"an encoder": func(j *Job) {
			j.Model.HFConfig = []byte(`{"model_type": "bert"}`)
			j.Training.SequenceLength = 64
		},
		"two stacks": func(j *Job) { j.Model.HFConfig = []byte(`{"model_type": "t5"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			j := job("selective-op")
			change(&j)
			_, err := Estimate(Input{Job: j})
			var bad *InvalidJobError
			if !errors.As(err, &bad) || bad.Fields[0].Pointer != "/training/gradient_checkpointing" {
				t.Errorf("got %v", err)
			}
		})
	}
}
