package estimator

import "testing"

// TestClosureGradients: where Lightning's loop has one micro-step a step, the upper bound has room for all gradients
// beside all activations; with two, and in other loops, they are there in the replay.
func TestClosureGradients(t *testing.T) {
	for _, c := range []struct {
		framework string
		steps     int64
		doubts    bool
	}{{"lightning", 0, true}, {"lightning", 1, true}, {"lightning", 2, false}, {"pytorch", 1, false}} {
		job := gpt2Job()
		job.Training.Framework, job.Training.GradientAccumulation = c.framework, c.steps
		res := mustEstimate(t, Input{Job: job})
		got := int64(0)
		for _, d := range res.Doubts {
			if d.Source == "closure-gradients" {
				got = d.AboveBytes
			}
		}
		if least := res.Model.TrainableParameters * 4; c.doubts && got < least || !c.doubts && got != 0 {
			t.Errorf("%s with %d micro-steps: %d bytes of doubt, the gradients have %d", c.framework, c.steps, got, least)
		}
	}
}
