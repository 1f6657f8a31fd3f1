package service_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// TestLigersLossStandsForChunks holds what the doubt sft-loss says: Liger's loss, which is replayed where trl's trainer
// itself is not, beside the trainer on one GPU. -v prints each job. With a fused optimizer, which trl takes where
// nothing is said, the peak is the loss's, of which Liger's holds more.
func TestLigersLossStandsForChunks(t *testing.T) {
	s := service.New(service.EmbeddedCatalog())
	peak := func(t *testing.T, job estimator.Job) estimator.Peak {
		t.Helper()
		res, err := s.Estimate(context.Background(), job, service.EstimateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return res.Peak
	}
	for _, model := range []string{"gpt2-xl", "meta-llama/Llama-3.2-1B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B",
		"mistralai/Mistral-7B-v0.1", "google/gemma-3-1b-it", "facebook/opt-1.3b", "microsoft/phi-2"} {
		for _, lora := range []*estimator.LoRA{nil, {Rank: 16, BasePrecision: "bf16"}} {
			for _, by := range []string{"foreach", "fused"} {
				for _, micro := range []int64{1, 8} {
					t.Run(fmt.Sprintf("%s/%d/%t/%s", model, micro, lora != nil, by), func(t *testing.T) {
						job := estimator.Job{Model: estimator.Model{Preset: model}, GPUs: []estimator.GPURef{{Name: "b200"}},
							Training: estimator.Training{MicroBatch: micro, SequenceLength: 1024, Framework: "trl", LoRA: lora,
								Optimizer:             &estimator.Optimizer{Name: "adamw", Implementation: by},
								Precision:             estimator.PrecisionAMPBF16,
								GradientCheckpointing: &estimator.Checkpointing{Mode: "full"}}}
						trainer := peak(t, job)
						job.Training.Loss = &estimator.Loss{Kind: "fused-linear"}
						liger := peak(t, job)
						percent := func(a, b int64) float64 { return 100 * (float64(a)/float64(b) - 1) }
						allocated := percent(liger.AllocatedBytes, trainer.AllocatedBytes)
						reserved := percent(liger.ReservedBytes, trainer.ReservedBytes)
						t.Logf("allocated %+.2f %%, reserved %+.2f %%", allocated, reserved)
						most := map[string]float64{"foreach": 0.03, "fused": 9.8}[by]
						if allocated < -1.1 || allocated > most || reserved < -1.25 || reserved > 12.6 {
							t.Errorf("allocated %+.2f %%, reserved %+.2f %%: beyond what the doubt says", allocated, reserved)
						}
					})
				}
			}
		}
	}
}
