package step

import "github.com/vramplan/vramplan/estimator/release"

// RepeatKV repeats keys or values for every query head of their group; nothing when there is one, and a view
// where all queries share one head.
// Source: transformers/integrations/sdpa_attention.py (repeat_kv), 4.57.
func (t *Tape) RepeatKV(x T, h Heads) T {
	switch h.KV {
	case h.Query:
		return t.Hold(x)
	case 1:
		return t.Expand(x, h.Query)
	}
	return t.exec.repeatKV(t, x, h)
}

// RepeatsGrouped says whether a family's code repeats grouped keys and values in front of attention: for the
// written-out formula, beside a mask, in former releases always, and for heads that no kernel takes.
// Sources: transformers/integrations/sdpa_attention.py (use_gqa_in_sdpa), 4.57; modeling_llama.py (LlamaSdpaAttention),
// 4.47.
func (t *Tape) RepeatsGrouped(h Heads, masked bool) bool {
	return h.KV < h.Query && (t.Recipe.Attention == AttentionEager || masked || t.Recipe.RepeatsKV || t.RepeatsWide(h))
}

// repeatsWideHeads repeats grouped keys and values of heads that no kernel of attention takes.
var repeatsWideHeads = release.Declare("repeats-wide-heads", release.Change{
	Library: "transformers", After: "5.12", From: "5.13",
	What: "grouped keys and values of heads wider than 256 are repeated for scaled_dot_product_attention since " +
		"transformers 5.13, as Gemma 4's layers without a window have them",
	Source: "integrations/sdpa_attention.py (use_gqa_in_sdpa), 5.12.0, 5.13.0 and 5.23.0",
	Shown:  "traces of Gemma 4 with 5.23",
})

// RepeatsWide says whether transformers repeats grouped keys and values for scaled_dot_product_attention because no
// kernel takes heads so wide.
// Source: transformers/integrations/sdpa_attention.py (use_gqa_in_sdpa), 5.12, 5.13 and 5.23.
func (t *Tape) RepeatsWide(h Heads) bool {
	const widest = 256
	return t.Recipe.Software.Has(repeatsWideHeads) && (h.Dim > widest || h.value() != h.Dim)
}

func (eager) repeatKV(t *Tape, x T, h Heads) T {
	y := t.fresh(x.numel/h.KV*h.Query, x.dtype, LabelExpandedKV)
	y.layout = headsFirst
	// The sum over the repetitions is handed on as a view without their dimension.
	sums := act{verb: actSendMarked}
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).act(sums).out(y, 0)
}

// interleaveKV is k.repeat_interleave, with which torch repeats grouped heads in its own formula.
func (t *Tape) interleaveKV(x T, h Heads) T {
	if h.KV == h.Query {
		return t.Hold(x)
	}
	return eager{}.repeatKV(t, x, h)
}

// relaid is a view of x whose gradient arrives in another layout and is copied into this one. It takes over x.
func (t *Tape) relaid(x T) T { return t.exec.relaid(t, x) }

func (eager) relaid(t *Tape, x T) T {
	return t.op(x).alloc(0, x.bytes(), LabelContiguous).send(0, 0).out(x, 0)
}

// Heads is x.view(B, T, heads, dim).transpose(1, 2), whose gradient has to be copied back
// when it arrives with the heads outermost. It takes over x.
func (t *Tape) Heads(x T, copyBack bool) T {
	if !copyBack {
		return x
	}
	return t.relaid(x)
}

// Rotary applies rotary positions as transformers writes them, x·cos + rotate_half(x)·sin.
// Source: transformers/models/llama/modeling_llama.py (apply_rotary_pos_emb), 4.57.
func (t *Tape) Rotary(x, cos, sin T) T { return t.exec.rotary(t, x, cos, sin, x.dtype) }

// WideRotary is Rotary where both products are those of float32 copies, x.float()·cos + rotate_half(x).float()·sin.
// Source: transformers/models/ernie4_5/modeling_ernie4_5.py (apply_rotary_pos_emb), 5.23.
func (t *Tape) WideRotary(x, cos, sin T) T { return t.exec.rotary(t, x, cos, sin, F32) }

// rotary turns x with products of its elements in d.
func (eager) rotary(t *Tape, x, cos, sin T, d DType) T {
	times := func(x, factor T) T { // takes over x
		y := t.Cast(x, d, LabelRotary)
		t.Drop(x)
		product := t.mulBroadcast(y, factor)
		t.Drop(y)
		return product
	}
	direct := times(t.Hold(x), cos)
	shifted := times(t.RotateHalf(x), sin)
	y := t.Add(direct, shifted, LabelRotary)
	t.Drop(direct, shifted)
	return y
}

// RotateHalf is rotate_half: the second half of every head, negated, before the first.
func (t *Tape) RotateHalf(x T) T {
	half := x.bytes() / 2
	o := t.op(x).alloc(0, x.bytes(), LabelRotary).send(0, 0)
	first := o.out(T{storage: x.storage, form: plain(x.dtype), numel: x.numel / 2}, 0)
	o = t.op(x).alloc(0, x.bytes(), LabelRotary).send(0, 0)
	second := o.out(T{storage: x.storage, form: plain(x.dtype), numel: x.numel / 2}, 0)
	negated := t.fresh(x.numel/2, x.dtype, LabelRotary)
	negated = t.op(second).alloc(0, half, LabelRotary).send(0, 0).out(negated, 0)
	rotated := t.fresh(x.numel, x.dtype, LabelRotary)
	rotated = t.op(negated, first).pass(0, 0).pass(0, 1).out(rotated, 0)
	t.Drop(negated)
	return rotated
}

// mulBroadcast is x times a factor without gradient that is broadcast to x's shape.
func (t *Tape) mulBroadcast(x, factor T) T { return t.Mul(x, factor, false, LabelRotary) }

// CacheAppend is DynamicCache.update on an empty cache: torch.cat of nothing and x, in the type d of
// the cache, which is that of the first keys.
// Source: transformers/cache_utils.py (DynamicLayer.update), 4.57.
func (t *Tape) CacheAppend(x T, d DType) T { return t.exec.cacheAppend(t, x, d) }

// CachedState is what a cache keeps of a layer besides keys and values: numel elements that no gradient reaches.
func (t *Tape) CachedState(numel int64, d DType) T { return t.fresh(numel, d, LabelCache) }

func (eager) cacheAppend(t *Tape, x T, d DType) T {
	y := t.fresh(x.numel, d, LabelCache)
	y.layout = headsFirst
	o := t.op(x)
	if x.dtype == d {
		o.pass(0, 0)
	} else {
		o.alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	}
	return o.out(y, 0)
}
