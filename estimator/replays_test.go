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
			got, gotErr := estimate(in, limits, replays)
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

// TestReplaysForget all but the last that were asked for, and play none twice that they remember.
func TestReplaysForget(t *testing.T) {
	p := NewReplaysOf(2)
	key := func(peak int64) asked { return asked{peak: peak} }
	first := p.find(key(1), &played{})
	if p.find(key(1), &played{}) != first {
		t.Error("what was asked last is not remembered")
	}
	for peak := range int64(3) {
		p.find(key(peak+2), &played{})
	}
	if p.find(key(1), &played{}) != first {
		t.Error("what was asked before the last two is not remembered")
	}
	for peak := range int64(1000) {
		p.find(key(peak+10), &played{})
	}
	if n := len(p.known) + len(p.earlier); n > 4 {
		t.Errorf("%d are remembered, more than 4", n)
	}
	if p.find(key(1), &played{}) == first {
		t.Error("what nobody asked for 1,000 questions is still remembered")
	}
}
