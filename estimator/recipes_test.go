package estimator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// events is what a job asks a heap for in two optimizer steps.
func events(t interface {
	Helper()
	Fatal(...any)
}, job Job) []int64 {
	t.Helper()
	var got tape
	if err := Replay(Input{Job: job}, &got, 2, false); err != nil {
		t.Fatal(err)
	}
	return ordered(got.events)
}

// TestCheckpointingEveryLayerIsFull holds {"every": 1} against "full".
func TestCheckpointingEveryLayerIsFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := randomJob(t)
		job.Training.GradientCheckpointing = &Checkpointing{Mode: "full"}
		full := events(t, job)
		job.Training.GradientCheckpointing = &Checkpointing{Every: 1}
		if diff := cmp.Diff(full, events(t, job)); diff != "" {
			t.Fatalf("every layer differs from full:\n%.1000s", diff)
		}
	})
}

// TestCheckpointingLessOftenHoldsMore compares peaks: every layer between none and all of them.
func TestCheckpointingLessOftenHoldsMore(t *testing.T) {
	job := gpt2Job()
	peak := func(c *Checkpointing) int64 {
		job.Training.GradientCheckpointing = c
		res, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		return res.Peak.AllocatedBytes
	}
	last := peak(&Checkpointing{Mode: "full", Offload: true})
	for _, every := range []int64{1, 2, 3, 6, 12, 13} {
		now := peak(&Checkpointing{Every: every})
		if now < last {
			t.Errorf("checkpointing every %d layers holds %d, less than %d with more of it", every, now, last)
		}
		last = now
	}
	if none := peak(nil); none != last {
		t.Errorf("checkpointing every 13th of 12 layers holds %d, none %d", last, none)
	}
}
