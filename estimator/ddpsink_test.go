package estimator

import (
	"testing"
)

// TestUnusedParametersCopyOutputs holds what DistributedDataParallel's own function between the model and its loop
// takes where parameters are looked for that the model did not use: copies of the logits, in the type that accelerate
// returns.
func TestUnusedParametersCopyOutputs(t *testing.T) {
	const vocabulary, tokens = 65536, 1024
	peak := func(framework string, finds bool) int64 {
		res := mustEstimate(t, Input{Job: Job{
			Model: Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":256,"intermediate_size":512,` +
				`"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":65536}`)},
			Training: Training{Framework: framework, MicroBatch: 1, SequenceLength: tokens, Precision: PrecisionAMPBF16,
				Optimizer:   &Optimizer{Name: "adamw", Implementation: "fused"},
				Versions:    map[string]string{"torch": "2.9.1", "transformers": "4.57.6"},
				Distributed: &Distributed{WorldSize: 4, Data: "ddp", FindUnusedParameters: &finds}},
		}})
		return res.Peak.AllocatedBytes
	}
	const logits = vocabulary * tokens
	plain, finds := peak("hf-trainer", false), peak("hf-trainer", true)
	if more := finds - plain; more <= 0 || more > 4*logits {
		t.Errorf("looking for unused parameters takes %d bytes more, with logits of %d in float32", more, 4*logits)
	}
}
