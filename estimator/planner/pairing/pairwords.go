package pairing

import "fmt"

// pairWords says a pair in the settings of each tool. Where a tool wants the
// batch of all GPUs together it gets that: nanoGPT divides its accumulation
// steps by the number of processes, Megatron and others divide the global batch.
var pairWords = map[string]func(p Choice, b Batch) []string{
	"nanogpt": func(p Choice, b Batch) []string {
		return words("batch_size = ", p.MicroBatch, "gradient_accumulation_steps = ", p.GradientAccumulation*b.GPUs)
	},
	"hf-trainer": huggingFace, "trl": huggingFace, "unsloth": huggingFace, "llama-factory": huggingFace,
	"ms-swift": huggingFace,
	"accelerate": func(p Choice, _ Batch) []string {
		return words("DataLoader batch_size=", p.MicroBatch, "Accelerator gradient_accumulation_steps=",
			p.GradientAccumulation)
	},
	"diffusers": func(p Choice, _ Batch) []string {
		return words("--train_batch_size=", p.MicroBatch, "--gradient_accumulation_steps=", p.GradientAccumulation)
	},
	"pytorch": func(p Choice, _ Batch) []string {
		return words("DataLoader batch_size=", p.MicroBatch, "accumulation steps = ", p.GradientAccumulation)
	},
	"torchtune": func(p Choice, _ Batch) []string {
		return words("batch_size=", p.MicroBatch, "gradient_accumulation_steps=", p.GradientAccumulation)
	},
	"torchtitan": func(p Choice, b Batch) []string {
		global := b.Effective(p.MicroBatch, p.GradientAccumulation)
		if b.Stages > 1 { // which cut the local batch into micro-batches, all of a step's
			return append(words("training.local_batch_size = ", p.MicroBatch*p.GradientAccumulation,
				"training.global_batch_size = ", global),
				fmt.Sprint("parallelism.pipeline_parallel_microbatch_size = ", p.MicroBatch))
		}
		return words("training.local_batch_size = ", p.MicroBatch, "training.global_batch_size = ", global)
	},
	"litgpt": func(p Choice, b Batch) []string {
		return words("--train.micro_batch_size ", p.MicroBatch, "--train.global_batch_size ",
			b.Effective(p.MicroBatch, p.GradientAccumulation))
	},
	"megatron": func(p Choice, b Batch) []string {
		return words("--micro-batch-size ", p.MicroBatch, "--global-batch-size ",
			b.Effective(p.MicroBatch, p.GradientAccumulation))
	},
	"nanotron": func(p Choice, _ Batch) []string {
		return words("tokens.micro_batch_size: ", p.MicroBatch, "tokens.batch_accumulation_per_replica: ",
			p.GradientAccumulation)
	},
	"deepspeed": func(p Choice, _ Batch) []string {
		return words("train_micro_batch_size_per_gpu: ", p.MicroBatch, "gradient_accumulation_steps: ",
			p.GradientAccumulation)
	},
	"llm-foundry": func(p Choice, b Batch) []string {
		return words("device_train_microbatch_size: ", p.MicroBatch, "global_train_batch_size: ",
			b.Effective(p.MicroBatch, p.GradientAccumulation))
	},
	"xtuner": func(p Choice, _ Batch) []string {
		return words("batch_size = ", p.MicroBatch, "accumulative_counts = ", p.GradientAccumulation)
	},
	"axolotl": func(p Choice, _ Batch) []string {
		return words("micro_batch_size: ", p.MicroBatch, "gradient_accumulation_steps: ", p.GradientAccumulation)
	},
	"lightning": func(p Choice, _ Batch) []string {
		return words("DataLoader batch_size=", p.MicroBatch, "Trainer accumulate_grad_batches=", p.GradientAccumulation)
	},
}

func huggingFace(p Choice, _ Batch) []string {
	return words("per_device_train_batch_size=", p.MicroBatch, "gradient_accumulation_steps=", p.GradientAccumulation)
}

func words(micro string, m int64, accum string, a int64) []string {
	return []string{fmt.Sprint(micro, m), fmt.Sprint(accum, a)}
}

// Settings says a pair in the user's own tool's words, and in the job
// document's where the tool is not known.
func Settings(tool string, p Choice, b Batch) []string {
	if f, ok := pairWords[tool]; ok {
		return f(p, b)
	}
	return words("micro_batch = ", p.MicroBatch, "gradient_accumulation = ", p.GradientAccumulation)
}
