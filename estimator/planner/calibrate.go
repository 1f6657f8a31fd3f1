package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
)

// MeasuredStep is an optimizer step that was timed: of the job as it stands on the plan's card, at a pair.
type MeasuredStep struct {
	// MicroBatch and GradientAccumulation are today's where they are 0.
	MicroBatch, GradientAccumulation int64
	Seconds                          float64
}

// misfit is how far off the median of the measured steps may be, as a factor, before something else than what the model
// knows must take the time.
const misfit = 1.25

// calibrate fits the readings to the steps that were measured, where the model can be made to say what they say.
func (s *search) calibrate(measured []MeasuredStep) {
	s.Readings, s.Basis = steptime.Usual, asking.BasisModel
	if len(measured) == 0 {
		return
	}
	steps := make([]steptime.Timed, len(measured))
	for i, m := range measured {
		at := asking.Judged{Candidate: asking.Candidate{Micro: m.MicroBatch, Accum: m.GradientAccumulation},
			Answer: s.floor.Answer}
		w := s.Workload(at)
		steps[i] = steptime.Timed{Workload: w, Card: steptime.CardOf(s.GPU, w.Training.Precision), Seconds: m.Seconds}
	}
	fitted, median, farthest := s.Readings.Fitted(steps)
	if median > misfit {
		s.Notes.Add("measured-steps-unused", "The measured steps were not used: whatever share of the card's peak "+
			"products reach and whatever a launch takes, the model is off by a factor of %.2g. "+
			"Something else than the step's own work may take the time, such as loading data.", median)
		return
	}
	s.Readings, s.Basis = fitted, asking.BasisCalibrated
	s.Notes.Add("measured-steps", "Step times are fitted to %s: matrix products reach %.0f %% of the card's peak and "+
		"a kernel launch takes %.1f µs; the farthest step is off by %.0f %%.",
		document.Count(len(steps), "measured step"), 100*fitted[0].Gemm, 1e6*fitted[0].Launch, 100*(farthest-1))
}

// readMeasured fills in today's pair, or says what is wrong.
func readMeasured(measured []MeasuredStep, b pairing.Batch) ([]MeasuredStep, error) {
	var v invalid.List
	out := slices.Clone(measured)
	for i := range out {
		m, at := &out[i], fmt.Sprintf("/measured_steps/%d/", i)
		if m.MicroBatch == 0 && !b.Given() {
			v.Add(at+"micro_batch", "required", "the job has no training.micro_batch that it could be")
		}
		if m.MicroBatch == 0 {
			m.MicroBatch = b.Micro
		}
		if m.GradientAccumulation == 0 {
			m.GradientAccumulation = b.Accum
		}
		if !(m.Seconds > 0) || math.IsInf(m.Seconds, 0) {
			v.Add(at+"step_time_seconds", "out_of_range", "%g was given; accepted: seconds above 0", m.Seconds)
		}
	}
	return out, v.Err()
}
