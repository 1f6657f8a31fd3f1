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
	s := &t.Prog.Slots[t.slot(AllocOnce, numel*d.Size(), Weights, l)]
	s.Dtype, s.Typed, s.Unit = d, true, -1
}
