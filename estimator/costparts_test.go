package estimator

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestCostCountsPieces: a loss that is computed piece by piece, or a head tile by tile, takes its share of the bound.
func TestCostCountsPieces(t *testing.T) {
	const llama = `{"hf_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 200000,
		"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1,
		"num_key_value_heads": 1, "head_dim": 64, "tie_word_embeddings": false}}`
	const adapters = `, "lora": {"rank": 8, "target_modules": ["q_proj", "lm_head"], "dora": true}`
	for _, training := range []string{
		`"micro_batch": 64, "sequence_length": 1024, "loss": {"kind": "chunked", "chunks": 4096}`,
		`"micro_batch": 64, "sequence_length": 1024, "loss": {"kind": "chunked", "chunks": 1024}` + adapters,
		`"micro_batch": 64, "sequence_length": 1024, "loss": {"kind": "chunked", "chunk_tokens": 17}`,
		`"micro_batch": 2048, "objective": {"kind": "dpo", "prompt_tokens": 1024, "completion_tokens": 1024},
			"attention": "flash"`,
	} {
		var in Input
		document := fmt.Appendf(nil, `{"model": %s, "training": {%s}}`, llama, training)
		if err := json.Unmarshal(document, &in.Job); err != nil {
			t.Fatal(err)
		}
		took, bound := heldToBound(t, in)
		t.Logf("%s: took %+v, the bound is %+v", training, took, bound)
	}
}

// TestCostCountsRanks: of a job with several kinds of GPUs each is replayed, within the bound and within what an answer
// may take in all.
func TestCostCountsRanks(t *testing.T) {
	const llama = `{"model": {"hf_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
		"vocab_size": 2000, "hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 16,
		"num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": false}},
		"training": {"micro_batch": 1, "sequence_length": 4096, "gradient_accumulation": 16, "framework": "torchtitan",
		"precision": "bf16", "states": {"weights": "fp32"}, "distributed": {%s}}}`
	for _, distributed := range []string{
		`"data": "ddp", "world_size": 8, "pipeline_parallel": 8`,
		`"data": "fsdp", "fsdp_version": 2, "world_size": 16, "pipeline_parallel": 8`,
		`"data": "fsdp", "fsdp_version": 2, "world_size": 16, "context_parallel": 8`,
		`"data": "fsdp", "fsdp_version": 2, "world_size": 256, "context_parallel": 256`,
	} {
		var in Input
		if err := json.Unmarshal(fmt.Appendf(nil, llama, distributed), &in.Job); err != nil {
			t.Fatal(err)
		}
		took, _ := heldToBound(t, in)
		less := Input{Job: in.Job, MostRequests: took.Requests / 2}
		if _, err := Estimate(less); err == nil {
			t.Errorf("%s took %d requests, and is answered where it may take half of them", distributed, took.Requests)
		}
	}
}
