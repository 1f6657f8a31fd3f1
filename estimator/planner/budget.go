package planner

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// planBudget is the work that a plan may take, in requests that replayed jobs make of the allocator
// ([estimator.Result.Played]): at 150 to 400 ns each, five to ten seconds on two cores. Nearly all plans take a
// hundredth of it; mixtures of hundreds of experts, of which one answer is a million requests, take more than there is.
// Work is counted and not timed, so that the same request gives the same answer on every machine.
//
// What is left is only looked at where no questions are under way, since those of several goroutines end in any order.
const planBudget = 32 << 20

const (
	// pairsShare is the part of the budget that pairs may take: they are the answer, and options only ways to it.
	pairsShare = 0.75
	// boundPlays is about how many runs it takes to find a lower bound.
	boundPlays = 8
	// optionsShown is about how many options a plan shows besides its pairs.
	optionsShown = 12
	// lightShare is the part of the budget that lower bounds may take to be looked for before anything else is known.
	lightShare = 0.25
	// spareQuestions are how many have to be affordable for a search that seldom finds anything, and for the table of
	// other cards.
	spareQuestions = 64
)

// budget is what one question of a plan takes, and what the plan has left out.
type budget struct {
	each    int64
	skipped []string
}

// affordable is how many of some questions there is work left for.
func (a *asker) affordable(questions int) int {
	if a.budget.each <= 0 {
		return questions
	}
	return int(min(max(planBudget-a.costs.work(), 0)/a.budget.each, int64(questions)))
}

// affords reports whether there is work left for so many questions, and takes down what is skipped where there is not.
func (a *asker) affords(questions int, what string) bool {
	if a.affordable(questions) == questions {
		return true
	}
	a.skip(what)
	return false
}

// first are as many of xs as there is work left for.
func first[T any](s *asker, xs []T, what string) []T {
	n := s.affordable(len(xs))
	if n < len(xs) {
		s.skip(what)
	}
	return xs[:n]
}

// bounded reports whether something was skipped.
func (a *asker) bounded(what string) bool { return slices.Contains(a.budget.skipped, what) }

func (a *asker) skip(what string) {
	if !a.bounded(what) {
		a.budget.skipped = append(a.budget.skipped, what)
	}
}

// start sets the budget by what the floor took. Pairs that are too many are left out, the largest first.
func (s *search) start(pairs []pairing.Choice) []pairing.Choice {
	if s.budget.each = s.floor.played(); s.floor.atLeast() {
		s.budget.each = s.floor.result.Requests // as much as what may fit
	}
	if s.budget.each <= 0 {
		s.bounds = !s.brief
		return pairs
	}
	share := pairsShare
	if n := int(share * planBudget / float64(s.budget.each)); n < len(pairs) {
		s.skip("pairs with the largest micro-batches")
		pairs = pairs[len(pairs)-n:]
	}
	bounds := float64(len(pairs)+optionsShown) * boundPlays * float64(s.budget.each)
	s.bounds = !s.brief && bounds <= lightShare*planBudget
	return pairs
}

// bound looks for the lower bounds of what a plan shows where the answers do not have them yet: for all of it or, where
// the work does not suffice, for nothing.
func (ask *asker) bound(ctx context.Context, shown []*judged) error {
	if ask.brief {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(shown), func(j *judged) bool {
		return j == nil || j.result == nil || j.whole
	})
	if !ask.bounds && !ask.affords(boundPlays*len(missing), "lower bounds") {
		for _, j := range shown {
			if j != nil {
				j.whole = false
			}
		}
		return nil
	}
	// Once each: the same candidate may be today's, a pair and an option.
	once := map[costKey]candidate{}
	for _, j := range missing {
		once[costKey{j.with.Key, j.micro, j.accum}] = j.candidate
	}
	if err := ask.costs.all(ctx, slices.Collect(maps.Values(once)), true); err != nil {
		return err
	}
	for _, j := range missing {
		var err error
		if j.answer, err = ask.costs.answer(ctx, j.candidate, true); err != nil {
			return err
		}
	}
	return nil
}

// explainBudget says what was left out.
func (a *asker) explainBudget() {
	if len(a.budget.skipped) == 0 {
		return
	}
	a.notes.add("search-bounded", "One answer about this job replays %d requests of the allocator, and a plan replays "+
		"about %d in all. Left out, in whole or in part: %s.",
		a.budget.each, planBudget, strings.Join(a.budget.skipped, "; "))
}
