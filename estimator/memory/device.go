package memory

import "math"

// Figures are the numbers of a run that a device has to hold, in bytes.
type Figures struct {
	Allocated, Reserved, Limit int64
	Context                    int64
	Device, Low, High          int64
	// sigma of the logarithm-free normal halves below and above Device.
	below, above float64
}

// What a CUDA context with PyTorch's kernels takes outside the allocator, for one process of PyTorch 2.1 or
// later (lazy module loading). Seven published out-of-memory messages and process figures give
// 246, 307, 340, 461, 471, 471 and 553 MiB: their mean, lowest and highest. The figure grows as kernels are first
// used; software before CUDA 11.7 or PyTorch 1.13 loads all kernels at once and takes 600 to 1,400 MiB, which
// these constants do not cover.
const (
	contextBytes     = 407 * mib
	contextLowBytes  = 246 * mib
	contextHighBytes = 553 * mib
)

// Doubt about the allocator. The order of allocations is PyTorch's own and replayed exactly for the described
// families and the reference version; what differs on a real run are other frees between the steps (logging,
// data loading) and other versions. A generic family's order is a guess.
//
// Compiled: of twelve traced runs of nanoGPT, GPT-2 and Llama under torch.compile, reserved bytes differ by -3.4 to +4.1 %
// from the replay, the smallest limit by up to 9 %, allocated bytes by up to 1.1 %.
const (
	DoubtOrder    Doubt = 0.015
	DoubtCompiled Doubt = 0.05
	DoubtGeneric  Doubt = 0.10
)

// Doubt is the relative half-width of the bounds that the order of allocations gives, at boundLevel.
type Doubt float64

const boundLevel = 0.95 // what the doubts and the spread of contexts are meant to cover

// Device adds what lies outside the allocator and bounds the sum at the given confidence. limit is the smallest
// allocator limit at which the job runs: with less than that, no order of frees helps, and so it carries the
// lower bound.
func Device(allocated, reserved, limit int64, doubt Doubt, confidence float64) Figures {
	f := Figures{Allocated: allocated, Reserved: reserved, Limit: limit, Context: contextBytes}
	f.Device = reserved + f.Context
	stretch := quantile(confidence) / quantile(boundLevel)
	down := math.Hypot(float64(doubt)*float64(limit), float64(contextBytes-contextLowBytes)) * stretch
	up := math.Hypot(float64(doubt)*float64(reserved), float64(contextHighBytes-contextBytes)) * stretch
	f.Low = max(min(limit, reserved)+f.Context-int64(down), 0)
	f.High = f.Device + int64(up)
	z := quantile(confidence)
	f.below, f.above = float64(f.Device-f.Low)/z, float64(f.High-f.Device)/z
	return f
}

// Probability that the job needs no more than usable bytes.
func (f Figures) Probability(usable int64) float64 {
	d := float64(usable - f.Device)
	sigma := f.above
	if d < 0 {
		sigma = f.below
	}
	if sigma <= 0 {
		sigma = 1
	}
	return 0.5 * math.Erfc(-d/sigma/math.Sqrt2)
}

// quantile is the z for which a normal variable lies within ±z with probability p.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(p) }
