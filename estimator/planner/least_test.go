package planner

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
)

// What is not played because the least that it takes is too much changes no plan.
func TestLeastChangesNoPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawJob(t)
		r.Catalog = catalogOfTheStory()
		estimate := estimator.NewReplays().Judge
		got, err := MakeWith(t.Context(), r, estimate)
		if err != nil {
			t.Fatal(err)
		}
		want, err := MakeWith(t.Context(), r, func(in estimator.Input) (*estimator.Result, error) {
			in.LeastOnly = false
			return estimate(in)
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the plan differs (-everything played +without the hopeless):\n%s", diff)
		}
	})
}

// A brief plan is the whole one without its lower bounds, and takes less.
func TestBriefPlan(t *testing.T) {
	for _, usable := range []int64{2100, 6000, 11994} {
		r := story()
		r.Catalog = catalogOfTheStory()
		r.Input.GPUs[0].UsableBytes = usable * mib
		var asked [2]*Plan
		var played [2]atomic.Int64
		for i, brief := range []bool{false, true} {
			r.Brief = brief
			estimate := estimator.NewReplays().Judge
			p, err := MakeWith(t.Context(), r, func(in estimator.Input) (*estimator.Result, error) {
				result, err := estimate(in)
				if err == nil {
					played[i].Add(result.Played)
				}
				return result, err
			})
			if err != nil {
				t.Fatal(err)
			}
			asked[i] = p
		}
		whole, brief := asked[0], asked[1]
		for i := range whole.Pairs {
			if whole.Pairs[i].LowBytes == 0 || brief.Pairs[i].LowBytes != 0 {
				t.Errorf("%d MiB: the lower bound of pair %d is %d, in brief %d", usable, i, whole.Pairs[i].LowBytes,
					brief.Pairs[i].LowBytes)
			}
		}
		withoutLowBytes(whole)
		if diff := cmp.Diff(whole, brief); diff != "" {
			t.Errorf("%d MiB: the brief plan says something else (-whole +brief):\n%s", usable, diff)
		}
		if 4*played[1].Load() > 3*played[0].Load() {
			t.Errorf("%d MiB: %d requests, and %d in brief", usable, played[0].Load(), played[1].Load())
		}
	}
}

func withoutLowBytes(p *Plan) {
	p.Today.LowBytes = 0
	for i := range p.Pairs {
		p.Pairs[i].LowBytes = 0
	}
	for i := range p.Options {
		p.Options[i].LowBytes = 0
	}
	if p.FewestGPUs != nil {
		p.FewestGPUs.LowBytes = 0
	}
}
