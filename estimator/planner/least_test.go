package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/document"
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

// A brief plan is the whole one without its lower bounds and without what the allocator would reserve of what cannot
// fit, and takes less.
func TestBriefPlan(t *testing.T) {
	for _, usable := range []int64{2100, 6000, 11994} {
		r := story()
		r.Catalog = catalogOfTheStory()
		r.Input.GPUs[0].UsableBytes = usable * mib
		whole, brief, played := wholeAndBrief(t, r)
		if played[1]*4 > played[0]*3 {
			t.Errorf("%d MiB: %d requests, and %d in brief", usable, played[0], played[1])
		}
		for i := range whole.Pairs {
			if whole.Pairs[i].LowBytes == 0 {
				t.Errorf("%d MiB: no lower bound of pair %d", usable, i)
			}
		}
		compareBrief(t, whole, brief)
	}
}

// TestBriefPlanTakesTheSameWay is a job of which what fits is no interval: the unused ends of blocks, which only a
// whole plan knows of what fails, must not decide where the largest micro-batch is looked for.
func TestBriefPlanTakesTheSameWay(t *testing.T) {
	r := story()
	r.Catalog = catalogOfTheStory()
	tr := &r.Input.Job.Training
	r.Input.Job.Model.NanoGPT = &model.NanoGPT{Layers: 2, Heads: 6, Embedding: 384, BlockSize: 1024,
		Vocabulary: 65}
	tr.SequenceLength, tr.MicroBatch, tr.GradientAccumulation = 512, 1, 2
	tr.Precision, tr.Optimizer.Implementation = estimator.PrecisionAMPBF16, "foreach"
	r.Input.GPUs[0].UsableBytes = 3947 * mib
	whole, brief, _ := wholeAndBrief(t, r)
	compareBrief(t, whole, brief)
}

// TestBriefPlansSayTheSame holds brief plans of random jobs against whole ones.
func TestBriefPlansSayTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawJob(t)
		r.Catalog = catalogOfTheStory()
		whole, brief, _ := wholeAndBrief(t, r)
		compareBrief(t, whole, brief)
	})
}

// plans are what tests and their random kin have.
type plans interface {
	Context() context.Context
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// wholeAndBrief are both plans, and how many requests each played.
func wholeAndBrief(t plans, r Request) (whole, brief *document.Plan, requests [2]int64) {
	var asked [2]*document.Plan
	for i := range asked {
		r.Brief = i == 1
		var played atomic.Int64
		estimate := estimator.NewReplays().Judge
		p, err := MakeWith(t.Context(), r, func(in estimator.Input) (*estimator.Result, error) {
			result, err := estimate(in)
			if err == nil {
				played.Add(result.Played)
			}
			return result, err
		})
		if err != nil {
			t.Fatal(err)
		}
		asked[i], requests[i] = p, played.Load()
	}
	return asked[0], asked[1], requests
}

// compareBrief expects of a brief plan the verdicts of the whole one, its figures wherever something may fit, and no
// more than its figures elsewhere. With several settings together a brief plan may make a job fit by others.
func compareBrief(t plans, whole, brief *document.Plan) {
	type figures struct {
		AtLeast, Fits       bool
		Device, High, Saves int64
	}
	same := func(what string, whole, brief figures) {
		switch {
		case !brief.AtLeast && whole != brief:
			t.Errorf("%s takes %+v, in brief %+v", what, whole, brief)
		case brief.AtLeast && (whole.Fits || brief.Device > whole.Device || brief.High > whole.High):
			t.Errorf("%s takes %+v, in brief at least %+v", what, whole, brief)
		}
	}
	of := func(atLeast bool, v estimator.Verdict, device, high, saves int64) figures {
		return figures{atLeast, v == estimator.Fits || v == estimator.Tight, device, high, saves}
	}
	if a, b := whole.Today, brief.Today; a != nil {
		if b.AtLeast {
			t.Errorf("the job itself has the least that it takes, %d bytes", b.DeviceBytes)
		}
		same("today", of(a.AtLeast, a.Verdict, a.DeviceBytes, a.HighBytes, 0),
			of(b.AtLeast, b.Verdict, b.DeviceBytes, b.HighBytes, 0))
		if a.Verdict != b.Verdict || b.LowBytes != 0 {
			t.Errorf("today %+v, in brief %+v", a, b)
		}
	}
	for i, a := range whole.Pairs {
		b := brief.Pairs[i]
		same(fmt.Sprintf("%d × %d", a.MicroBatch, a.GradientAccumulation),
			of(a.AtLeast, a.Verdict, a.DeviceBytes, a.HighBytes, 0),
			of(b.AtLeast, b.Verdict, b.DeviceBytes, b.HighBytes, 0))
		if a.Verdict != b.Verdict || a.RelativeStepTime != b.RelativeStepTime || b.LowBytes != 0 || a.AtLeast {
			t.Errorf("pair %+v, in brief %+v", a, b)
		}
	}
	for _, diff := range []string{
		cmp.Diff(whole.Recommended, brief.Recommended), cmp.Diff(whole.Safest, brief.Safest),
		cmp.Diff(whole.BesideDisplay, brief.BesideDisplay), cmp.Diff(whole.SmallestGPUs, brief.SmallestGPUs),
		cmp.Diff(whole.LargestMicroBatch, brief.LargestMicroBatch),
	} {
		if diff != "" {
			t.Errorf("in brief something else is said (-whole +brief):\n%s", diff)
		}
	}
	options := map[string]document.Option{}
	for _, o := range whole.Options {
		options[optionKey(o)] = o
	}
	for _, b := range brief.Options {
		a, ok := options[optionKey(b)]
		if !ok {
			continue // another set of settings, or one that was left out beside it
		}
		saves := func(o document.Option) (bytes int64) {
			if o.SavesBytes != nil {
				bytes = *o.SavesBytes
			}
			return bytes
		}
		same(a.Title, of(a.AtLeast, a.Verdict, a.DeviceBytes, a.HighBytes, saves(a)),
			of(b.AtLeast, b.Verdict, b.DeviceBytes, b.HighBytes, saves(b)))
		if b.AtLeast && b.SavesBytes != nil {
			t.Errorf("%q saves %d bytes beside a bound", b.Title, *b.SavesBytes)
		}
		if a.Verdict != b.Verdict || b.LowBytes != 0 {
			t.Errorf("option %+v, in brief %+v", a, b)
		}
	}
	fit := func(p *document.Plan) bool {
		return slices.ContainsFunc(p.Options, func(o document.Option) bool {
			return o.Verdict == estimator.Fits && !strings.HasPrefix(o.Recommendation, "another card")
		})
	}
	// Both pull one setting after another, by other figures, so that a brief plan may find a set that the whole one
	// does not; where it finds none it looks as the whole one does.
	if fit(whole) && !fit(brief) {
		t.Errorf("something fits, and nothing in brief")
	}
}

// optionKey tells options apart by what they change.
func optionKey(o document.Option) string {
	changes, err := json.Marshal(o.Changes)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(o.MicroBatch, o.GradientAccumulation, string(changes))
}
