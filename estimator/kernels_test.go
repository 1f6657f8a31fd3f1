package estimator

import (
	"testing"
)

// TestKernelsKeepLess: each fused kernel keeps fewer tensors than the operations whose place it takes, where the model
// has them.
func TestKernelsKeepLess(t *testing.T) {
	const llama = `{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8,
		"num_key_value_heads": 4, "vocab_size": 512}`
	const gpt2 = `{"model_type": "gpt2", "n_embd": 512, "n_layer": 4, "n_head": 8, "vocab_size": 512}`
	activations := func(config, attention string, kernels ...string) int64 {
		job := Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 8, SequenceLength: 1024,
			Precision: PrecisionAMPBF16, Attention: attention, Kernels: kernels}}
		res := mustEstimate(t, Input{Job: job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}, OwnLoop: true})
		for _, c := range res.Components {
			if c.Name == "activations" {
				return c.Bytes
			}
		}
		t.Fatal("no activations")
		return 0
	}
	const layers, rows = 4, 8 * 1024
	for _, c := range []struct {
		kernel, config, attention string
		least                     int64 // bytes saved, at least
	}{
		{"rmsnorm", llama, "sdpa", layers * 2 * rows * 512 * 2},       // half of the float32 copy of each norm's input
		{"rope", llama, "sdpa", layers * rows * 512 * 2},              // the queries before they are turned
		{"swiglu", llama, "sdpa", layers * rows * 1376 * 2},           // silu(gate)
		{"bias-gelu", gpt2, "sdpa", layers * 3 * rows * 2048 * 2},     // the formula's intermediate results
		{"softmax", llama, "eager", layers * 8 * 8 * 1024 * 1024 * 2}, // probabilities in float32
		{"layernorm", gpt2, "sdpa", 0},                                // the residual stream is float32 already
		{"bias-dropout-add", gpt2, "sdpa", 0},                         // keeps the same mask
		{"lora", llama, "sdpa", 0},                                    // there are no adapters
		{"rmsnorm", gpt2, "sdpa", 0},                                  // there is no RMSNorm
	} {
		t.Run(c.kernel, func(t *testing.T) {
			apart, fused := activations(c.config, c.attention), activations(c.config, c.attention, c.kernel)
			if apart-fused < c.least || c.least == 0 && fused != apart {
				t.Errorf("activations fall from %d to %d B, want at least %d B less", apart, fused, c.least)
			}
		})
	}
}

// TestFusedAdapters: fused adapters keep their input and what dropout left of it; unsloth fuses them on any base,
// the Trainer's plugin on quantised ones only.
func TestFusedAdapters(t *testing.T) {
	peak := func(framework, base string, kernels ...string) int64 {
		job := Job{Model: Model{HFConfig: []byte(`{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4,
			"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 512}`)},
			Training: Training{MicroBatch: 8, SequenceLength: 1024, Precision: PrecisionAMPBF16, Framework: framework,
				Kernels: kernels,
				LoRA:    &LoRA{Rank: 4, BasePrecision: base, Dropout: new(0.1), TargetModules: []string{"all-linear"}}}}
		return mustEstimate(t, Input{Job: job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}}).Peak.AllocatedBytes
	}
	for _, c := range []struct {
		framework, base string
		fuses           bool
	}{{"hf-trainer", "nf4", true}, {"hf-trainer", "bf16", false}, {"unsloth", "bf16", true}} {
		apart, fused := peak(c.framework, c.base), peak(c.framework, c.base, "lora")
		if (fused < apart) != c.fuses {
			t.Errorf("%s on %s: %d B apart, %d B fused", c.framework, c.base, apart, fused)
		}
	}
}

// TestOlderAttentionRepeats: before 4.54 transformers repeated grouped keys and values for sdpa, which then kept them.
func TestOlderAttentionRepeats(t *testing.T) {
	const config = `{"model_type": "%", "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8,
		"num_key_value_heads": 2, "vocab_size": 512}`
	peak := func(family, attention, version string) int64 {
		job := Job{Model: Model{HFConfig: replaceWindow(config, family)},
			Training: Training{MicroBatch: 8, SequenceLength: 1024,
				Precision: PrecisionBF16, Attention: attention, Versions: map[string]string{"transformers": version}}}
		return mustEstimate(t, Input{Job: job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}}).Peak.AllocatedBytes
	}
	for _, c := range []struct {
		family, attention, older, newer string
		repeats                         bool
	}{
		{"llama", "sdpa", "4.53.3", "4.54.1", true},
		{"mistral", "flash", "4.47.1", "4.48.1", true},
		{"llama", "flash", "4.47.1", "4.48.1", false},
	} {
		older, newer := peak(c.family, c.attention, c.older), peak(c.family, c.attention, c.newer)
		if (older > newer) != c.repeats {
			t.Errorf("%s with %s: %d B with %s, %d B with %s", c.family, c.attention, older, c.older, newer, c.newer)
		}
	}
}
