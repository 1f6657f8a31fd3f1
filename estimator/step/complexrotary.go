package step

// ComplexRotary turns queries and keys as Meta's Llama writes it: in float32, as complex numbers times a table of them.
// Backward makes a conjugate copy of the table each time. Source: torchtitan/models/llama3/model/model.py
// (apply_rotary_emb), 0.2.0.
func (t *Tape) ComplexRotary(q, k T, dim int64) (qr, kr T) {
	given := [2]T{q, k}
	var wide, turned, back [2]T
	for i, x := range given {
		wide[i] = t.Float(x, LabelRotary)
	}
	for i, x := range wide {
		turned[i] = t.turned(x, dim)
	}
	for i, x := range turned {
		back[i] = t.Cast(x, given[i].dtype, LabelRotary)
	}
	for i := range given {
		t.Drop(wide[i])
	}
	for i := range given {
		t.Drop(turned[i])
	}
	return back[0], back[1]
}

// turned is x times the table of heads of dim elements.
func (t *Tape) turned(x T, dim int64) T {
	y := t.fresh(x.numel, F32, LabelRotary)
	const conjugate = 1
	return t.op(x).alloc(conjugate, t.Shape.Tokens*dim*F32.Size(), LabelRotary).alloc(0, x.bytes(),
		LabelRotary).free(conjugate).
		send(0, 0).out(y, 0)
}

// ComplexTurn is the same for one tensor, or a part of one, and lays it out densely.
// Source: torchtitan/models/deepseek_v3/model/model.py (apply_rotary_emb), 0.2.0.
func (t *Tape) ComplexTurn(x T, dim int64) T {
	wide := t.Float(x, LabelRotary)
	turned := t.turned(wide, dim)
	y := t.Cast(turned, x.dtype, LabelRotary)
	t.Drop(wide, turned)
	return y
}

// RepeatTokens repeats keys or values for every query head of their group, tokens outermost.
// Source: torchtitan/models/llama3/model/model.py (repeat_kv), 0.2.0.
func (t *Tape) RepeatTokens(x T, h Heads) T {
	if h.KV == h.Query {
		return t.Hold(x)
	}
	y := t.Hold(x)
	y.numel *= h.Query // one head is shown to all queries
	if h.KV > 1 {
		t.Drop(y)
		y = t.fresh(x.numel/h.KV*h.Query, x.dtype, LabelExpandedKV)
	}
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
