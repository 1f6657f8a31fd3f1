package step

// SplitHeads is x.split((q, kv, kv), dim=-1) into queries, keys and values, kv elements each of the latter: views,
// whose gradients are joined in one tensor.
func (t *Tape) SplitHeads(x T, kv int64) (q, k, v T) {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	part := func(i int, numel int64) T {
		p := t.Hold(x)
		p.numel = numel
		return o.out(p, i)
	}
	return part(0, x.numel-2*kv), part(1, kv), part(2, kv)
}
