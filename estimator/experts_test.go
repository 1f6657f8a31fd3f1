package estimator

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mixtures draws what the decoders with mixtures of experts read besides the usual keys, by model type, and
// returns the names of modules that LoRA can adapt.
var mixtures = map[string]func(t *rapid.T, config map[string]any) []string{
	"mixtral": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 9).Draw(t, "experts")
		config["num_local_experts"], config["num_experts_per_tok"] = count, rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		return []string{"q_proj", "v_proj", "o_proj", "w1", "w2"}
	},
}

// TestCompiledMixtureRefused: what torch.compile makes of routing that depends on the data was not traced.
func TestCompiledMixtureRefused(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "mixtral"}`)}, Training: Training{MicroBatch: 1, SequenceLength: 64, Compile: &Compile{Model: true}}}
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/compile") {
		t.Errorf("got %v", err)
	}
}
