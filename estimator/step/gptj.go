package step

// JoinTokens is torch.cat((a, b), dim=-1) of two parts of heads that lie with the tokens outermost.
func (t *Tape) JoinTokens(a, b T) T {
	y := t.JoinHeads(a, b)
	y.layout = tokensFirst
	return y
}

// Once is a tensor that the model makes the first time that it runs, and keeps.
func (t *Tape) Once(numel int64, d DType, l Label) {
	if t.recompute || t.stopped {
		return
	}
	slot := int32(len(t.prog.Slots))
	t.prog.Slots = append(t.prog.Slots, Slot{Bytes: numel * d.Size(), Component: Weights, Part: t.part, Label: l, Dtype: d, Typed: true, Unit: -1})
	t.prog.Events = append(t.prog.Events, Event{slot, AllocOnce})
}
