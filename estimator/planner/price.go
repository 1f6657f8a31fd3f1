package planner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// What a run costs is the time of its steps times the price of the cards that it takes. The job gives prices, in
// whatever unit; the time is relative and of a model (package steptime), and so is the cost. It is said only of cards
// whose speed is known: what stands in for an unknown one is as good as nothing beside another card.

// speedKnown reports whether a step on a card can be told beside one on another.
func speedKnown(g *estimator.GPU) bool {
	return g.BandwidthBytesPerSecond > 0 && (g.PeakFLOPS > 0 || g.FP32FLOPS > 0)
}

// priced is the card of the job beside which costs are told: the plan's own or else the first that has a price and a
// known speed; nil where none has.
func (s *search) priced() *estimator.GPU {
	for i := -1; i < len(s.Rest); i++ {
		g := &s.GPU
		if i >= 0 {
			g = &s.Rest[i]
		}
		if g.PricePerHour > 0 && speedKnown(g) {
			return g
		}
	}
	return nil
}

// costOn is what a candidate costs on a card beside the reference on the priced one; nil where that is not known.
func (s *search) costOn(g *estimator.GPU, j asking.Judged) *document.Cost {
	base := s.priced()
	if base == nil || j.Result == nil || g.PricePerHour <= 0 || !speedKnown(g) {
		return nil
	}
	of, beside := s.PerTokenOn(*g, j), s.PerTokenOn(*base, s.reference)
	c := &document.Cost{Low: math.Inf(1)}
	for i := range of {
		x := of[i] / beside[i] * (g.PricePerHour / base.PricePerHour)
		if i == 0 {
			c.Expected = threeDigits(x)
		}
		c.Low, c.High = math.Min(c.Low, threeDigits(x)), math.Max(c.High, threeDigits(x))
	}
	return c
}

// threeDigits is a ratio with as many digits as a model of time has: one card may be a thousand times as fast as
// another.
func threeDigits(x float64) float64 {
	unit := math.Pow10(int(math.Floor(math.Log10(x))) - 2)
	return math.Round(x/unit) * unit
}

// rate is what a candidate's cards cost an hour beside the plan's own; 1 where that is not known.
func (r *ranker) rate(j asking.Judged) float64 {
	if !j.With.Holds("gpu") || r.GPU.PricePerHour <= 0 {
		return 1
	}
	if in := j.Input(r.Costs.Base); len(in.GPUs) > 0 && in.GPUs[0].PricePerHour > 0 {
		return in.GPUs[0].PricePerHour / r.GPU.PricePerHour
	}
	return 1
}

// giveCosts says what the run costs on each card that has a price, and puts those first, the cheapest at the front.
func (s *search) giveCosts(plans []document.GPUPlan) {
	cards := append([]estimator.GPU{s.GPU}, s.Rest...)
	for i := range plans {
		p := &plans[i]
		p.PricePerHour = cards[i].PricePerHour
		if p.Recommended == nil {
			continue
		}
		at := slices.IndexFunc(s.exact, func(j asking.Judged) bool { return j.Choice() == *p.Recommended })
		if at >= 0 {
			p.RelativeCost = s.costOn(&cards[i], s.exact[at])
		}
	}
}

// cheaperGPU offers the job's card on which the run costs least, where that is not the plan's own.
func (s *search) cheaperGPU(ctx context.Context, plans []document.GPUPlan) (*proposal, error) {
	best := -1
	for i := range plans {
		if plans[i].RelativeCost != nil && (best < 0 || document.ByCost(plans[i], plans[best]) < 0) {
			best = i
		}
	}
	if best < 1 || !s.Affords(1, "the card that costs least") { // none has a price, or the plan's own is the cheapest
		return nil, nil
	}
	g := s.Rest[best-1]
	ref := estimator.GPURef{Name: g.ID, PricePerHour: &g.PricePerHour}
	if !slices.ContainsFunc(s.catalog, func(known estimator.GPU) bool { return known.ID == g.ID }) {
		ref.MemoryBytes = g.MemoryBytes
	}
	if g.HeldBytes > 0 {
		free := g.UsableBytes - g.HeldBytes
		ref.FreeBytes = &free
	}
	l := lever.Lever{
		Code: "gpu-" + g.ID, Group: "gpu", Title: "Run on the card that costs least", Effort: lever.SettingEffort,
		Apply:    func(in *estimator.Input) { in.GPUs = []estimator.GPU{g} },
		Changes:  map[string]any{"gpus": []estimator.GPURef{ref}},
		Settings: []string{cmp.Or(g.Name, g.ID)},
	}
	j, err := s.Judge(ctx, lever.NewVariant(l), *plans[best].Recommended)
	if err != nil || j.Result == nil || !j.Fits() {
		return nil, err
	}
	return &proposal{Judged: j, title: l.Title, cost: plans[best].RelativeCost}, nil
}

// explainCosts says what costs rest on, and which cards have none.
func (t teller) explainCosts(plans []document.GPUPlan) {
	base := t.s.priced()
	named, unknown := 0, []string{}
	for _, g := range append([]estimator.GPU{t.s.GPU}, t.s.Rest...) {
		if g.PricePerHour <= 0 {
			continue
		}
		if named++; !speedKnown(&g) {
			unknown = append(unknown, g.ID)
		}
	}
	if named == 0 {
		return
	}
	if len(unknown) > 0 {
		t.s.Notes.Add("speed-unknown", "How fast %s computes is not known, and so not what a run costs there: only cards of "+
			"the catalog that have both rates are told apart by it.", strings.Join(unknown[:min(len(unknown), 3)], ", "))
	}
	if base == nil {
		return
	}
	if len(plans) == 0 {
		t.s.Notes.Add("costs", "With one card a run costs as much as its GPU time; prices of further cards (gpus, --price) tell "+
			"which costs least.")
		return
	}
	text := "Costs are relative, as times are: the price that the job gives an hour of a card times the modelled time of " +
		"the training, beside %s on %s. Hours of a card that does not train are not in them."
	what := "the job as it is today"
	if t.s.rank.today == nil {
		what = "the pair that times are relative to"
	}
	t.s.Notes.Add("costs", text, what, base.ID)
	var close []string
	first := plans[0].RelativeCost
	for i := 1; first != nil && i < len(plans); i++ {
		if c := plans[i].RelativeCost; c != nil && c.Low <= first.High {
			close = append(close, plans[i].GPU)
		}
	}
	if len(close) > 0 {
		t.s.Notes.Add("costs-close", "Between %s and %s the model of time does not decide: their costs overlap within its "+
			"range.", plans[0].GPU, strings.Join(close[:min(len(close), 3)], ", "))
	}
}
