package pairing

import (
	"slices"
	"testing"
)

// Four data-parallel GPUs at 8 × 16: 512 sequences.
func TestPairInTheWordsOfEachTool(t *testing.T) {
	tests := map[string][]string{
		"nanogpt":      {"batch_size = 8", "gradient_accumulation_steps = 64"},
		"hf-trainer":   {"per_device_train_batch_size=8", "gradient_accumulation_steps=16"},
		"diffusers":    {"--train_batch_size=8", "--gradient_accumulation_steps=16"},
		"trl":          {"per_device_train_batch_size=8", "gradient_accumulation_steps=16"},
		"torchtitan":   {"training.local_batch_size = 8", "training.global_batch_size = 512"},
		"megatron":     {"--micro-batch-size 8", "--global-batch-size 512"},
		"litgpt":       {"--train.micro_batch_size 8", "--train.global_batch_size 512"},
		"deepspeed":    {"train_micro_batch_size_per_gpu: 8", "gradient_accumulation_steps: 16"},
		"llm-foundry":  {"device_train_microbatch_size: 8", "global_train_batch_size: 512"},
		"axolotl":      {"micro_batch_size: 8", "gradient_accumulation_steps: 16"},
		"lightning":    {"DataLoader batch_size=8", "Trainer accumulate_grad_batches=16"},
		"another tool": {"micro_batch = 8", "gradient_accumulation = 16"},
	}
	for tool, want := range tests {
		if got := Settings(tool, At(8, 16), Batch{Target: 512, GPUs: 4}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
	// A pipeline of torchtitan cuts its local batch into micro-batches, and runs all of them in a step.
	want := []string{"training.local_batch_size = 8", "training.global_batch_size = 16",
		"parallelism.pipeline_parallel_microbatch_size = 1"}
	if got := Settings("torchtitan", At(1, 8), Batch{Target: 16, GPUs: 2, Stages: 4}); !slices.Equal(got, want) {
		t.Errorf("torchtitan's pipeline: %q, want %q", got, want)
	}
}

// Every framework that a job may name has words for its pair.
func TestEveryFrameworkHasWords(t *testing.T) {
	for _, f := range []string{
		"pytorch", "nanogpt", "hf-trainer", "accelerate", "trl", "torchtune", "torchtitan", "litgpt", "megatron",
		"nanotron", "deepspeed",
		"llm-foundry", "unsloth", "llama-factory", "ms-swift", "xtuner", "axolotl", "lightning",
	} {
		if _, ok := pairWords[f]; !ok {
			t.Errorf("%s has no words", f)
		}
	}
}
