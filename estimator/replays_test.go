package estimator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestReplaysChangeNothing compares answers that share replays, for several cards and for neighbours of a job, with
// those that do not.
func TestReplaysChangeNothing(t *testing.T) {
	cards := []string{"a100-sxm4-80gb", "h100-sxm5", "rtx-4070", "rtx-4090", "rtx-3090", "v100-sxm2-16gb", "t4"}
	rapid.Check(t, func(t *rapid.T) {
		replays := NewReplays()
		if most := rapid.IntRange(0, 3).Draw(t, "most replays"); most > 0 {
			replays = NewReplaysOf(most)
		}
		job := randomJob(t)
		limits := rapid.Bool().Draw(t, "limits")
		for range 4 {
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				job.Training.MicroBatch = rapid.Int64Range(1, 4).Draw(t, "another micro-batch")
			case 1:
				job.Training.GradientAccumulation = rapid.Int64Range(1, 4).Draw(t, "another accumulation")
			case 2:
				clip := rapid.Bool().Draw(t, "another clip")
				job.Training.ClipGradNorm = &clip
			}
			in := Input{Job: job}
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(cards), 0, 4).Draw(t, "cards") {
				card := tracedGPUs[name]
				card.ID, card.UsableBytes = name, rapid.Int64Range(1<<28, 20<<30).Draw(t, "usable")
				in.GPUs = append(in.GPUs, card)
			}
			want, err := estimate(in, limits, nil)
			got, gotErr := estimate(in, limits, replays.memory)
			if (err == nil) != (gotErr == nil) {
				t.Fatalf("alone %v, together %v", err, gotErr)
			}
			if err != nil {
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("with shared replays the answer differs (-alone +shared):\n%s", diff)
			}
		}
	})
}
