package planner

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

func TestEffectOfAnotherBatch(t *testing.T) {
	adam, sgd := estimator.Training{}, estimator.Training{Optimizer: &estimator.Optimizer{Name: "sgd"}}
	lion := estimator.Training{Optimizer: &estimator.Optimizer{Name: "lion"}}
	tests := []struct {
		training estimator.Training
		from, to int64
		want     string
	}{
		{adam, 512, 256, "effective batch 512 → 256 (-50 %); starting points: learning rate × 0.71, beta2 0.95 → " +
			"0.9747 or 0.999 → 0.99950"},
		{adam, 512, 64, "effective batch 512 → 64 (-88 %); starting points: learning rate × 0.35, beta2 0.95 → 0.9936 " +
			"or 0.999 → 0.99987"},
		{sgd, 512, 256, "effective batch 512 → 256 (-50 %); starting point: learning rate × 0.5"},
		{lion, 512, 256, "effective batch 512 → 256 (-50 %); the learning rate has to follow"},
		{adam, 512, 511, "effective batch 512 → 511 (-0.2 %); settings can stay"},
	}
	for _, tt := range tests {
		if got := effectiveBatchEffect(tt.training, tt.from, tt.to); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func BenchmarkPlanWithoutTheEstimator(b *testing.B) {
	f := storyFake()
	for b.Loop() {
		if _, err := MakeWith(b.Context(), story(), f.estimate); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(f.asked.Load())/float64(b.N), "estimates/op")
}
