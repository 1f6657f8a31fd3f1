package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// routeBySoftmax is DeepseekV2MoEGate.
func (own *routed) routeBySoftmax(t *step.Tape, s *routedLayer, x step.T) (chosen, weights step.T) {
	e := own.experts
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	logits := s.logits(t, nil, x)
	scores := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	allowed := t.Hold(scores)
	var locals []step.T
	if own.groups > 0 {
		t.Drop(allowed)
		allowed, locals = own.bestGroups(t, scores)
	}
	top, chosen := t.TopK(allowed, e.Count, e.TopK)
	weights = t.MulScalar(top, step.LabelRouting)
	t.Drop(append(locals, top, allowed, scores, logits)...)
	return chosen, weights
}

// bestGroups fills the scores outside the best groups with zeros. It also returns what variables hold.
func (own *routed) bestGroups(t *step.Tape, scores step.T) (step.T, []step.T) {
	n, e := t.Shape.N(), own.experts
	in := func(numel int64, d step.DType) step.T { return t.RoutingTensor(numel, d) }
	groups, best := in(n*own.groups, step.F32), in(n*own.groups, step.I64)
	values, group := in(n*own.chosenGroups, step.F32), in(n*own.chosenGroups, step.I64)
	t.Drop(values)
	mask := in(n*own.groups, step.F32)
	spread := own.spread(t, mask)
	keep := in(n*e.Count, step.Bool)
	drop := in(n*e.Count, step.Bool)
	t.Drop(keep)
	allowed := t.MaskedFill(scores, drop)
	t.Drop(drop)
	return allowed, []step.T{groups, best, group, mask, spread}
}

// mixSorted is DeepseekV2MoE.moe: tokens are sorted by experts, and the experts' outputs put back.
func (own *routed) mixSorted(a *arch.Architecture, t *step.Tape, s *routedLayer, x, chosen, weights step.T) step.T {
	e, d := own.experts, a.Hidden
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	counts := t.RoutingTensor(t.Shape.N()*e.Count, step.I64)
	perExpert := t.SumOverTokens(t.Shape.N(), e.Count)
	order := t.ArgSort(chosen.Numel())
	tokens := t.RoutingTensor(chosen.Numel(), step.I64)
	sorted := t.Rows(x, d, tokens)
	t.Drop(tokens)
	outputs := make([]step.T, len(s.experts))
	var start, end step.T
	rows, count := chosen.Numel(), int64(len(s.experts))
	for i := range count {
		t.Drop(t.RoutingTensor(1, step.Bool))
		next := t.RoutingTensor(1, step.I64)
		if i > 0 {
			t.Drop(end)
		}
		end = next
		input := t.SliceRows(sorted, ((i+1)*rows/count-i*rows/count)*d)
		outputs[i] = s.experts[i].Forward(t, a, input)
		t.Drop(input)
		if i > 0 {
			t.Drop(start)
		}
		start = t.Hold(end)
	}
	all := t.Stack(outputs)
	placed := t.PutRows(all, order)
	wide := t.Cast(placed, weights.Dtype(), step.LabelExpertOutput)
	wide = t.MulInPlace(wide, weights, placed.Dtype() == weights.Dtype())
	sum := t.SumRowsKept(wide, e.TopK)
	t.Drop(wide)
	y := t.Cast(sum, placed.Dtype(), step.LabelExpertOutput)
	t.Drop(append(outputs, counts, perExpert, order, sorted, start, end, all, placed, sum)...)
	return y
}
