package estimator

import (
	"strings"
	"testing"
)

// TestWindowNeedsNoMaskInFlash: transformers gives sdpa a sliding window as a boolean mask of B × T × T, and the
// flash-attn package as a number.
func TestWindowNeedsNoMaskInFlash(t *testing.T) {
	const config = `{"model_type": "mistral", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 3,
		"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 5000, "sliding_window": %}`
	estimate := func(attention, window string) *Result {
		job := Job{Model: Model{HFConfig: replaceWindow(config, window)}, Training: Training{
			MicroBatch: 4, SequenceLength: 512, Precision: PrecisionBF16, Attention: attention}}
		return mustEstimate(t, Input{Job: job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}})
	}
	flash, sdpa, open := estimate("flash", "512"), estimate("sdpa", "512"), estimate("sdpa", "null")
	if flash.Peak.AllocatedBytes != open.Peak.AllocatedBytes {
		t.Errorf("flash with a window takes %d B, causal attention without one %d B", flash.Peak.AllocatedBytes,
			open.Peak.AllocatedBytes)
	}
	if mask := int64(4 * 512 * 512); sdpa.Peak.AllocatedBytes < flash.Peak.AllocatedBytes+mask {
		t.Errorf("sdpa with a window takes %d B, flash %d B: the mask of %d B is missing", sdpa.Peak.AllocatedBytes,
			flash.Peak.AllocatedBytes, mask)
	}
}

func replaceWindow(config, window string) []byte {
	head, tail, _ := strings.Cut(config, "%")
	return []byte(head + window + tail)
}
