package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
)

// fastCard is one of which the speed is known.
func fastCard(id string, usable int64, tflops, gbps, price float64) estimator.GPU {
	return estimator.GPU{ID: id, UsableBytes: usable, MemoryBytes: usable, PeakFLOPS: tflops * 1e12,
		BandwidthBytesPerSecond: gbps * 1e9, Multiprocessors: 100, ComputeCapability: 89, Vendor: "NVIDIA",
		PricePerHour: price}
}

// TestCheapestCard: what a run costs is its time at the price of the card, and only that.
func TestCheapestCard(t *testing.T) {
	const room = 40000 * mib
	for _, c := range []struct {
		name     string
		cards    []estimator.GPU
		order    string // of the cards with a cost, cheapest first
		beside   string
		option   string // the card of the option that costs least
		contains string // of a note
	}{
		{"twice as fast at three times the price", []estimator.GPU{fastCard("slow", room, 50, 500, 1),
			fastCard("fast", room, 100, 1000, 3)}, "slow fast", "slow", "", "Costs are relative"},
		{"twice as fast at less than twice the price", []estimator.GPU{fastCard("slow", room, 50, 500, 1),
			fastCard("fast", room, 100, 1000, 1.5)}, "fast slow", "slow", "fast", "Costs are relative"},
		{"the cheapest has no room", []estimator.GPU{fastCard("own", room, 50, 500, 1),
			fastCard("small", 1000*mib, 50, 500, 0.01), fastCard("other", room, 50, 500, 0.5)}, "other own", "own", "other", ""},
		{"no price of the plan's own", []estimator.GPU{fastCard("own", room, 50, 500, 0),
			fastCard("dear", room, 50, 500, 4), fastCard("cheap", room, 50, 500, 2)}, "cheap dear", "dear", "cheap", ""},
		{"a speed that nobody knows", []estimator.GPU{fastCard("own", room, 50, 500, 1),
			{ID: "mine", UsableBytes: room, PricePerHour: 0.1}}, "own", "own", "", "How fast mine computes is not known"},
		{"too close to tell", []estimator.GPU{fastCard("own", room, 50, 500, 1), fastCard("near", room, 100, 300, 1.24)},
			"near own", "own", "near", "the model of time does not decide"},
		{"one card", []estimator.GPU{fastCard("own", room, 50, 500, 1)}, "", "", "", "as much as its GPU time"},
		{"no price", []estimator.GPU{fastCard("own", room, 50, 500, 0), fastCard("other", room, 50, 500, 0)}, "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := story()
			r.Input.GPUs = c.cards
			p, err := MakeWith(t.Context(), r, storyFake().estimate)
			if err != nil {
				t.Fatal(err)
			}
			var order []string
			for i, g := range p.GPUs {
				if g.RelativeCost != nil {
					if len(order) != i {
						t.Errorf("%s has a cost and stands behind one that has none", g.GPU)
					}
					order = append(order, g.GPU)
				}
			}
			if got := strings.Join(order, " "); got != c.order {
				t.Errorf("in the order of their costs: %q, want %q", got, c.order)
			}
			if p.CostsBeside != c.beside {
				t.Errorf("costs are beside %q, want %q", p.CostsBeside, c.beside)
			}
			option := ""
			for _, o := range p.Options {
				if o.RelativeCost != nil {
					option = o.Changes["gpus"].([]estimator.GPURef)[0].Name
					if o.RelativeCost.Expected != p.GPUs[0].RelativeCost.Expected {
						t.Errorf("the option costs %v, the card %v", *o.RelativeCost, *p.GPUs[0].RelativeCost)
					}
				}
			}
			if option != c.option {
				t.Errorf("the option that costs least is on %q, want %q", option, c.option)
			}
			if !strings.Contains(p.Markdown(), c.contains) {
				t.Errorf("no %q in\n%s", c.contains, p.Markdown())
			}
		})
	}
}

// TestPricesMoveNoByte: a plan with prices is the plan without them, and besides what costs least; prices of another
// unit are the same plan.
func TestPricesMoveNoByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := drawRequest(t)
		for i := range r.Input.GPUs {
			if rapid.Bool().Draw(t, "known speed") {
				r.Input.GPUs[i].PeakFLOPS = rapid.Float64Range(1e12, 1e15).Draw(t, "rate")
				r.Input.GPUs[i].BandwidthBytesPerSecond = rapid.Float64Range(1e11, 5e12).Draw(t, "bandwidth")
			}
		}
		of := func(prices []float64, unit float64) *document.Plan {
			priced := r
			priced.Input.GPUs = slices.Clone(r.Input.GPUs)
			for i := range prices {
				priced.Input.GPUs[i].PricePerHour = prices[i] * unit
			}
			p, err := MakeWith(t.Context(), priced, f.estimate)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		prices := make([]float64, len(r.Input.GPUs))
		for i := range prices {
			if rapid.IntRange(0, 3).Draw(t, "has a price") > 0 {
				prices[i] = float64(rapid.IntRange(1, 1000).Draw(t, "price")) / 100
			}
		}
		plain, priced := of(nil, 1), of(prices, 1)
		if got, want := withoutCosts(t, priced), withoutCosts(t, plain); got != want {
			t.Errorf("with prices\n%s\nwithout\n%s", got, want)
		}
		unit := rapid.SampledFrom([]float64{1.0 / 1024, 0.5, 4, 4096}).Draw(t, "unit")
		other := of(prices, unit)
		for i := range other.GPUs {
			other.GPUs[i].PricePerHour /= unit
		}
		for _, o := range other.Options {
			if o.RelativeCost != nil {
				*o.Changes["gpus"].([]estimator.GPURef)[0].PricePerHour /= unit
			}
		}
		if got, want := text(t, other), text(t, priced); got != want {
			t.Errorf("with all prices times %v\n%s\nnot\n%s", unit, got, want)
		}
	})
}

func text(t *rapid.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// withoutCosts is a plan less what prices add: the option on the card that costs least, the ranks behind it, costs,
// notes about them and the order of the cards.
func withoutCosts(t *rapid.T, p *document.Plan) string {
	q := *p
	q.CostsBeside = ""
	q.GPUs = slices.Clone(p.GPUs)
	for i := range q.GPUs {
		q.GPUs[i].PricePerHour, q.GPUs[i].RelativeCost = 0, nil
	}
	slices.SortFunc(q.GPUs, func(a, b document.GPUPlan) int { return strings.Compare(a.GPU, b.GPU) })
	q.Options = slices.DeleteFunc(slices.Clone(p.Options), func(o document.Option) bool {
		return o.RelativeCost != nil
	})
	for i := range q.Options {
		q.Options[i].Rank = i
	}
	q.Notes = slices.DeleteFunc(slices.Clone(p.Notes), func(n estimator.Note) bool {
		return strings.HasPrefix(n.Code, "costs") || n.Code == "speed-unknown"
	})
	return text(t, q)
}
