package pictures

import "github.com/vramplan/vramplan/estimator/step"

// pictureGroups say of each token to which picture it belongs.
type pictureGroups struct{ shown, begins, numbers step.T }

// groupPictures counts the pictures: one begins where a token of a picture follows another kind of token.
// Source: transformers/models/gemma3/modeling_gemma3.py (Gemma3Model.forward), 4.57.
func groupPictures(t *step.Tape) pictureGroups {
	n, b := t.Shape.Tokens, t.Shape.Batch
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	shown := in(b*n, step.Bool)
	padded := in(b*(n+1), step.Bool)
	other := in(b*n, step.Bool)
	t.Drop(padded)
	begins := in(b*n, step.Bool)
	t.Drop(other)
	short := in(b*n, step.F32) // 32 bits
	counted := t.CumulativeSumOf(b, n)
	t.Drop(short)
	moved := in(b*n, step.I64)
	t.Drop(counted)
	none := in(b*n, step.I64)
	numbers := in(b*n, step.I64)
	t.Drop(none, moved)
	return pictureGroups{shown: shown, begins: begins, numbers: numbers}
}

// mask is create_causal_mask or, for layers with a window, create_sliding_window_causal_mask, with
// token_type_ids_mask_function for an or_mask_function: tokens of one picture see each other. It is boolean, and sdpa
// makes it additive in each layer. Source: transformers/masking_utils.py, models/gemma3/modeling_gemma3.py
// (token_type_ids_mask_function), 4.57.
func (g pictureGroups) mask(t *step.Tape, windowed bool) step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	drop := func(xs ...step.T) {
		for _, x := range xs {
			t.Drop(x)
		}
	}
	given := in(b*n, step.Bool)
	places := []step.T{in(n, step.I64), in(b, step.I64), in(1, step.I64)}
	ones, none := in(n, step.Bool), in(n, step.Bool)
	seen := lookBack(t, windowed)
	either := in(n*n, step.Bool)
	drop(seen, none)
	bound := func(numel int64) step.T {
		within, zero := in(n, step.Bool), in(1, step.I64)
		chosen := in(numel, step.I64)
		drop(zero, within)
		return chosen
	}
	taken := func(d step.DType) step.T { // of a tensor of all tokens, by indices that are laid out first
		laidOut := []step.T{in(b*n, step.I64)}
		if b > 1 {
			laidOut = append(laidOut, in(b*n, step.I64))
		}
		x := in(b*n, d)
		drop(laidOut...)
		return x
	}
	safe := bound(n)
	kindAt := taken(step.I64)
	kind := bound(b * n)
	drop(kindAt)
	groupAt := taken(step.I64)
	group := bound(b * n)
	drop(groupAt)
	asked := taken(step.I64)
	first := in(b*n, step.Bool)
	drop(asked)
	second := in(b*n, step.Bool)
	both := in(b*n*n, step.Bool)
	drop(first, second)
	own := taken(step.I64)
	same := in(b*n*n, step.Bool)
	drop(own)
	together := in(b*n*n, step.Bool)
	drop(safe, kind, group, both, same)
	causal := in(b*n*n, step.Bool)
	drop(together, either)
	all := in(b*n*n, step.Bool)
	drop(causal, ones)
	attended := taken(step.Bool)
	mask := in(b*n*n, step.Bool)
	drop(attended, all)
	drop(places...)
	drop(given)
	return mask
}

// lookBack is which tokens see which earlier ones, of those in the window where there is one.
func lookBack(t *step.Tape, windowed bool) step.T {
	n := t.Shape.Tokens
	in := func(numel int64) step.T { return t.Input(numel, step.Bool) }
	if !windowed {
		return in(n * n)
	}
	ones, least := in(n), t.Input(n, step.I64)
	inWindow := in(n * n)
	t.Drop(least)
	both := in(n * n)
	t.Drop(inWindow, ones)
	before := in(n * n)
	seen := in(n * n)
	t.Drop(before, both)
	return seen
}
