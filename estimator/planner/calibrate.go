package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// MeasuredStep is an optimizer step that was timed: of the job as it stands on the plan's card, at a pair.
type MeasuredStep struct {
	// MicroBatch and GradientAccumulation are today's where they are 0.
	MicroBatch, GradientAccumulation int64
	Seconds                          float64
}

// What StepTime.Basis says: the model alone, or fitted to measured steps.
const (
	basisModel      = "model"
	basisCalibrated = "calibrated"
)

// Two constants of the time model depend on the user's machine more than on the card, and a measured step tells of
// them: the share of its peak that matrix products reach, and what a kernel costs the host. The others stay as each
// reading has them, so that the range is what the measured steps leave open. The bounds are a twentieth of the peak and
// all of it, and launches of a CUDA graph and of a slow host that is traced.
var (
	gemmShares  = [2]float64{0.05, 1}
	launchTimes = [2]float64{1e-6, 1e-4}
)

const (
	// nearness is what a step away from the uncalibrated constants costs beside one from a measured step, both as
	// logarithms: enough to choose among fits that are as good, not to spoil one.
	nearness = 0.01
	// halvings of the logarithms between two bounds find a constant to a millionth.
	halvings = 22
	// misfit is how far off the median of the measured steps may be, as a factor, before something else than what the
	// model knows must take the time.
	misfit = 1.25
)

// timed is a measured step as the time model sees it.
type timed struct {
	workload
	card    card
	seconds float64
}

// off is the logarithm of the model's time of a step over the measured one.
func (x timed) off(a assumption) float64 {
	return math.Log(x.perToken(x.card, a) * x.tokens() / x.seconds)
}

// fit sets the two constants of a reading to those with the least sum of errors, by which one odd step among several
// does little; of those as good, to the nearest. A micro-step waits for the card or for the host, so that each step
// tells one of the two, and the best of either is what some step tells, or what it was.
func fit(a assumption, steps []timed) assumption {
	with := func(gemm, launch float64) assumption {
		b := a
		b.gemm, b.launch = gemm, launch
		return b
	}
	shares, launches := []float64{a.gemm}, []float64{a.launch}
	for _, x := range steps {
		if g, ok := cross(gemmShares, func(g float64) float64 { return -x.off(with(g, launchTimes[0])) }); ok {
			shares = append(shares, g)
		}
		if l, ok := cross(launchTimes, func(l float64) float64 { return x.off(with(gemmShares[1], l)) }); ok {
			launches = append(launches, l)
		}
	}
	best, lowest := a, math.Inf(1)
	for _, g := range shares {
		for _, l := range launches {
			cost := nearness * (math.Abs(math.Log(g/a.gemm)) + math.Abs(math.Log(l/a.launch)))
			for _, x := range steps {
				cost += math.Abs(x.off(with(g, l)))
			}
			if cost < lowest {
				best, lowest = with(g, l), cost
			}
		}
	}
	return best
}

// cross is where f, which rises, passes 0 between two bounds; not ok where it does not.
func cross(bounds [2]float64, f func(float64) float64) (x float64, ok bool) {
	low, high := bounds[0], bounds[1]
	if f(low) > 0 || f(high) < 0 {
		return 0, false
	}
	for range halvings {
		if middle := math.Sqrt(low * high); f(middle) < 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return high, true
}

// calibrate fits the readings to the steps that were measured, where the model can be made to say what they say.
func (s *search) calibrate(measured []MeasuredStep) {
	s.readings, s.basis = [3]assumption{expected, cheapSmall, dearSmall}, basisModel
	if len(measured) == 0 {
		return
	}
	steps := make([]timed, len(measured))
	for i, m := range measured {
		at := judged{candidate: candidate{micro: m.MicroBatch, accum: m.GradientAccumulation}, answer: s.floor.answer}
		w := s.workload(at)
		steps[i] = timed{workload: w, card: cardOf(s.gpu, w.training.Precision), seconds: m.Seconds}
	}
	var fitted [3]assumption
	for i, a := range s.readings {
		fitted[i] = fit(a, steps)
	}
	offs := make([]float64, len(steps))
	for i, x := range steps {
		offs[i] = math.Exp(math.Abs(x.off(fitted[0])))
	}
	slices.Sort(offs)
	if median := offs[len(offs)/2]; median > misfit {
		s.notes.add("measured-steps-unused", "The measured steps were not used: whatever share of the card's peak "+
			"products reach and whatever a launch takes, the model is off by a factor of %.2g. "+
			"Something else than the step's own work may take the time, such as loading data.", median)
		return
	}
	s.readings, s.basis = fitted, basisCalibrated
	s.notes.add("measured-steps", "Step times are fitted to %s: matrix products reach %.0f %% of the card's peak and "+
		"a kernel launch takes %.1f µs; the farthest step is off by %.0f %%.",
		count(len(steps), "measured step"), 100*fitted[0].gemm, 1e6*fitted[0].launch, 100*(offs[len(offs)-1]-1))
}

// readMeasured fills in today's pair, or says what is wrong.
func readMeasured(measured []MeasuredStep, b batch) ([]MeasuredStep, error) {
	var v invalid.List
	out := slices.Clone(measured)
	for i := range out {
		m, at := &out[i], fmt.Sprintf("/measured_steps/%d/", i)
		if m.MicroBatch == 0 && !b.given() {
			v.Add(at+"micro_batch", "required", "the job has no training.micro_batch that it could be")
		}
		if m.MicroBatch == 0 {
			m.MicroBatch = b.micro
		}
		if m.GradientAccumulation == 0 {
			m.GradientAccumulation = b.accum
		}
		if !(m.Seconds > 0) || math.IsInf(m.Seconds, 0) {
			v.Add(at+"step_time_seconds", "out_of_range", "%g was given; accepted: seconds above 0", m.Seconds)
		}
	}
	return out, v.Err()
}
