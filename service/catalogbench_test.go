package service

import (
	"sync/atomic"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
)

// benchModels are those of the page's own benchmark (api/webtest).
var benchModels = []string{"nanogpt/train_gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "meta-llama/Llama-3.2-1B",
	"meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B",
	"Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1",
	"google/gemma-2-2b", "microsoft/phi-2",
	"bert-base-uncased", "EleutherAI/pythia-410m"}

// heatMap are the 12 × 12 jobs of the page's heat-map of a model; of those that are longer than the model's context
// there is no answer.
func heatMap(b *testing.B, s *Service, name string, o EstimateOptions) {
	answered := 0
	for _, length := range []int64{128, 192, 256, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096} {
		for _, micro := range []int64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
			job := estimator.Job{Model: estimator.Model{Preset: name}, Training: estimator.Training{MicroBatch: micro,
				SequenceLength: length},
				GPUs: []estimator.GPURef{{Name: "rtx-4090"}}}
			if _, err := s.Estimate(b.Context(), job, o); err == nil {
				answered++
			} else if length <= 512 {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(answered), "cells")
}

// BenchmarkHeatMap answers the jobs of a heat-map, one after the other: whole, with the verdicts alone, and as the page
// asks for them.
func BenchmarkHeatMap(b *testing.B) {
	for _, name := range benchModels {
		for _, c := range []struct {
			kind string
			o    EstimateOptions
		}{{"whole", EstimateOptions{}}, {"verdicts", EstimateOptions{VerdictsOnly: true}},
			{"page", EstimateOptions{VerdictsOnly: true, AtLeast: true}}} {
			b.Run(c.kind+"/"+name, func(b *testing.B) {
				s := New(EmbeddedCatalog(), WithCache(0))
				for b.Loop() {
					heatMap(b, s, name, c.o)
				}
			})
		}
	}
}

// BenchmarkPlanCatalog plans each model as the page does, and counts the requests of the allocator that its answers
// stand for (estimator.Result.Played).
func BenchmarkPlanCatalog(b *testing.B) {
	for _, name := range benchModels {
		b.Run(name, func(b *testing.B) {
			s := New(EmbeddedCatalog(), WithCache(0))
			var played atomic.Int64
			s.judge = func() planner.Estimator {
				judge := estimator.NewReplays().Judge
				return func(in estimator.Input) (*estimator.Result, error) {
					r, err := judge(in)
					if err == nil {
						played.Add(r.Played)
					}
					return r, err
				}
			}
			job := estimator.Job{Model: estimator.Model{Preset: name},
				Training: estimator.Training{MicroBatch: 2, SequenceLength: 512},
				GPUs:     []estimator.GPURef{{Name: "rtx-4090"}}}
			for b.Loop() {
				if _, err := s.Plan(b.Context(), PlanRequest{Job: job}, PlanOptions{Brief: true}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(played.Load())/float64(b.N), "requests/op")
		})
	}
}
