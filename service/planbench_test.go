package service

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
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
