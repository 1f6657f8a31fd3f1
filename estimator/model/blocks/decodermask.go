package blocks

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// DropsCacheFirst leaves a checkpointed model without a cache before it makes its masks.
var DropsCacheFirst = release.Declare("drops-cache-first", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "transformers 5.10 decides that a checkpointed model has no cache before its forward begins: " +
		"Whisper, whose decoder is given no mask, looks for packed sequences, and goes without a mask where there " +
		"are none",
	Source: "utils/generic.py (merge_with_config_defaults), masking_utils.py (find_packed_sequence_indices), " +
		"models/whisper/modeling_whisper.py, 4.57.6 and 5.23.0",
	Shown: "traces of checkpointed Whisper",
})

// DecoderOnlyMask is create_causal_mask for a decoder whose batch has no mask: for sdpa none. Without a cache, unless
// sequences are looked for that somebody packed into one, which leaves a boolean mask in 4.57 and nothing in 5.23,
// where it is seen that there are none.
// Source: transformers/masking_utils.py (create_causal_mask, find_packed_sequence_indices), 4.57 and 5.23.
func DecoderOnlyMask(t *step.Tape, packed bool, d step.DType) *step.T {
	n, b := t.Shape.Target, t.Shape.Batch
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	eager := t.Recipe.Attention == step.AttentionEager
	var numbers step.T // of the sequences that tokens belong to
	if packed {
		if numbers = packedSequences(t); t.Recipe.Software.Has(DropsCacheFirst) { // and there is one in each row
			t.Drop(numbers)
			packed = false
		}
	}
	if !packed && !eager {
		return nil
	}
	var indices [4]step.T
	if t.Recipe.Software.Has(broadcastsMask) && !packed {
		indices = [...]step.T{in(b, step.I64), in(1, step.I64), PositionNumbersOf(t, n), PositionNumbersOf(t, n)}
	} else {
		indices = [...]step.T{in(n, step.I64), in(b, step.I64), in(1, step.I64), step.NoTensor}
	}
	ones := step.NoTensor
	if packed {
		ones = in(n, step.Bool)
	}
	mask := in(n*n, step.Bool)
	if packed {
		causal := in(n*n, step.Bool)
		t.Drop(mask, ones)
		first, second := numbersOf(t), numbersOf(t)
		same := in(b*n*n, step.Bool)
		t.Drop(first, second)
		mask = in(b*n*n, step.Bool)
		t.Drop(same, causal)
	}
	for _, x := range indices {
		t.Drop(x)
	}
	if eager {
		zero, least := in(1, d), in(1, d)
		additive := in(b*n*n, d)
		t.Drop(least, zero, mask)
		mask = additive
	}
	if packed {
		t.Drop(numbers)
	}
	return &mask
}

// packedSequences is find_packed_sequence_indices: wherever positions do not go up by one, another sequence begins.
func packedSequences(t *step.Tape) step.T {
	n, b := t.Shape.Target, t.Shape.Batch
	before := t.Input(b, step.I64)
	prepended := t.Input(b*(n+1), step.I64)
	steps := t.Input(b*n, step.I64)
	t.Drop(prepended)
	begins := t.Input(b*n, step.Bool)
	numbers := t.CumulativeSumOf(b, n)
	t.Drop(begins)
	if t.Recipe.Software.Has(DropsCacheFirst) {
		last, all := t.Input(b, step.Bool), t.Input(1, step.Bool)
		t.Drop(last, all)
	}
	t.Drop(steps, before)
	return numbers
}

// numbersOf is numbers[batch, token] with indices that are laid out to the same shape first.
func numbersOf(t *step.Tape) step.T {
	n := t.Shape.Batch * t.Shape.Target
	i, j := t.Input(n, step.I64), t.Input(n, step.I64)
	y := t.Input(n, step.I64)
	t.Drop(j, i)
	return y
}
