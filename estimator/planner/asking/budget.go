package asking

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// PlanBudget is the work that a plan may take, in requests that replayed jobs make of the allocator
// ([estimator.Result.Played]): at 150 to 400 ns each, five to ten seconds on two cores. Nearly all plans take a
// hundredth of it; mixtures of hundreds of experts, of which one answer is a million requests, take more than there is.
// Work is counted and not timed, so that the same request gives the same answer on every machine.
//
// What is left is only looked at where no questions are under way, since those of several goroutines end in any order.
const PlanBudget = 32 << 20

const (
	// PairsShare is the part of the budget that pairs may take: they are the answer, and options only ways to it.
	PairsShare = 0.75
	// BoundPlays is about how many runs it takes to find a lower bound.
	BoundPlays = 8
	// OptionsShown is about how many options a plan shows besides its pairs.
	OptionsShown = 12
	// LightShare is the part of the budget that lower bounds may take to be looked for before anything else is known.
	LightShare = 0.25
	// SpareQuestions are how many have to be affordable for a search that seldom finds anything, and for the table of
	// other cards.
	SpareQuestions = 64
)

// budget is what one question of a plan takes, and what the plan has left out.
type budget struct {
	Each    int64
	skipped []string
}

// affordable is how many of some questions there is work left for.
func (a *Asker) affordable(questions int) int {
	if a.Budget.Each <= 0 {
		return questions
	}
	return int(min(max(PlanBudget-a.Costs.Work(), 0)/a.Budget.Each, int64(questions)))
}

// Affords reports whether there is work left for so many questions, and takes down what is skipped where there is not.
func (a *Asker) Affords(questions int, what string) bool {
	if a.affordable(questions) == questions {
		return true
	}
	a.Skip(what)
	return false
}

// First are as many of xs as there is work left for.
func First[T any](s *Asker, xs []T, what string) []T {
	n := s.affordable(len(xs))
	if n < len(xs) {
		s.Skip(what)
	}
	return xs[:n]
}

// Bounded reports whether something was skipped.
func (a *Asker) Bounded(what string) bool { return slices.Contains(a.Budget.skipped, what) }

// Skip takes down that something is left out.
func (a *Asker) Skip(what string) {
	if !a.Bounded(what) {
		a.Budget.skipped = append(a.Budget.skipped, what)
	}
}

// Bound looks for the lower bounds of what a plan shows where the answers do not have them yet: for all of it or, where
// the work does not suffice, for nothing.
func (ask *Asker) Bound(ctx context.Context, shown []*Judged) error {
	if ask.Brief {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(shown), func(j *Judged) bool {
		return j == nil || j.Result == nil || j.whole
	})
	if !ask.Bounds && !ask.Affords(BoundPlays*len(missing), "lower bounds") {
		for _, j := range shown {
			if j != nil {
				j.whole = false
			}
		}
		return nil
	}
	// Once each: the same candidate may be today's, a pair and an option.
	once := map[CostKey]Candidate{}
	for _, j := range missing {
		once[j.Key()] = j.Candidate
	}
	if err := ask.Costs.All(ctx, slices.Collect(maps.Values(once)), true); err != nil {
		return err
	}
	for _, j := range missing {
		var err error
		if j.Answer, err = ask.Costs.answer(ctx, j.Candidate, true); err != nil {
			return err
		}
	}
	return nil
}

// ExplainBudget says what was left out.
func (a *Asker) ExplainBudget() {
	if len(a.Budget.skipped) == 0 {
		return
	}
	a.Notes.Add("search-bounded", "One answer about this job replays %d requests of the allocator, and a plan replays "+
		"about %d in all. Left out, in whole or in part: %s.",
		a.Budget.Each, PlanBudget, strings.Join(a.Budget.skipped, "; "))
}
