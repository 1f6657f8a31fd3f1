package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Alibi is build_alibi_tensor: a bias for every head and position of every sequence, in d. Falcon rounds the slopes to
// bfloat16 first.
// Source: transformers/models/bloom/modeling_bloom.py, models/falcon/modeling_falcon.py (build_alibi_tensor), 4.57.
func Alibi(t *step.Tape, heads int64, rounded bool, d step.DType) step.T {
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
		t.Drop(slopes, more)
		slopes = joined
		held = append(held, extra...)
	}
	if t.Recipe.Software.Has(MasksByLibrary) && !rounded { // slopes are made in a function of their own
		for _, x := range held {
			t.Drop(x)
		}
		held = nil
	}
	sum := t.CumulativeSum(b, n)
	before := t.Input(b*n, step.I64)
	t.Drop(sum)
	positions := t.Input(b*n, step.I64)
	t.Drop(before)
	formed := step.F32
	if rounded {
		formed = step.BF16
		defer t.Drop(slopes)
		slopes = t.Input(heads, formed)
	}
	y := t.Input(b*heads*n, formed)
	if rounded {
		t.Drop(slopes)
	} else {
		held = append(held, slopes)
	}
	if d != formed {
		cast := t.Input(b*heads*n, d)
		t.Drop(y)
		y = cast
	}
	t.Drop(append(held, positions)...)
	return y
}

// AlibiMask adds the triangle to the scaled bias, in d: a mask for every head. Every row of it has something to attend
// to, which sdpa looks at nevertheless. Source: transformers/models/falcon/modeling_falcon.py (_update_causal_mask),
// modeling_attn_mask_utils.py (_unmask_unattended), 4.57; models/falcon/modeling_falcon.py (FalconModel.forward), 5.23.
func AlibiMask(t *step.Tape, heads int64, d step.DType) step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	later := t.Recipe.Software.Has(MasksByLibrary)
	var triangle step.T
	if later {
		triangle = libraryTriangle(t, d)
	} else {
		triangle = additiveTriangle(t, d)
	}
	scaled, below := t.Input(b*heads*n, d), t.Input(b*n*n, step.Bool)
	mask := t.Input(b*heads*n*n, d)
	t.Drop(scaled, below, triangle)
	if t.Recipe.Attention == step.AttentionEager || later {
		return mask
	}
	least := t.Input(b*heads*n*n, step.Bool)
	all := t.Input(b*heads*n, step.Bool)
	t.Drop(least)
	not := t.Input(b*heads*n, step.Bool)
	t.Drop(all)
	unmasked := t.Input(b*heads*n*n, d)
	t.Drop(not, mask)
	return unmasked
}

// libraryTriangle is create_causal_mask's mask that is never left out, made additive where it is not.
func libraryTriangle(t *step.Tape, d step.DType) step.T {
	mask := *MaskOf(t, TokensOfMask{Count: t.Shape.Tokens}, d, false)
	if t.Recipe.Attention == step.AttentionEager {
		return mask
	}
	return Additive(t, mask, d)
}

// RunPairs takes over x and runs n layers on it that return the attention's probabilities, where they are formed, with
// their output. A variable holds what a layer returned until the next has returned; the last one's are handed on.
func RunPairs(t *step.Tape, a *arch.Architecture, n int, x step.T, besides step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) (step.T, *step.T) {
	var held *step.T
	unit := int(a.UnitLayers())
	for i := range n {
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T { return layer(t, i, x) }, besides)
		probabilities, ok := t.Second()
		if held != nil {
			t.Drop(*held)
		}
		if held = nil; ok {
			held = &probabilities
		}
	}
	t.EndLayers()
	return x, held
}
