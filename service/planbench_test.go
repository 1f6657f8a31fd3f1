package service

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// BenchmarkPlanOfManyExperts plans a model of 256 experts in each of 58 layers: what takes longest of the built-in
// ones.
func BenchmarkPlanOfManyExperts(b *testing.B) {
	s := New(EmbeddedCatalog(), WithCache(0))
	job := estimator.Job{
		Model:    estimator.Model{Preset: "deepseek-ai/DeepSeek-V3"},
		Training: estimator.Training{MicroBatch: 4, GradientAccumulation: 8, SequenceLength: 1024},
		GPUs:     []estimator.GPURef{{Name: "h100-sxm5"}},
	}
	for b.Loop() {
		p, err := s.Plan(b.Context(), PlanRequest{Job: job}, PlanOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Pairs) != 6 || len(p.Options) == 0 {
			b.Fatalf("%d pairs and %d options", len(p.Pairs), len(p.Options))
		}
	}
}

// BenchmarkPlanOfLayouts ranks the layouts of large models on 64 GPUs.
func BenchmarkPlanOfLayouts(b *testing.B) {
	for _, name := range []string{"meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-405B", "mistralai/Mixtral-8x7B-v0.1",
		"mistralai/Mixtral-8x22B-v0.1", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"} {
		b.Run(name, func(b *testing.B) {
			s := New(EmbeddedCatalog(), WithCache(0))
			job := estimator.Job{Model: estimator.Model{Preset: name},
				Training: estimator.Training{SequenceLength: 4096}, GPUs: []estimator.GPURef{{Name: "h100-sxm5"}}}
			for b.Loop() {
				p, err := s.Plan(b.Context(), PlanRequest{Job: job, Cluster: &jobdoc.Cluster{GPUs: 64}}, PlanOptions{})
				if err != nil {
					b.Fatal(err)
				}
				if p.Layouts == nil || len(p.Layouts.Ranked)+len(p.Layouts.LeftOut) == 0 {
					b.Fatal("no layouts")
				}
			}
		})
	}
}
