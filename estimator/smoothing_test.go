package estimator

import (
	"errors"
	"testing"
)

// TestSmoothingRefused holds that what no trace has shown of label smoothing and of NEFTune is refused by name.
func TestSmoothingRefused(t *testing.T) {
	job := func(change func(*Training)) Job {
		x := Job{Model: Model{HFConfig: []byte(llamaConfig)}, Training: Training{MicroBatch: 2, SequenceLength: 64,
			Framework: "hf-trainer", LabelSmoothing: 0.1, NEFTuneNoiseAlpha: 5}}
		change(&x.Training)
		return x
	}
	if _, err := Estimate(Input{Job: job(func(*Training) {})}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Training)
		fields int
	}{
		"another trainer":   {func(x *Training) { x.Framework = "pytorch" }, 2},
		"several GPUs":      {func(x *Training) { x.Distributed = &Distributed{WorldSize: 2, Data: "ddp"} }, 2},
		"a compiled model":  {func(x *Training) { x.Compile = &Compile{Model: true} }, 2},
		"a loss of Liger's": {func(x *Training) { x.Loss = &Loss{Kind: "fused-linear"} }, 1},
		"kept logits":       {func(x *Training) { x.Evaluation = &Evaluation{KeepLogits: true} }, 1},
		"a smoothing of 2":  {func(x *Training) { x.LabelSmoothing = 2 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Estimate(Input{Job: job(c.change)})
			var bad *InvalidJobError
			if !errors.As(err, &bad) || len(bad.Fields) != c.fields {
				t.Errorf("got %v, want %d fields", err, c.fields)
			}
		})
	}
}

// What a refused model would be is asked nothing: the refusal stands alone.
func TestSmoothingOfRefusedModels(t *testing.T) {
	for _, config := range []string{`{"model_type":"llama","num_hidden_layers":0}`, `{"model_type":"none"}`} {
		_, err := Estimate(Input{Job: Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 1,
			Framework: "hf-trainer", LabelSmoothing: 0.1, NEFTuneNoiseAlpha: 5}}})
		var bad *InvalidJobError
		if !errors.As(err, &bad) || len(bad.Fields) != 1 {
			t.Errorf("%s: %v", config, err)
		}
	}
}
