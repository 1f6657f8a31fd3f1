// Package samples has the jobs and cards that the planner's tests ask about.
package samples

import (
	"encoding/json"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

const mib = 1 << 20

// RTX4070 is the card of the founding story.
func RTX4070() estimator.GPU {
	return estimator.GPU{
		ID: "rtx-4070", Name: "GeForce RTX 4070", MemoryBytes: 12282 * mib, UsableBytes: 11994 * mib,
		ComputeCapability: 89,
		Multiprocessors:   46, PeakFLOPS: 58.3e12, FP32FLOPS: 29.15e12, BandwidthBytesPerSecond: 504e9,
		Vendor: "NVIDIA",
		Line:   estimator.Desktop,
	}
}

// Story is the founding story's job.
func Story() estimator.Input {
	return estimator.Input{
		Job: estimator.Job{
			Model: estimator.Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 12, Embedding: 768, BlockSize: 1024,
				Vocabulary: 50304}},
			Training: estimator.Training{
				MicroBatch: 16, SequenceLength: 1024, GradientAccumulation: 32, Precision: estimator.PrecisionAMPBF16,
				Optimizer: &estimator.Optimizer{Name: "adamw", Implementation: "fused"}, Attention: "sdpa",
			},
		},
		GPUs: []estimator.GPU{RTX4070()},
	}
}

// H100 is a card of a board for eight.
func H100() estimator.GPU {
	return estimator.GPU{ID: "h100-sxm5", UsableBytes: 85_029_158_912, ComputeCapability: 90, Multiprocessors: 132,
		PeakFLOPS: 989e12, BandwidthBytesPerSecond: 3.35e12, LinkBytesPerSecond: 450e9}
}

// Llama is Llama 3.1 70B with so many layers.
func Llama(layers int64) estimator.Model {
	config, err := json.Marshal(map[string]any{"model_type": "llama", "architectures": []string{"LlamaForCausalLM"},
		"hidden_size": 8192, "num_hidden_layers": layers, "num_attention_heads": 64, "num_key_value_heads": 8,
		"intermediate_size": 28672, "vocab_size": 128256, "tie_word_embeddings": false,
		"max_position_embeddings": 131072})
	if err != nil {
		panic(err)
	}
	return estimator.Model{HFConfig: config}
}

// Mixture is Qwen3 235B-A22B with so many layers.
func Mixture(layers int64) estimator.Model {
	config, err := json.Marshal(map[string]any{"model_type": "qwen3_moe",
		"architectures": []string{"Qwen3MoeForCausalLM"}, "hidden_size": 4096, "intermediate_size": 12288,
		"moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
		"num_hidden_layers": layers, "head_dim": 128, "num_attention_heads": 64, "num_key_value_heads": 4,
		"vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960})
	if err != nil {
		panic(err)
	}
	return estimator.Model{HFConfig: config}
}

// TinyLlama is the config.json of a Llama that is estimated in no time.
const TinyLlama = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":512,"intermediate_size":1376,"num_hidden_layers":4,"num_attention_heads":8,"vocab_size":32000}`

// Trained is a job of it with an objective and what else is said of its training.
func Trained(objective, more string) estimator.Input {
	var in estimator.Input
	document := fmt.Sprintf(`{"model": {"hf_config": %s}, "training": {"micro_batch": 4, "objective": %s%s}}`,
		TinyLlama, objective, more)
	if err := json.Unmarshal([]byte(document), &in.Job); err != nil {
		panic(err)
	}
	return in
}
