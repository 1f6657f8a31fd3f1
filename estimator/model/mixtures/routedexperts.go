package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// routed is a mixture whose router corrects the scores of the experts by a bias and may choose groups of them first:
// that of DeepSeek V2 and V3 and of GLM 4.5.
type routed struct {
	groups, chosenGroups int64
	// FirstDense is how many layers before the others have an ordinary MLP.
	FirstDense int64
	// biasCounts says that the router's correction is counted with the parameters, as published counts do.
	biasCounts bool
	// wideBias says that the correction is made in float32, whatever the model is built in.
	wideBias bool
	experts  *arch.Experts
	// Second marks V2's, which routes by a softmax and sorts tokens by their experts.
	Second bool
}

// routedLayer is what a layer has of a routed mixture.
type routedLayer struct {
	mlp      arch.GatedMLP // the layer's, or the shared experts'
	router   arch.Router
	biasType step.DType // of the router's correction
	experts  []arch.GatedMLP
	grouped  *blocks.GroupedBlock // instead of experts
}

// checkGroups holds the groups of experts against their number; a group has at least as many as given.
func (own *routed) checkGroups(c *arch.Config, least int64) {
	count, groups := own.experts.Count, own.groups
	if groups > 0 && count > 0 && (count%groups != 0 || count < least*groups || own.chosenGroups > groups) {
		c.Errs.Add(c.Pointer+"/n_group", "not_divisible", "%d experts in %d groups, of which %d are chosen: groups "+
			"are of equal size and hold at least %d",
			count, groups, own.chosenGroups, least)
	}
}

// RoutedOf is a's routed mixture, or nil.
func RoutedOf(a *arch.Architecture) *routed {
	own, ok := a.Own.(interface{ routing() *routed })
	if !ok {
		return nil
	}
	return own.routing()
}

// readRouted reads the numbers of the experts.
func readRouted(c *arch.Config) routed {
	e := &arch.Experts{Count: c.Integer("n_routed_experts", arch.MaxExperts), TopK: c.Integer("num_experts_per_tok", arch.MaxExperts),
		FFN: c.Integer("moe_intermediate_size", arch.MaxWidth), Path: "mlp", Expert: arch.BuildGatedMLP}
	e.SharedFFN = e.FFN * c.Integer("n_shared_experts", arch.MaxExperts)
	own := routed{experts: e}
	if _, named := c.Defaults["first_k_dense_replace"]; !named { // GLM 4.7 Flash's class says it by layers
		return own
	}
	if n, ok := c.Value("first_k_dense_replace"); !ok || n != 0.0 {
		own.FirstDense = c.Integer("first_k_dense_replace", arch.MaxLayers)
	}
	return own
}

// groupsOfTwo reads how the router chooses that goes by the two best experts of every group.
func (own *routed) groupsOfTwo(c *arch.Config) {
	own.experts.Normalise = c.Boolean("norm_topk_prob")
	own.groups, own.chosenGroups = c.Integer("n_group", arch.MaxExperts), c.Integer("topk_group", arch.MaxExperts)
	own.checkGroups(c, 2)
}

// routedNumbers are what a catalog entry says of the experts.
func routedNumbers(p *arch.Preset, c map[string]any) {
	if p.MoE.ExpertFFN > 0 {
		c["n_shared_experts"] = float64(p.MoE.SharedExpertFFN / p.MoE.ExpertFFN)
	}
	c["first_k_dense_replace"] = float64(p.MoE.FirstDenseLayers)
}

// DeclareExperts lists the modules of DeepseekV3MoE.
func (own *routed) declareExperts(b *arch.Builder, s *routedLayer) {
	if b.A.Software.Has(arch.GroupsExperts) {
		own.declareGrouped(b, s)
		return
	}
	e := own.experts
	alike := !own.Second // whose experts get slices of one tensor, not all of one size
	s.experts = blocks.Experts(b, e.Count, alike, func() arch.GatedMLP {
		return arch.BuildGatedMLP(b, "mlp.experts", e.FFN, b.A.MLPBias)
	})
	own.declareRouter(b, s)
	if e.SharedFFN > 0 {
		s.mlp = arch.BuildGatedMLP(b, "mlp.shared_experts", e.SharedFFN, b.A.MLPBias)
	}
}

// declareRouter lists the router's weight and, in V3, its correction.
func (own *routed) declareRouter(b *arch.Builder, s *routedLayer) {
	count := own.experts.Count
	s.router = b.Router("mlp.gate", count, func() {
		if own.Second {
			return
		}
		if s.biasType = b.Loaded(); own.wideBias {
			s.biasType = step.F32
		}
		b.Declare(step.Parameter{Name: "mlp.gate.e_score_correction_bias", Numel: count, Dtype: s.biasType,
			Buffer: !own.biasCounts, Frozen: true})
	})
}

// mixture is DeepseekV3MoE or DeepseekV2MoE.
func (own *routed) mixture(a *arch.Architecture, t *step.Tape, s *routedLayer, x step.T) step.T {
	if s.grouped != nil {
		return own.groupedMixture(a, t, s, x)
	}
	route, mix := own.route, own.mix
	if own.Second {
		route, mix = own.routeBySoftmax, own.mixSorted
	}
	chosen, weights := route(t, s, x)
	routed := mix(a, t, s, x, chosen, weights)
	y := routed
	if own.experts.SharedFFN > 0 {
		shared := s.mlp.Forward(t, a, x)
		y = t.Add(routed, shared, step.LabelResidual)
		t.Drop(shared, routed)
	}
	t.Drop(chosen, weights)
	return y
}

