package planner

import (
	"context"
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// findFloor asks about the smallest micro-batch that the job's trainer takes: some ask for two of what they hold beside
// each other. It comes first: a job that is wrong altogether costs one estimate.
func (s *search) findFloor(ctx context.Context) (pairing.Choice, error) {
	const most = 8 // no trainer that is replayed asks for more
	var refused error
	for micro := int64(1); micro <= most; micro++ {
		floor := pairing.At(micro, s.batch.AccumulationFor(micro))
		var err error
		if s.floor, err = s.judge(ctx, lever.Variant{}, floor); err != nil {
			return floor, err
		}
		if s.floor.err == nil {
			return floor, nil
		}
		if refused == nil {
			refused = s.floor.err
		}
		wrong, ok := errors.AsType[*invalid.Error](s.floor.err)
		if !ok || slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool {
			return f.Pointer != "/training/micro_batch"
		}) {
			break
		}
	}
	if s.batch.Given() { // what is wrong with the job as it is asked
		today, err := s.judge(ctx, lever.Variant{}, pairing.At(s.batch.Micro, s.batch.Accum))
		if err != nil {
			return pairing.Choice{}, err
		}
		if today.err != nil {
			refused = today.err
		}
	}
	return pairing.Choice{}, refused
}
