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

// TestCostCountsWhatIsRepeated: what is recorded once for each picture, window, batch of completions or micro-batch of
// a pipeline takes its share of the bound, and so do towers that no batch runs.
func TestCostCountsWhatIsRepeated(t *testing.T) {
	const qwen = `{"hf_config": {"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
		"num_key_value_heads": 4, "num_hidden_layers": 2, "vision_config": {"depth": %d, "fullatt_block_indexes": [1]}}}`
	const smol = `{"hf_config": {"model_type": "smolvlm", "text_config": {"model_type": "llama", "hidden_size": 576,
		"num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536, "num_hidden_layers": 2,
		"vocab_size": 49280}, "vision_config": {"model_type": "smolvlm_vision", "hidden_size": 768,
		"num_hidden_layers": 2, "num_attention_heads": 12, "image_size": 512, "patch_size": 16}}}`
	const mistral = `{"hf_config": {"model_type": "mistral3", "text_config": {"model_type": "mistral",
		"num_hidden_layers": 2}, "vision_config": {"num_hidden_layers": 256}}}`
	const llama = `{"hf_config": {"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}}`
	const small = `{"hf_config": {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 100}}`
	pictures := func(batch, images, side int) string {
		return fmt.Sprintf(`"micro_batch": %d, "sequence_length": 4096, "precision": "bf16", "objective":
			{"kind": "vision-language", "images": %d, "image_size": [%d, %d]}`, batch, images, side, side)
	}
	for _, c := range []struct{ model, training string }{
		{fmt.Sprintf(qwen, 2), pictures(200, 1, 224)}, {fmt.Sprintf(qwen, 2), pictures(1, 50, 224)},
		{fmt.Sprintf(qwen, 10), pictures(30, 2, 448)},
		{fmt.Sprintf(qwen, 2), pictures(100, 1, 224) + `, "lora": {"rank": 8, "target_modules": "all-linear"}`},
		{smol, pictures(1000, 1, 512)}, {smol, pictures(100, 10, 512)},
		{mistral, `"micro_batch": 1, "sequence_length": 1024, "precision": "bf16",
			"lora": {"rank": 8, "target_modules": "all-linear"}`},
		{mistral, `"micro_batch": 1, "sequence_length": 1024, "precision": "bf16"`},
		{llama, `"micro_batch": 1, "sequence_length": 32, "gradient_accumulation": 1000, "framework": "torchtitan",
			"distributed": {"data": "fsdp", "world_size": 8, "tensor_parallel": 2, "pipeline_parallel": 2}`},
		{small, `"micro_batch": 1, "framework": "trl", "objective": {"kind": "grpo", "prompt_tokens": 16,
			"completion_tokens": 16, "num_generations": 2, "beta": 0.1, "steps_per_generation": 500}`},
		{small, `"micro_batch": 2, "gradient_accumulation": 500, "framework": "trl", "objective": {"kind": "grpo",
			"prompt_tokens": 16, "completion_tokens": 16, "num_generations": 2}`},
	} {
		var in Input
		document := fmt.Appendf(nil, `{"model": %s, "training": {%s}}`, c.model, c.training)
		if err := json.Unmarshal(document, &in.Job); err != nil {
			t.Fatal(err)
		}
		took, bound := heldToBound(t, in)
		t.Logf("%s: took %+v, the bound is %+v", c.training, took, bound)
	}
}
