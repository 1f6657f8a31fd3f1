package memory

import "math"

// Figures are the numbers of a run that a device has to hold, in bytes.
type Figures struct {
	Allocated, Reserved, Limit int64
	Context                    int64
	Device, Low, High          int64
	// Times is how many times each doubt counts in Low and High.
	Times Doubt
	// sigma of the logarithm-free normal halves below and above Device.
	below, above float64
}

// ContextLazy is what a CUDA context with PyTorch's kernels takes outside the allocator, for one process of PyTorch 2.1
// or later (lazy module loading). Seven published out-of-memory messages and process figures give 246, 307, 340, 461,
// 471, 471 and 553 MiB: their mean, lowest and highest. The figure grows as kernels are first used.
var ContextLazy = Context{Bytes: 407 * mib, Low: 246 * mib, High: 553 * mib}

// ContextHopper is the same on a card of compute capability 9.0 with PyTorch built for CUDA 13: 751 and 767 MiB on an
// H200 after training steps in float32 and in half precision (PyTorch 2.11.0, driver 580.159, docs/lab/card.md), of
// which 527 are there before a kernel is loaded. One card shows no spread: below and above lies that of ContextLazy. Of
// other cards, of CUDA 12 and of compiled steps it says nothing.
var ContextHopper = Context{Bytes: 767 * mib, Low: 606 * mib, High: 913 * mib}

// ContextEager is a CUDA context with all of PyTorch's kernels, which software before CUDA 11.7 or PyTorch 1.13 loads
// at once. Published figures are 636 MiB (PyTorch 1.13 with lazy loading switched off), 1,007 (TITAN V, PyTorch 1.3)
// and 1,343 MiB (V100, 2022): the middle one, lowest and highest.
var ContextEager = Context{Bytes: 1007 * mib, Low: 636 * mib, High: 1343 * mib}

// ContextCUDA11 is the same with the kernels of CUDA 11, which are more: what nvidia-smi shows of a process with one
// small tensor in transformers' guide to training on one GPU of 2022 (a V100).
var ContextCUDA11 = Context{Bytes: 1343 * mib, Low: 1007 * mib, High: 1343 * mib}

// Context is what the CUDA context of a process takes, in bytes: the usual, the least and the most.
type Context struct{ Bytes, Low, High int64 }

// Doubt is how far a real run may hold less (Below) or more (Above) than the replay, relative to what the allocator
// needs and reserves, at boundLevel.
type Doubt struct{ Below, Above float64 }

// Or is the wider of both on each side: two reasons to doubt the same figure do not add up.
func (d Doubt) Or(e Doubt) Doubt { return Doubt{max(d.Below, e.Below), max(d.Above, e.Above)} }

const boundLevel = 0.95 // what the doubts and the spread of contexts are meant to cover

// Base is what the built-in constants say of a run.
type Base struct {
	Allocated, Reserved int64
	// Limit is the smallest allocator limit at which the job runs: with less than that, no order of frees helps, and so
	// it carries the lower bound.
	Limit, Context int64
	// Below and Above are how far the bounds lie from what they start from, in bytes, at boundLevel.
	Below, Above float64
}

// BaseOf joins what was replayed with what lies outside the allocator, and with how far both may be off.
func BaseOf(allocated, reserved, limit int64, c Context, doubt Doubt) Base {
	return Base{Allocated: allocated, Reserved: reserved, Limit: limit, Context: c.Bytes,
		Below: math.Hypot(doubt.Below*float64(limit), float64(c.Bytes-c.Low)),
		Above: math.Hypot(doubt.Above*float64(reserved), float64(c.High-c.Bytes))}
}

// Correction is what measured runs say of the constants behind a Base. Its zero value says nothing.
type Correction struct {
	// Context and Reserved are added to those of the Base, in bytes.
	Context, Reserved int64
	// Below and Above are how many times its widths the bounds are away at the confidence that is asked for; 0
	// means as many as a normal distribution has.
	Below, Above float64
}

// Bounded is the device figure, and its bounds at the given confidence.
func (b Base) Bounded(x Correction, confidence float64) Figures {
	f := Figures{Allocated: b.Allocated, Context: max(b.Context+x.Context, 0)}
	f.Reserved = max(b.Reserved+x.Reserved, b.Allocated)
	f.Limit = min(b.Limit, f.Reserved)
	f.Device = f.Reserved + f.Context
	f.Times = Doubt{x.Below, x.Above}
	if stretch := Stretch(confidence); x.Below == 0 || x.Above == 0 {
		f.Times = Doubt{stretch, stretch}
	}
	f.Low = max(f.Limit+f.Context-boundedBytes(b.Below*f.Times.Below), 0)
	f.High = f.Device + boundedBytes(b.Above*f.Times.Above)
	z := quantile(confidence)
	f.below, f.above = float64(f.Device-f.Low)/z, float64(f.High-f.Device)/z
	return f
}

// boundedBytes is x in bytes, up to a number that nothing has: a bound that is too wide must not turn round.
func boundedBytes(x float64) int64 {
	const most = 1 << 60
	return int64(min(x, most))
}

// Stretch is by how much doubts at boundLevel are widened or narrowed for another confidence.
func Stretch(confidence float64) float64 { return quantile(confidence) / quantile(boundLevel) }

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
