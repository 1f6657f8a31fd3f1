package estimator

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mixtures draws what the decoders with mixtures of experts read besides the usual keys, by model type, and
// returns the names of modules that LoRA can adapt.
var mixtures = map[string]func(t *rapid.T, config map[string]any) []string{
	"qwen2_moe": func(t *rapid.T, config map[string]any) []string {
		drawQwenExperts(t, config)
		config["shared_expert_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "shared_expert")
		if config["mlp_only_layers"] != nil { // there may be no layer left with a router
			return []string{"q_proj", "k_proj", "up_proj"}
		}
		return []string{"q_proj", "k_proj", "up_proj", "gate"}
	},
	"qwen3_moe": func(t *rapid.T, config map[string]any) []string {
		drawQwenExperts(t, config)
		return []string{"q_proj", "v_proj", "down_proj"}
	},
	"mixtral": func(t *rapid.T, config map[string]any) []string {
		count := rapid.Int64Range(1, 9).Draw(t, "experts")
		config["num_local_experts"], config["num_experts_per_tok"] = count, rapid.Int64Range(1, count).Draw(t, "experts_per_token")
		return []string{"q_proj", "v_proj", "o_proj", "w1", "w2"}
	},
}

// drawQwenExperts draws the keys of both mixtures of Qwen, some with ordinary MLPs between.
func drawQwenExperts(t *rapid.T, config map[string]any) {
	count := rapid.Int64Range(1, 6).Draw(t, "experts")
	config["num_experts"], config["num_experts_per_tok"] = count, rapid.Int64Range(1, count).Draw(t, "experts_per_token")
	config["moe_intermediate_size"] = rapid.Int64Range(8, 300).Draw(t, "expert_ffn")
	config["norm_topk_prob"] = rapid.Bool().Draw(t, "norm_topk_prob")
	if rapid.Bool().Draw(t, "mixed") {
		config["decoder_sparse_step"] = rapid.Int64Range(1, 3).Draw(t, "decoder_sparse_step")
		config["mlp_only_layers"] = []int64{0}
	}
}

// TestCompiledMixtureRefused: what torch.compile makes of routing that depends on the data was not traced.
func TestCompiledMixtureRefused(t *testing.T) {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type": "mixtral"}`)}, Training: Training{MicroBatch: 1, SequenceLength: 64, Compile: &Compile{Model: true}}}
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/compile") {
		t.Errorf("got %v", err)
	}
}
