package service

import (
	"context"
	"errors"

	"github.com/dustin/go-humanize"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/workplace"
)

// mostRequests is how many requests of the replayed allocator one estimate may take, about ten seconds of a core.
const mostRequests = 200 << 20

// tooLarge is the code of what is wrong with a job that takes more than it may.
const tooLarge = "too_large"

// paced asks the estimator about a job: on a core that is lent in turns, with memory that is booked before it is taken,
// and no longer than ctx.
func paced[T any](ctx context.Context, s *Service, in estimator.Input,
	ask func(estimator.Input) (T, error)) (T, error) {
	turn, err := s.place.Turn(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return inTurn(ctx, s, turn, in, ask)
}

// inTurn is paced with a turn, which it ends.
func inTurn[T any](ctx context.Context, s *Service, turn *workplace.Turn, in estimator.Input,
	ask func(estimator.Input) (T, error)) (T, error) {
	defer turn.End()
	in.Done = ctx.Done()
	if s.limits.ReplayBytes > 0 {
		in.MostRequests = mostRequests
	}
	in.Admit = func(c estimator.Cost) (estimator.Turn, error) {
		if s.tellCost != nil {
			s.tellCost(c)
		}
		err := turn.Book(c.Bytes, c.Requests)
		if large, ok := errors.AsType[*workplace.TooLargeError](err); ok {
			var errs invalid.List
			errs.Add("/model", tooLarge, "an answer takes up to %s of the service's memory, and there are %s for one: "+
				"fewer layers or experts in a layer, FSDP2 in the place of FSDP1, or vramplan estimate on the command "+
				"line, which has no such limit",
				humanize.IBytes(uint64(large.Bytes)), humanize.IBytes(uint64(large.Most)))
			err = errs.Err()
		}
		return turn, err
	}
	v, err := ask(in)
	if errors.Is(err, estimator.ErrStopped) {
		err = ctx.Err()
	}
	return v, err
}

// within is an estimator whose answers are paced.
func (s *Service) within(ctx context.Context, estimate planner.Estimator) planner.Estimator {
	return func(in estimator.Input) (*estimator.Result, error) { return paced(ctx, s, in, estimate) }
}
