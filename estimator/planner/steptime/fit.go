package steptime

import (
	"math"
	"slices"
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
)

// Timed is a measured step as the time model sees it.
type Timed struct {
	Workload
	Card    Card
	Seconds float64
}

// off is the logarithm of the model's time of a step over the measured one.
func (x Timed) off(a Assumption) float64 {
	return math.Log(x.PerToken(x.Card, a) * x.Tokens() / x.Seconds)
}

// fit sets the two constants of a reading to those with the least sum of errors, by which one odd step among several
// does little; of those as good, to the nearest. A micro-step waits for the card or for the host, so that each step
// tells one of the two, and the best of either is what some step tells, or what it was.
func fit(a Assumption, steps []Timed) Assumption {
	with := func(gemm, launch float64) Assumption {
		b := a
		b.Gemm, b.Launch = gemm, launch
		return b
	}
	shares, launches := []float64{a.Gemm}, []float64{a.Launch}
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
			cost := nearness * (math.Abs(math.Log(g/a.Gemm)) + math.Abs(math.Log(l/a.Launch)))
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

// Readings are the expected, the cheap and the dear one.
type Readings [3]Assumption

// Usual are those that nothing was measured for.
var Usual = Readings{Expected, CheapSmall, DearSmall}

// Fitted are the readings fitted to steps that were measured, with how far off the median of these and the farthest are
// from what the expected one then says, as factors.
func (r Readings) Fitted(steps []Timed) (fitted Readings, median, farthest float64) {
	for i, a := range r {
		fitted[i] = fit(a, steps)
	}
	offs := make([]float64, len(steps))
	for i, x := range steps {
		offs[i] = math.Exp(math.Abs(x.off(fitted[0])))
	}
	slices.Sort(offs)
	return fitted, offs[len(offs)/2], offs[len(offs)-1]
}
