package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// declareGrouped lists the modules of DeepseekV3MoE whose experts are two tensors.
func (own *routed) declareGrouped(b *arch.Builder, s *routedLayer) {
	e := own.experts
	s.grouped = &blocks.GroupedBlock{A: b.A, E: e}
	s.grouped.DeclareExperts(b)
	own.declareRouter(b, s)
	if e.SharedFFN > 0 {
		s.mlp = arch.BuildGatedMLP(b, "mlp.shared_experts", e.SharedFFN, b.A.MLPBias)
	}
}

// groupedMixture is DeepseekV3MoE or DeepseekV2Moe whose experts run as grouped products.
// Source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3MoE.forward), 5.23.
func (own *routed) groupedMixture(a *arch.Architecture, t *step.Tape, s *routedLayer, x step.T) step.T {
	logits, chosen, weights := own.routeInGraph(t, s, x)
	tokens := t.View(t.Hold(x))
	y := s.grouped.Mix(t, tokens, weights, chosen)
	t.Drop(tokens)
	if own.experts.SharedFFN > 0 {
		shared := s.mlp.Forward(t, a, x)
		sum := t.Add(y, shared, step.LabelResidual)
		t.Drop(shared, y)
		y = sum
	}
	t.Drop(logits, chosen, weights)
	return y
}

// routeInGraph is DeepseekV3TopkRouter or DeepseekV2TopkRouter, which return their logits, too.
func (own *routed) routeInGraph(t *step.Tape, s *routedLayer, x step.T) (logits, chosen, weights step.T) {
	open := s.router.Adapter.Open(t)
	defer open.Close(t)
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	logits = s.logits(t, open, x)
	if own.Second {
		chosen, weights = own.bestOfSoftmax(t, logits)
		return logits, chosen, weights
	}
	scores := t.Sigmoid(logits, step.LabelRouting)
	chosen, locals := own.chooseInGraph(t, scores, scores.Dtype().With(s.biasType))
	weights, more := own.normalised(t, t.Chosen(scores, chosen))
	scaled := t.MulScalar(weights, step.LabelRouting)
	t.Drop(append(append(locals, more...), weights, scores)...)
	return logits, chosen, scaled
}

// bestOfSoftmax is how V2 chooses.
func (own *routed) bestOfSoftmax(t *step.Tape, logits step.T) (chosen, weights step.T) {
	e := own.experts
	scores := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	var locals []step.T
	if own.groups > 0 {
		allowed, more := own.bestGroups(t, scores)
		t.Drop(scores)
		scores, locals = allowed, more
	}
	top, chosen := t.TopK(scores, e.Count, e.TopK)
	weights = t.MulScalar(top, step.LabelRouting)
	t.Drop(append(locals, top, scores)...)
	return chosen, weights
}

// chooseInGraph are the best groups by their two best experts, then the best experts in them. Gradients are kept track
// of although none ever comes: what an operation saves lives as long as what it made, unless it is checkpointed. d is
// the type of the corrected scores.
func (own *routed) chooseInGraph(t *step.Tape, scores step.T, d step.DType) (chosen step.T, locals []step.T) {
	e, n := own.experts, t.Shape.N()
	in := func(numel int64, d step.DType) step.T { return t.RoutingTensor(numel, d) }
	saved := func(x step.T) {
		if t.Remembers(scores) {
			locals = append(locals, x)
		} else {
			t.Drop(x)
		}
	}
	corrected := in(n*e.Count, d)
	best, places := in(n*own.groups*2, d), in(n*own.groups*2, step.I64)
	saved(places)
	groups := in(n*own.groups, step.F32)
	t.Drop(best)
	values, group := in(n*own.chosenGroups, step.F32), in(n*own.chosenGroups, step.I64)
	t.Drop(values)
	mask := in(n*own.groups, step.F32)
	spread := own.spread(t, mask)
	keep := in(n*e.Count, step.Bool)
	drop := in(n*e.Count, step.Bool)
	t.Drop(keep)
	masked := in(n*e.Count, d)
	saved(drop)
	t.Drop(corrected)
	values, chosen = in(n*e.TopK, d), in(n*e.TopK, step.I64)
	t.Drop(values)
	return chosen, append(locals, groups, group, mask, spread, masked)
}
