package steptime

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// storyStep is how long an optimizer step of the story takes under a reading.
func storyStep(micro int64, a Assumption) float64 {
	w := storyWorkload(micro, nil)
	return w.PerToken(CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16), a) * w.Tokens()
}

// One step is passed through, whatever the readings make of the rest; of several, one that is far off does little.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := rapid.SampledFrom([]Assumption{Expected, CheapSmall, DearSmall}).Draw(t, "reading")
		truth.Gemm = rapid.Float64Range(0.1, 0.95).Draw(t, "share of the peak")
		truth.Launch = rapid.Float64Range(2e-6, 8e-5).Draw(t, "launch")
		micro := int64(1) << rapid.IntRange(0, 6).Draw(t, "micro-batch")
		c := CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16)
		at := func(micro int64) Timed { return Timed{storyWorkload(micro, nil), c, storyStep(micro, truth)} }
		if off := at(micro).off(fit(truth, []Timed{at(micro)})); math.Abs(off) > 0.002 {
			t.Errorf("the fit to one step is off by %.4f", off)
		}
		// The small ones tell the launch time, the large ones the share of the peak.
		steps := []Timed{at(1), at(2), at(16), at(64), at(128)}
		steps[2].Seconds *= 3
		a := fit(truth, steps)
		for _, m := range []int64{1, 2, 64, 128} {
			if off := at(m).off(a); math.Abs(off) > 0.02 {
				t.Errorf("with one odd step among five, %d is off by %.4f", m, off)
			}
		}
	})
}

// A step that waits for the host and one that waits for the card are both passed through.
func TestTwoStepsFixBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16)
		truth := Expected
		truth.Gemm, truth.Launch = rapid.Float64Range(0.3, 0.9).Draw(t, "share of the peak"),
			rapid.Float64Range(5e-5, 9e-5).Draw(t, "launch")
		steps := []Timed{{storyWorkload(1, nil), c, storyStep(1, truth)}, {storyWorkload(64, nil), c, storyStep(64,
			truth)}}
		for i, x := range steps {
			if off := x.off(fit(Expected, steps)); math.Abs(off) > 1e-4 {
				t.Errorf("step %d is off by %.5f", i, off)
			}
		}
	})
}
