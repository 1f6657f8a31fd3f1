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

// planFamilies are the families whose tp_plan cuts the projections of attention and MLP and nothing else; that of the
// head, which the classes list, does not reach the model. Source: transformers/models/*/configuration_*.py
// (base_model_tp_plan), modeling_utils.py (PreTrainedModel.post_init), 4.57.
var planFamilies = []*family{&llamaFamily, &mistralFamily, &qwen2Family, &qwen3Family, &gemmaFamily, &gemma2Family,
	&gemma3TextFamily, &graniteFamily, &cohereFamily, &olmoFamily, &smolLM3Family}

// Planned says whether transformers' tp_plan of the model is replayed.
func (a *Architecture) Planned() bool {
	for _, f := range planFamilies {
		if a.family == f {
			return a.Class == classCausalLM && !a.Generic && !a.LitGPT && a.titan == nil && a.LoRA == nil &&
				a.Quantised == "" && !a.OutBias && !a.MLPBias && a.Gated && a.AttentionDropout == 0
		}
	}
	return false
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
