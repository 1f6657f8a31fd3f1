package objective

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// mapped is an operation on each element of x whose backward needs nothing but the gradient: a product with a number.
func mapped(t *step.Tape, x step.T) step.T {
	y := wide(t, x.Numel(), x.Dtype(), step.LabelLogits)
	r := t.Replay([]step.T{x}, nil)
	r.AllocWide(0, x.Numel()*x.Dtype().Size(), step.LabelLogitsGradient)
	r.Send(0, 0, false, false)
	return y.Attached(r.End(1))
}

// added is the sum of two tensors of one size.
func added(t *step.Tape, a, b step.T) step.T {
	y := wide(t, a.Numel(), a.Dtype(), step.LabelLogits)
	r := t.Replay([]step.T{a, b}, nil)
	r.Pass(0, 0, false)
	r.Pass(0, 1, false)
	return y.Attached(r.End(1))
}

// wideLogSoftmax is log_softmax, which keeps its result.
func wideLogSoftmax(t *step.Tape, x step.T) step.T {
	y := wide(t, x.Numel(), x.Dtype(), step.LabelLogProbabilities)
	r := t.Replay([]step.T{x}, []step.T{y})
	r.AllocWide(0, x.Numel()*x.Dtype().Size(), step.LabelLogitsGradient)
	r.Send(0, 0, false, false)
	return y.Attached(r.End(1))
}

// klDivergence is kl_div(input, target, reduction="none", log_target=True): exp(target) * (target - input), the
// difference first. trained are those of both that gradients go back to.
// Source: aten/src/ATen/native/Loss.cpp (kl_div), torch 2.9.
func klDivergence(t *step.Tape, input, target step.T, trained ...step.T) step.T {
	n, d := target.Numel(), wider(input, target)
	bytes := n * d.Size()
	ofInput, ofTarget := slices.Contains(trained, input), slices.Contains(trained, target)
	difference := wide(t, n, d, step.LabelLogProbabilities)
	minus := t.Replay([]step.T{input, target}, nil)
	if ofInput {
		minus.AllocWide(0, bytes, step.LabelLogitsGradient)
	}
	if ofTarget {
		minus.Pass(0, 1, false)
	}
	if ofInput {
		minus.Send(0, 0, false, false)
	}
	difference = difference.Attached(minus.End(1))

	chance := wide(t, n, target.Dtype(), step.LabelLogProbabilities)
	if ofTarget {
		exp := t.Replay([]step.T{target}, []step.T{chance})
		exp.AllocWide(0, bytes, step.LabelLogitsGradient)
		exp.Send(0, 0, false, false)
		chance = chance.Attached(exp.End(1))
	}

	y := wide(t, n, d, step.LabelLoss)
	saved := []step.T{chance}
	if ofTarget {
		saved = append(saved, difference)
	}
	times := t.Replay([]step.T{difference, chance}, saved)
	times.AllocWide(0, bytes, step.LabelLogitsGradient)
	if ofTarget {
		times.AllocWide(1, bytes, step.LabelLogitsGradient)
	}
	times.Send(0, 0, false, false)
	if ofTarget {
		times.Send(1, 1, false, false)
	}
	t.Drop(difference, chance)
	return y.Attached(times.End(1))
}

// wider is the type of what is computed of two tensors: float32 where one of them is.
func wider(a, b step.T) step.DType {
	if a.Dtype() == step.F32 {
		return step.F32
	}
	return b.Dtype()
}

// mixed is the logarithm of the mixture of a student's distribution, whose logarithms x are, with a teacher's, which
// may be of another type: both are shifted, stacked, and logsumexp taken over the two. Source:
// aten/src/ATen/native/ReduceOps.cpp (logsumexp_out_impl), torch 2.9.
func mixed(t *step.Tape, x, teacher step.T) step.T {
	n, d := x.Numel(), wider(x, teacher)
	shifted := wide(t, n, x.Dtype(), step.LabelLogProbabilities)
	other := wide(t, n, teacher.Dtype(), step.LabelLogProbabilities)
	both := wide(t, 2*n, d, step.LabelLogProbabilities)
	stack := t.Replay([]step.T{x}, nil)
	stack.Pass(0, 0, true)
	both = both.Attached(stack.End(1))
	t.Drop(other, shifted)

	most := wide(t, n, d, step.LabelLogProbabilities)
	magnitude := wide(t, n, d, step.LabelLogProbabilities)
	t.Drop(wide(t, n, step.Bool, step.LabelLogProbabilities)) // where it is infinite
	t.Drop(magnitude)
	powers := wide(t, 2*n, d, step.LabelLogProbabilities)
	y := wide(t, n, d, step.LabelLogProbabilities)
	t.Drop(powers, most)
	r := t.Replay([]step.T{both}, []step.T{both, y})
	for register := range 3 { // grad * (self - result).exp()
		r.AllocWide(register, 2*n*d.Size(), step.LabelLogitsGradient)
	}
	r.Free(1)
	r.Free(0)
	r.Send(2, 0, false, false)
	t.Drop(both)
	return y.Attached(r.End(1))
}

// chosenRows is x[mask] with so many of the mask's entries true. Its backward looks for them again, and lays out the
// gradient, which is one number. Source: aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), torch 2.9.
func chosenRows(t *step.Tape, x, mask step.T, rows int64) step.T {
	bytes, numel := x.Numel()*x.Dtype().Size(), x.Numel()/mask.Numel()*rows
	indices := t.Input(2*rows, step.I64)
	y := wide(t, numel, x.Dtype(), step.LabelLoss)
	r := t.Replay([]step.T{x}, []step.T{mask})
	r.AllocWide(0, bytes, step.LabelLogitsGradient)
	r.Alloc(1, 2*rows*step.I64.Size(), step.LabelLoss)
	r.AllocWide(2, numel*x.Dtype().Size(), step.LabelLogitsGradient)
	r.Free(2)
	r.Free(1)
	r.Send(0, 0, false, false)
	t.Drop(indices)
	return y.Attached(r.End(1))
}

// summed is a loss that is the sum of x: its gradient is one number for all of x.
func summed(t *step.Tape, x step.T) step.T {
	y := row(t, 1)
	r := t.Replay([]step.T{x}, nil)
	r.Alloc(0, 4, step.LabelLoss)
	r.Send(0, 0, false, false)
	return y.Attached(r.End(1))
}
