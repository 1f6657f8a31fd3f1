package step

// softmax keeps its result. Where nothing is checkpointed, the first layer's keeps the scores as a product
// wrote them, if these are smaller, with the largest score and the sum of every row: so the partitioner cuts the traced
// models. Source: torch/_decomp/decompositions.py (_softmax, _softmax_backward_data), torch 2.9.
func (inductor) softmax(t *Tape, x T, l Label) T {
	if t.layersRun > 1 || t.Recipe.CheckpointEvery > 0 || t.computedFrom(x) >= x.bytes() {
		y := t.realize(t.fuse(x.numel, x.dtype, l, []T{x}))
		return t.op(y).save(y).pass(0, 0).out(y, 0)
	}
	rows := x.numel / t.Shape.Tokens
	largest, sum := t.fresh(rows, F32, LabelAttentionStatistics), t.fresh(rows, F32, LabelAttentionStatistics)
	y := t.fuse(x.numel, x.dtype, l, []T{x}, x, largest, sum)
	t.Drop(largest, sum)
	return y
}

// computedFrom is the bytes of what x is computed from: its own where it exists.
func (t *Tape) computedFrom(x T) int64 {
	if !t.isLazy(x) {
		return x.bytes()
	}
	z := t.lazies[t.storages[x.storage].lazy-1]
	largest := int64(0)
	for _, s := range z.from[:z.n] {
		if s == None {
			continue
		}
		st := t.storages[s]
		switch {
		case st.lazy > 0:
			largest = max(largest, t.computedFrom(T{storage: s}))
		case st.slot != None:
			largest = max(largest, t.Prog.Slots[st.slot].Bytes)
		}
	}
	return largest
}

// SumsAgain says that the norms which follow keep, under torch.compile, what their input is the sum of: the partitioner
// lets the model's residual stream be summed again in backward.
func (t *Tape) SumsAgain() { t.sumsAgain = true }
