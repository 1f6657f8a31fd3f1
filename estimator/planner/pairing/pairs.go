package pairing

import (
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
)

const (
	// MaxEffectiveBatch bounds the work: no number up to 2³¹ has more than 1,536
	// divisors, so a plan never asks about more pairs than that.
	MaxEffectiveBatch = 1 << 31
	// MaxMicroBatch is the largest micro-batch, and the largest accumulation, that a
	// job document may ask for.
	MaxMicroBatch = 1 << 30
)

// Batch is the arithmetic of the effective batch: micro × accum × gpus = target.
type Batch struct {
	// Target is the effective batch to reach, gpus the data-parallel GPUs.
	Target, GPUs int64
	// Stages of a pipeline cut what each data-parallel group trains on into micro-batches; 0 and 1 are none.
	Stages int64
	// Micro and accum are what the user runs today; micro is 0 where nobody said.
	Micro, Accum int64
}

// Effective is the effective batch of a pair.
func (b Batch) Effective(micro, accum int64) int64 { return micro * accum * b.GPUs }

// Given reports whether the job says what runs today.
func (b Batch) Given() bool { return b.Micro > 0 }

// Exact reports whether today's pair reaches the target.
func (b Batch) Exact() bool { return b.Given() && b.Effective(b.Micro, b.Accum) == b.Target }

// AccumulationFor is the least accumulation with which a micro-batch reaches the
// target, where it need not reach it exactly.
func (b Batch) AccumulationFor(micro int64) int64 {
	perGPU := ceilDiv(b.Target, b.GPUs)
	return min(max(1, ceilDiv(perGPU, micro)), MaxMicroBatch)
}

// Deviation is how far an effective batch is from the target, in percent with
// one decimal.
func (b Batch) Deviation(effective int64) float64 {
	d := float64(effective-b.Target) / float64(b.Target) * 100
	if r := math.Round(d*10) / 10; r != 0 {
		return r
	}
	return d // small, but not nothing
}

// Pairs lists the candidates for one effective batch in falling micro-batch; none
// where the GPUs do not divide it.
func (b Batch) Pairs(target int64) []Choice {
	if target%b.GPUs != 0 {
		return nil
	}
	perGPU := target / b.GPUs
	ds := divisors(perGPU)
	out := make([]Choice, 0, len(ds))
	for _, d := range ds {
		if d <= MaxMicroBatch && perGPU/d <= MaxMicroBatch {
			out = append(out, Choice{MicroBatch: d, GradientAccumulation: perGPU / d})
		}
	}
	return out
}

// Nearest gives the multiples of the GPUs next to the target: where the GPUs do
// not divide it, no pair is exact.
func (b Batch) Nearest() []int64 {
	below := b.Target / b.GPUs * b.GPUs
	if below == b.Target {
		return []int64{b.Target}
	}
	if below == 0 {
		return []int64{b.GPUs}
	}
	return []int64{below, below + b.GPUs}
}

// divisors of n ≥ 1, largest first.
func divisors(n int64) []int64 {
	var small, large []int64
	for d := int64(1); d*d <= n; d++ {
		if n%d == 0 {
			small = append(small, d)
			if d*d != n {
				large = append(large, n/d)
			}
		}
	}
	slices.Reverse(small)
	return append(large, small...)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// Of works out the effective batch that a job is to keep, 0 for what it gives today, or says what is wrong.
func Of(t estimator.Training, effective int64) (Batch, error) {
	var v invalid.List
	b := Batch{GPUs: 1, Micro: t.MicroBatch, Accum: max(1, t.GradientAccumulation)}
	if d := t.Distributed; d != nil && d.WorldSize > 1 {
		b.GPUs, b.Stages = dataParallel(d, &v), d.PipelineParallel
	}
	const accepted = "a plan takes an effective batch from 1 to 2147483648"
	// The factors may each be as large as 2³⁰, so their product may not fit.
	if b.Given() && (b.Micro > MaxEffectiveBatch/b.Accum || b.Micro*b.Accum > MaxEffectiveBatch/b.GPUs) {
		v.Add("/training/gradient_accumulation", "out_of_range",
			"%d sequences × %d accumulation steps × %d data-parallel GPUs is too large; %s", b.Micro, b.Accum, b.GPUs,
			accepted)
		return b, v.Err()
	}
	switch {
	case effective < 0 || effective > MaxEffectiveBatch:
		v.Add("/effective_batch", "out_of_range", "%d was given; %s", effective, accepted)
	case effective > 0:
		b.Target = effective
	case !b.Given():
		v.Add("/effective_batch", "required",
			"a plan needs either effective_batch (--effective-batch N) or what runs today (training.micro_batch and "+
				"training.gradient_accumulation)")
	default:
		b.Target = b.Effective(b.Micro, b.Accum)
	}
	return b, v.Err()
}

// dataParallel is the number of GPUs that hold different sequences.
func dataParallel(d *estimator.Distributed, v *invalid.List) int64 {
	model := int64(1)
	for _, n := range []int64{d.TensorParallel, d.PipelineParallel, d.ContextParallel} {
		if n > 1 && n <= d.WorldSize/model {
			model *= n
		} else if n > 1 {
			model = d.WorldSize + 1 // more than there are, however many more
			break
		}
	}
	if d.WorldSize%model != 0 {
		v.Add("/training/distributed/world_size", "not_divisible",
			"%d GPUs were given, which tensor × pipeline × context parallel (%d × %d × %d) does not divide",
			d.WorldSize, max(1, d.TensorParallel), max(1, d.PipelineParallel), max(1, d.ContextParallel))
		return 1
	}
	return d.WorldSize / model
}

// Choice names a pair.
type Choice struct {
	MicroBatch           int64 `json:"micro_batch"`
	GradientAccumulation int64 `json:"gradient_accumulation"`
}

// At is the pair of a micro-batch and an accumulation.
func At(micro, accum int64) Choice { return Choice{MicroBatch: micro, GradientAccumulation: accum} }