// route is DeepseekV3TopkRouter: float32 scores, from which groups of experts and then experts are chosen.
func (own *routed) route(t *step.Tape, s *routedLayer, x step.T) (chosen, weights step.T) {
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	logits := s.logits(t, nil, x)
	scores := t.Sigmoid(logits, step.LabelRouting)
	chosen = own.choose(t, scores.Dtype().With(s.biasType))
	weights, locals := own.normalised(t, t.Chosen(scores, chosen))
	scaled := t.MulScalar(weights, step.LabelRouting)
	t.Drop(append([]step.T{weights, scores, logits}, locals...)...)
	return chosen, scaled
}

// logits are the router's, in float32 as everything that it computes.
func (s *routedLayer) logits(t *step.Tape, open *arch.Opened, x step.T) step.T {
	wide := t.Float(x, step.LabelRouting)
	logits := s.router.FloatLinear(t, open, wide, step.LabelRouting)
	t.Drop(wide)
	return logits
}

// normalised divides the weights of the chosen experts by their sum where the model does. It also returns what a
// variable holds.
func (own *routed) normalised(t *step.Tape, weights step.T) (step.T, []step.T) {
	if !own.experts.Normalise {
		return weights, nil
	}
	sum := t.SumRowsKept(weights, own.experts.TopK)
	denominator := t.AddScalar(sum, step.LabelRouting)
	t.Drop(sum)
	return t.DivideInPlace(weights, denominator), []step.T{denominator}
}

// choose is get_topk_indices, without gradients: the best groups by their two best experts, then the best experts in
// them. d is the type of the corrected scores.
func (own *routed) choose(t *step.Tape, d step.DType) step.T {
	e, n := own.experts, t.Shape.N()
	in := func(numel int64, d step.DType) step.T { return t.RoutingTensor(numel, d) }
	corrected := in(n*e.Count, d)
	best, places := in(n*own.groups*2, d), in(n*own.groups*2, step.I64)
	t.Drop(places)
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
	t.Drop(drop, corrected)
	values, chosen := in(n*e.TopK, d), in(n*e.TopK, step.I64)
	t.Drop(values, masked, spread, mask, group, groups)
	return chosen
}

// spread is the mask of groups for every expert: a copy, unless there is one group or one expert in each.
func (own *routed) spread(t *step.Tape, mask step.T) step.T {
	if own.groups == 1 || own.groups == own.experts.Count {
		return t.Hold(mask)
	}
	return t.RoutingTensor(t.Shape.N()*own.experts.Count, mask.Dtype())
}

// mix is DeepseekV3MoE.moe: one expert after the other, in the type of the weights.
func (own *routed) mix(a *arch.Architecture, t *step.Tape, s *routedLayer, x, chosen, weights step.T) step.T {
	e := own.experts
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	sum := t.Zeros(x.Numel(), weights.Dtype(), step.LabelExpertOutput)
	mask := t.RoutingTensor(chosen.Numel()*e.Count, step.I64)
	share := (chosen.Numel() + e.Count - 1) / e.Count
	var locals [6]step.T
	assign := func(k, i int, x step.T) step.T {
		if i > 0 {
			t.Drop(locals[k])
		}
		locals[k] = x
		return x
	}
	for i := range s.experts {
		t.Expert(i)
		tokens := assign(0, i, t.RoutingTensor(share, step.I64))
		places := assign(1, i, t.RoutingTensor(share, step.I64))
		weight := assign(2, i, t.Rows(weights, 1, tokens, places))
		input := assign(3, i, t.Rows(x, a.Hidden, tokens))
		output := assign(4, i, s.experts[i].Forward(t, a, input))
		weighted := assign(5, i, t.Mul(output, weight, true, step.LabelExpertOutput))
		sum = t.IndexAdd(sum, tokens, weighted)
	}
	t.Expert(-1)
	y := t.Cast(sum, x.Dtype(), step.LabelExpertOutput)
	t.Drop(locals[:]...)
	t.Drop(mask, sum)
	return y
}

func (own *routed) Mixture() (*arch.Experts, bool) { return own.experts, true }

// UnevenExperts: V2's have slices of one tensor, not all of one size.
func (own *routed) UnevenExperts(s *release.Set) bool {
	return own.Second && !s.Has(arch.GroupsExperts)
}

// routing is own, for those that embed it.
func (own *routed) routing() *routed { return own }

// RoutedParameters is how many parameters the experts of all layers have among which tokens choose; those that every
// token takes besides are none of them.
func RoutedParameters(a *arch.Architecture) int64 {
	e := arch.ExpertsOf(a)
	if e == nil {
		return 0
	}
	matrices, first := int64(2), int64(0)
	if a.Gated {
		matrices = 3
	}
	if own := RoutedOf(a); own != nil {
		first = own.FirstDense
	}
	var layers int64
	for i := first; i < a.Layers; i++ {
		if e.In(i) {
			layers++
		}
	}
	return layers * matrices * e.Count * e.FFN * a.Hidden
}
