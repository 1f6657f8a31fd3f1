package service

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

// BenchmarkLargeModels estimates large models on one GPU and in layouts that people publish, each anew.
func BenchmarkLargeModels(b *testing.B) {
	const fsdp2 = 2
	titan := func(u *estimator.Training, d estimator.Distributed) {
		u.Framework, u.Precision, u.States = "torchtitan", "bf16", &estimator.States{Weights: "fp32"}
		d.Data, d.FSDPVersion = "fsdp", fsdp2
		u.Distributed = &d
	}
	layouts := []struct {
		name string
		set  func(*estimator.Training)
	}{
		{"one", func(*estimator.Training) {}},
		{"zero3", func(u *estimator.Training) {
			u.Distributed = &estimator.Distributed{WorldSize: 64, Data: "zero3"}
		}},
		{"fsdp2", func(u *estimator.Training) {
			u.Distributed = &estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: fsdp2}
		}},
		{"fsdp2-tp8", func(u *estimator.Training) {
			titan(u, estimator.Distributed{WorldSize: 128, TensorParallel: 8})
		}},
		{"fsdp2-tp8-pp4", func(u *estimator.Training) {
			titan(u, estimator.Distributed{WorldSize: 512, TensorParallel: 8, PipelineParallel: 4})
			u.GradientAccumulation = 8
		}},
		{"fsdp2-tp8-pp8", func(u *estimator.Training) {
			titan(u, estimator.Distributed{WorldSize: 512, TensorParallel: 8, PipelineParallel: 8})
			u.GradientAccumulation = 16
		}},
	}
	for _, model := range []string{"meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-405B",
		"mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"} {
		for _, l := range layouts {
			job := estimator.Job{Model: estimator.Model{Preset: model}, GPUs: []estimator.GPURef{{Name: "h100-sxm5"}},
				Training: estimator.Training{MicroBatch: 1, SequenceLength: 4096, Precision: "bf16",
					GradientCheckpointing: &estimator.Checkpointing{Mode: "full"}}}
			l.set(&job.Training)
			s := New(EmbeddedCatalog(), WithCache(0))
			if _, err := s.Estimate(b.Context(), job, EstimateOptions{}); err != nil {
				continue // what no framework of these does with this model
			}
			b.Run(model+"/"+l.name, func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Estimate(b.Context(), job, EstimateOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
