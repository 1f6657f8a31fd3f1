package model

import "github.com/vramplan/vramplan/estimator/step"

// alibi is build_alibi_tensor: a bias for every head and position of every sequence, in d.
// Source: transformers/models/bloom/modeling_bloom.py (build_alibi_tensor), 4.57.
func alibi(t *step.Tape, heads int64, d step.DType) step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	power := int64(1) // the closest power of two
	for 2*power <= heads {
		power *= 2
	}
	base, powers := t.Input(1, step.F32), t.Input(power, step.F32)
	slopes := t.Input(power, step.F32)
	held := []step.T{base, powers}
	if power != heads {
		rest := min(power, heads-power)
		extra := []step.T{t.Input(1, step.F32), t.Input(rest, step.F32)}
		more := t.Input(rest, step.F32)
		joined := t.Input(heads, step.F32)
		t.Drop(slopes)
		t.Drop(more)
		slopes = joined
		held = append(held, extra...)
	}
	sum := t.CumulativeSum(b, n)
	before := t.Input(b*n, step.I64)
	t.Drop(sum)
	positions := t.Input(b*n, step.I64)
	t.Drop(before)
	y := t.Input(b*heads*n, step.F32)
	if d != step.F32 {
		cast := t.Input(b*heads*n, d)
		t.Drop(y)
		y = cast
	}
	for _, x := range append(held, slopes, positions) {
		t.Drop(x)
	}
	return y
}
