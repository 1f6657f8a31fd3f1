package arch

import "github.com/vramplan/vramplan/estimator/step"

// side is along which side of a linear layer's matrix GPUs share it.
type side uint8

const (
	uncut side = iota
	// Columns: every GPU has some of the outputs, and all inputs go into them.
	Columns
	// Rows: every GPU has some of the inputs, and the outputs are summed.
	Rows
)

// Planned says whether transformers' tp_plan of the model is replayed.
func (a *Architecture) Planned() bool {
	return a.Described != nil && a.Described.Planned && a.Class == ClassCausalLM && !a.Generic && a.Written == nil &&
		a.LoRA == nil && a.Quantised == "" && !a.OutBias && !a.MLPBias && a.Gated &&
		a.AttentionDropout == 0
}

// CutPlan leaves of the layers what one of n GPUs has by the tp_plan.
func (a *Architecture) CutPlan(n int64) {
	a.plan = n
	a.Heads, a.KVHeads, a.FFN = a.Heads/n, a.KVHeads/n, a.FFN/n
}

// Cut says that GPUs share the layers along a side, where a plan has them share.
func (b *Builder) Cut(s side, layers ...*Linear) {
	if b.A.plan == 0 {
		return
	}
	for _, m := range layers {
		m.Side = s
	}
}

// shared is forward where GPUs share the layer.
func (m *Linear) shared(t *step.Tape, x step.T) step.T {
	if m.Side == Rows {
		return t.SumOverGPUs(m.base(t, x))
	}
	x = t.SharedInput(x)
	y := m.base(t, x)
	t.Drop(x)
	return y
}
