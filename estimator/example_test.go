package estimator_test

import (
	"errors"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// GPT-2 124M as nanoGPT trains it does not fit on a 12 GB card with micro-batches of 16.
func ExampleEstimate() {
	res, err := estimator.Estimate(estimator.Input{
		Job: estimator.Job{
			Model: estimator.Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 12, Embedding: 768, BlockSize: 1024,
				Vocabulary: 50304}},
			Training: estimator.Training{MicroBatch: 16, GradientAccumulation: 32,
				Precision: estimator.PrecisionAMPBF16,
				Optimizer: &estimator.Optimizer{Name: "adamw", Implementation: "fused"}},
		},
		GPUs: []estimator.GPU{{ID: "rtx-4070", UsableBytes: 11994 << 20, ComputeCapability: 89, Multiprocessors: 46}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.GPUs[0].Verdict, "in", res.Peak.Where)
	for _, c := range res.Components {
		if c.Share > 0.2 {
			fmt.Println(c.Name, estimator.Bytes(c.Bytes))
		}
	}
	// Output:
	// does_not_fit in loss backward
	// activations 5.15 GiB
	// logits_and_loss 9.21 GiB
}

// A Hugging Face config.json is taken as it is.
func ExampleEstimate_huggingFace() {
	res, err := estimator.Estimate(estimator.Input{Job: estimator.Job{
		Model: estimator.Model{HFConfig: []byte(`{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
			"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}`)},
		Training: estimator.Training{MicroBatch: 1, SequenceLength: 2048, Precision: estimator.PrecisionBF16},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Model.Parameters, "parameters,", estimator.Bytes(res.Peak.AllocatedBytes), "allocated")
	// Output:
	// 494032768 parameters, 8.96 GiB allocated
}

// Everything that is wrong is said at once.
func ExampleEstimate_invalid() {
	_, err := estimator.Estimate(estimator.Input{Job: estimator.Job{
		Model:    estimator.Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 5, Embedding: 768}},
		Training: estimator.Training{MicroBatch: -1},
	}})
	var wrong *invalid.Error
	if errors.As(err, &wrong) {
		for _, f := range wrong.Fields {
			fmt.Printf("%s: %s\n", f.Pointer, f.Detail)
		}
	}
	// Output:
	// /model/nanogpt/n_head: n_head 5 does not divide n_embd 768
	// /training/micro_batch: micro_batch is -1; it is a whole number from 1 to 1073741824
}
