package planner

import (
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
)

const (
	// maxEffectiveBatch bounds the work: no number up to 2³¹ has more than 1,536
	// divisors, so a plan never asks about more pairs than that.
	maxEffectiveBatch = 1 << 31
	// maxMicroBatch is the largest micro-batch, and the largest accumulation, that a
	// job document may ask for.
	maxMicroBatch = 1 << 30
)

// batch is the arithmetic of the effective batch: micro × accum × gpus = target.
type batch struct {
	// target is the effective batch to reach, gpus the data-parallel GPUs.
	target, gpus int64
	// stages of a pipeline cut what each data-parallel group trains on into micro-batches; 0 and 1 are none.
	stages int64
	// micro and accum are what the user runs today; micro is 0 where nobody said.
	micro, accum int64
}

// effective is the effective batch of a pair.
func (b batch) effective(micro, accum int64) int64 { return micro * accum * b.gpus }

// given reports whether the job says what runs today.
func (b batch) given() bool { return b.micro > 0 }

// exact reports whether today's pair reaches the target.
func (b batch) exact() bool { return b.given() && b.effective(b.micro, b.accum) == b.target }

// accumulationFor is the least accumulation with which a micro-batch reaches the
// target, where it need not reach it exactly.
func (b batch) accumulationFor(micro int64) int64 {
	perGPU := ceilDiv(b.target, b.gpus)
	return min(max(1, ceilDiv(perGPU, micro)), maxMicroBatch)
}

// deviation is how far an effective batch is from the target, in percent with
// one decimal.
func (b batch) deviation(effective int64) float64 {
	d := float64(effective-b.target) / float64(b.target) * 100
	if r := math.Round(d*10) / 10; r != 0 {
		return r
	}
	return d // small, but not nothing
}

// pairs lists the candidates for one effective batch in falling micro-batch; none
// where the GPUs do not divide it.
func (b batch) pairs(target int64) []Choice {
	if target%b.gpus != 0 {
		return nil
	}
	perGPU := target / b.gpus
	ds := divisors(perGPU)
	out := make([]Choice, 0, len(ds))
	for _, d := range ds {
		if d <= maxMicroBatch && perGPU/d <= maxMicroBatch {
			out = append(out, Choice{MicroBatch: d, GradientAccumulation: perGPU / d})
		}
	}
	return out
}

// nearest gives the multiples of the GPUs next to the target: where the GPUs do
// not divide it, no pair is exact.
func (b batch) nearest() []int64 {
	below := b.target / b.gpus * b.gpus
	if below == b.target {
		return []int64{b.target}
	}
	if below == 0 {
		return []int64{b.gpus}
	}
	return []int64{below, below + b.gpus}
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

// readBatch works out the effective batch of a request, or says what is wrong.
func readBatch(r Request) (batch, error) {
	var v invalid.List
	t := r.Input.Job.Training
	b := batch{gpus: 1, micro: t.MicroBatch, accum: max(1, t.GradientAccumulation)}
	if d := t.Distributed; d != nil && d.WorldSize > 1 {
		b.gpus, b.stages = dataParallel(d, &v), d.PipelineParallel
	}
	const accepted = "a plan takes an effective batch from 1 to 2147483648"
	// The factors may each be as large as 2³⁰, so their product may not fit.
	if b.given() && (b.micro > maxEffectiveBatch/b.accum || b.micro*b.accum > maxEffectiveBatch/b.gpus) {
		v.Add("/training/gradient_accumulation", "out_of_range",
			"%d sequences × %d accumulation steps × %d data-parallel GPUs is too large; %s", b.micro, b.accum, b.gpus,
			accepted)
		return b, v.Err()
	}
	switch {
	case r.EffectiveBatch < 0 || r.EffectiveBatch > maxEffectiveBatch:
		v.Add("/effective_batch", "out_of_range", "%d was given; %s", r.EffectiveBatch, accepted)
	case r.EffectiveBatch > 0:
		b.target = r.EffectiveBatch
	case !b.given():
		v.Add("/effective_batch", "required",
			"a plan needs either effective_batch or what runs today (training.micro_batch and "+
				"training.gradient_accumulation)")
	default:
		b.target = b.effective(b.micro, b.accum)
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
