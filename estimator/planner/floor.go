package planner

import (
	"context"
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// findFloor asks about the smallest micro-batch that the job's trainer takes: some ask for two of what they hold beside
// each other. It comes first: a job that is wrong altogether costs one estimate.
func (s *search) findFloor(ctx context.Context) (pairing.Choice, error) {
	const most = 8 // no trainer that is replayed asks for more
	var refused error
	for micro := int64(1); micro <= most; micro++ {
		floor := pairing.At(micro, s.Batch.AccumulationFor(micro))
		var err error
		if s.floor, err = s.Judge(ctx, lever.Variant{}, floor); err != nil {
			return floor, err
		}
		if s.floor.Err == nil {
			return floor, nil
		}
		if refused == nil {
			refused = s.floor.Err
		}
		wrong, ok := errors.AsType[*invalid.Error](s.floor.Err)
		if !ok || slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool {
			return f.Pointer != "/training/micro_batch"
		}) {
			break
		}
	}
	if s.Batch.Given() { // what is wrong with the job as it is asked
		today, err := s.Judge(ctx, lever.Variant{}, pairing.At(s.Batch.Micro, s.Batch.Accum))
		if err != nil {
			return pairing.Choice{}, err
		}
		if today.Err != nil {
			refused = today.Err
		}
	}
	return pairing.Choice{}, refused
}

// start sets the budget by what the floor took. Pairs that are too many are left out, the largest first.
func (s *search) start(pairs []pairing.Choice) []pairing.Choice {
	if s.Budget.Each = s.floor.Played(); s.floor.AtLeast() {
		s.Budget.Each = s.floor.Result.Requests // as much as what may fit
	}
	if s.Budget.Each <= 0 {
		s.Bounds = !s.Brief
		return pairs
	}
	share := asking.PairsShare
	if n := int(share * asking.PlanBudget / float64(s.Budget.Each)); n < len(pairs) {
		s.Skip("pairs with the largest micro-batches")
		pairs = pairs[len(pairs)-n:]
	}
	bounds := float64(len(pairs)+asking.OptionsShown) * asking.BoundPlays * float64(s.Budget.Each)
	s.Bounds = !s.Brief && bounds <= asking.LightShare*asking.PlanBudget
	return pairs
}
