package arch

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/release"
)

// Experts is what a mixture of experts has besides its decoder's numbers. How many tokens an expert gets depends on the
// data; the replay divides them evenly, which is what the losses that balance the experts aim at.
type Experts struct {
	// Count experts, of which every token takes TopK, each with an MLP of FFN.
	Count, TopK, FFN int64
	// Normalise divides the chosen weights by their sum.
	Normalise bool
	// Path is the block's name in a layer; Expert declares one expert.
	Path   string
	Expert func(b *Builder, path string, ffn int64, bias bool) GatedMLP
	// SharedFFN is the width of an MLP that every token takes besides, behind a gate of its own; 0 without.
	SharedFFN int64
	// ExpertsFirst declares them before the router, and WideWeights leaves the weights in float32 (transformers 5).
	ExpertsFirst, WideWeights bool
	// Parallel says that each is a matrix of two tensors for all, which before transformers 5.23 are multiplied one
	// after the other (Granite).
	Parallel bool
	// GroupedAlone says that the loop over experts of transformers before 5 is not described, and grouped products are
	// replayed for it.
	GroupedAlone bool
	// Uncounted says that nobody asks which experts have tokens before they run (OLMoE).
	Uncounted bool
	// Clipped says that queries, keys and values are clamped (OLMoE).
	Clipped bool
	// RotaryBuffers says that every attention holds rotary frequencies of its own, which it does not use.
	RotaryBuffers bool
	// Dense says which layers have an ordinary MLP instead; nil for none.
	Dense func(layer int64) bool
}

// ExpertsOf is a's mixture of experts, or nil.
func ExpertsOf(a *Architecture) *Experts {
	own, ok := a.Own.(withExperts)
	if !ok {
		return nil
	}
	e, _ := own.Mixture()
	return e
}

// Mixture is e, whose experts run as grouped products in later releases.
func (e *Experts) Mixture() (*Experts, bool) { return e, true }

// In says whether a layer has a mixture of experts.
func (e *Experts) In(layer int64) bool { return e != nil && (e.Dense == nil || !e.Dense(layer)) }

// grouped says whether later releases run the experts as grouped products, as far as that is replayed.
func (e *Experts) grouped(a *Architecture) bool {
	own, ok := a.Own.(withExperts)
	if !ok {
		return false
	}
	_, grouped := own.Mixture()
	return grouped
}

// Limits on mixtures of experts: the replay runs every expert of the layers that it records, and loads all of them.
const (
	MaxExperts      = 1024
	maxExpertsInAll = 1 << 16
)

// check holds the numbers of a mixture of experts against each other.
func (e *Experts) check(a *Architecture, pointer string, errs *invalid.List) {
	switch {
	case e == nil:
	case e.Count < 1 || e.Count > MaxExperts || e.FFN < 1 || e.FFN > MaxRows:
		errs.Add(pointer, "out_of_range", "a layer has %d experts of width %d; it has from 1 to %d, of a "+
			"width from 1 to %d", e.Count, e.FFN, MaxExperts, MaxRows)
	case e.TopK < 1 || e.TopK > e.Count:
		errs.Add(pointer, "out_of_range", "every token takes %d experts; there are %d", e.TopK, e.Count)
	case e.Count*a.Layers > maxExpertsInAll:
		errs.Add(pointer, "too_large", "%d layers of %d experts; up to %d experts in all are accepted", a.Layers,
			e.Count, maxExpertsInAll)
	}
}

// width is how wide all experts of a layer are together, as far as the size of the model goes.
func (e *Experts) width() float64 {
	if e == nil {
		return 0
	}
	return 4 * (float64(e.Count)*float64(e.FFN) + float64(e.SharedFFN))
}

// GroupsExperts is mixtures whose experts are two tensors and run as grouped products.
var GroupsExperts = release.Declare("groups-experts", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "mixtures of experts in transformers 5.23 keep all experts in two tensors, sort the tokens by " +
		"expert and run grouped products (Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE)",
	Source: "integrations/moe.py (grouped_mm_experts_forward), models/mixtral/modeling_mixtral.py " +
		"(MixtralExperts), 4.57.6 and 5.23.0", Shown: "traces of Mixtral, Qwen MoE and OLMoE",
})

// Experts is how many a layer with a mixture of them runs one after the other, grouped ones counting as one; 0 without.
func (a *Architecture) Experts() int64 {
	e := ExpertsOf(a)
	switch {
	case e == nil:
		return 0
	case e.OneByOne(a):
		return e.Count
	case (a.Software.Has(GroupsExperts) || e.GroupedAlone) && e.grouped(a):
		return 1
	}
	return e.Count
}

// groupsGranite is the same of Granite's mixtures, and InterfacesGranite is masks of theirs that the library makes.
var groupsGranite = release.Declare("groups-granite", release.Change{
	Library: "transformers", After: "5.10", From: "5.14",
	What: "the mixtures of Granite run their experts as grouped products in transformers 5.23; before, a product " +
		"of one expert after the other, whose gradient was as large as all of them",
	Source: "models/granitemoe/modeling_granitemoe.py (GraniteMoeParallelExperts, GraniteMoeTopKGating), " +
		"models/granitemoeshared/modeling_granitemoeshared.py, " +
		"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
	Shown: "traces of all three with 4.57 and 5.23",
})

// OneByOne says that the job's release multiplies them one after the other.
func (e *Experts) OneByOne(a *Architecture) bool { return e.Parallel && !a.Software.Has(groupsGranite) }

// StandInExperts says that the experts run in a way that the job's transformers has not.
func (a *Architecture) StandInExperts() bool {
	e := ExpertsOf(a)
	return e != nil && e.GroupedAlone && !a.Software.Has(GroupsExperts)
}

// ExpertsPerToken is through how many experts of a layer each token goes, and how wide they are together with those
// that all tokens share; 0 without a mixture of experts.
func (a *Architecture) ExpertsPerToken() (experts, width int64) {
	e := ExpertsOf(a)
	if e == nil {
		return 0, 0
	}
	return e.TopK, e.TopK*e.FFN + e.SharedFFN
}

// UnevenExperts says that the experts of a layer are not alike, so that each is recorded.
func (a *Architecture) UnevenExperts() bool {
	if e := ExpertsOf(a); e != nil && e.OneByOne(a) {
		return true
	}
	own, ok := a.Own.(uneven)
	return ok && own.UnevenExperts(&a.Software)
}

// ChosenWidth is how wide the experts of a layer are together that one token takes; 0 without a mixture of experts.
func (a *Architecture) ChosenWidth() int64 {
	e := ExpertsOf(a)
	if e == nil {
		return 0
	}
	return e.TopK*(e.FFN+2*a.Hidden) + e.SharedFFN
}

// RoutedExperts is how many experts a layer has among which its tokens choose; 0 for none.
func (a *Architecture) RoutedExperts() int64 {
	if e := ExpertsOf(a); e != nil {
		return e.Count
	}
	return 0
}

// ExpertWidth is how wide one of them is; 0 for none.
func (a *Architecture) ExpertWidth() int64 {
	if e := ExpertsOf(a); e != nil {
		return e.FFN
	}
	return 0
}
