package estimator

import (
	"encoding/json"
	"testing"
)

// A doubt of so many bytes is a share of what a job takes at least, which is known before anything is played: a card
// that is judged beside another gets the verdict that it gets alone.
func TestDoubtsOfBytesAreKnownBeforeThePlay(t *testing.T) {
	delta := `{"model_type":"qwen3_5_text","hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":8,
		"num_attention_heads":8,"num_key_value_heads":2}`
	for name, c := range map[string]struct{ model, training string }{
		"kernels that are tuned": {delta, `{"micro_batch":8,"sequence_length":2048,"precision":"bf16",
			"kernels":["gated-delta-rule"]}`},
		"the same checkpointed": {delta, `{"micro_batch":8,"sequence_length":2048,"precision":"bf16",
			"gradient_checkpointing":"full","kernels":["gated-delta-rule"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			job := recipeJob(t, c.training)
			job.Model = Model{HFConfig: json.RawMessage(c.model)}
			large := GPU{ID: "h100-sxm5", UsableBytes: 80 << 30, ComputeCapability: 90, Multiprocessors: 132}
			small := GPU{ID: "rtx-4070", UsableBytes: 11994 << 20, ComputeCapability: 89, Multiprocessors: 46}
			both := mustEstimate(t, Input{Job: job, GPUs: []GPU{large, small}})
			alone := mustEstimate(t, Input{Job: job, GPUs: []GPU{small}})
			if got, want := both.GPUs[1].Verdict, alone.GPUs[0].Verdict; got != want || want != "does_not_fit" {
				t.Errorf("beside another card: %s, alone: %s; it does not fit", got, want)
			}
			if both.Peak.HighBytes < both.Peak.DeviceBytes || both.Peak.HighBytes > 3*both.Peak.DeviceBytes {
				t.Errorf("at most %d bytes, where %d are expected", both.Peak.HighBytes, both.Peak.DeviceBytes)
			}
		})
	}
}
