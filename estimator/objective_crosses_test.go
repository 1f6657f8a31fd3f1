package estimator

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/resolve"
)

// TestCrossesOfObjectives draws what a trainer does and how a model is computed together: each is refused, or answered
// with every layer that is run again run as it ran in forward.
func TestCrossesOfObjectives(t *testing.T) {
	jobs := tracedKinds(t)
	ids := slices.Sorted(maps.Keys(jobs))
	rapid.Check(t, func(t *rapid.T) {
		job := jobs[rapid.SampledFrom(ids).Draw(t, "id")]
		tr := &job.Training
		tr.MicroBatch = rapid.Int64Range(1, 3).Draw(t, "micro_batch")
		tr.GradientAccumulation = rapid.Int64Range(1, 3).Draw(t, "accumulation")
		tr.Attention = rapid.SampledFrom([]string{"", "sdpa", "eager"}).Draw(t, "attention")
		tr.Precision = rapid.SampledFrom([]Precision{tr.Precision, PrecisionFP32, PrecisionBF16, PrecisionAMPBF16}).Draw(t, "precision")
		switch rapid.SampledFrom([]string{"as it is", "none", "full", "reentrant", "not"}).Draw(t, "checkpointing") {
		case "none":
			tr.GradientCheckpointing = nil
		case "full":
			tr.GradientCheckpointing = &Checkpointing{Mode: "full"}
		case "reentrant":
			tr.GradientCheckpointing = &Checkpointing{Mode: "full", Reentrant: new(true)}
		case "not":
			tr.GradientCheckpointing = &Checkpointing{Mode: "full", Reentrant: new(false)}
		}
		if rapid.Bool().Draw(t, "without adapters") {
			tr.LoRA = nil
		}
		if rapid.Bool().Draw(t, "evaluated") {
			tr.Evaluation = &Evaluation{MicroBatch: rapid.Int64Range(1, 6).Draw(t, "evaluation")}
		}
		if rapid.Bool().Draw(t, "other releases") {
			tr.Versions = map[string]string{"trl": rapid.SampledFrom([]string{"0.26.2", "1.16.0"}).Draw(t, "trl")}
		}
		in := Input{Job: job}
		if _, err := resolve.Resolve(&in); err != nil {
			return
		}
		if _, err := Estimate(in); err != nil {
			t.Fatal(err)
		}
	})
}
