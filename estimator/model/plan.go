package model

import "github.com/vramplan/vramplan/estimator/step"

// side is along which side of a linear layer's matrix GPUs share it.
type side uint8

const (
	uncut side = iota
	// columns: every GPU has some of the outputs, and all inputs go into them.
	columns
	// rows: every GPU has some of the inputs, and the outputs are summed.
	rows
)

// Planned says whether transformers' tp_plan of the model is replayed.
func (a *Architecture) Planned() bool {
	return a.family != nil && a.family.planned && a.Class == classCausalLM && !a.Generic && a.written == nil &&
		a.LoRA == nil && a.Quantised == "" && !a.OutBias && !a.MLPBias && a.Gated &&
		a.AttentionDropout == 0
}

// CutPlan leaves of the layers what one of n GPUs has by the tp_plan.
func (a *Architecture) CutPlan(n int64) {
	a.plan = n
	a.Heads, a.KVHeads, a.FFN = a.Heads/n, a.KVHeads/n, a.FFN/n
}

// cut says that GPUs share the layers along a side, where a plan has them share.
func (b *builder) cut(s side, layers ...*linear) {
	if b.a.plan == 0 {
		return
	}
	for _, m := range layers {
		m.side = s
	}
}

// shared is forward where GPUs share the layer.
func (m *linear) shared(t *step.Tape, x step.T) step.T {
	if m.side == rows {
		return t.SumOverGPUs(m.base(t, x))
	}
	x = t.SharedInput(x)
	y := m.base(t, x)
	t.Drop(x)
	return y
}
