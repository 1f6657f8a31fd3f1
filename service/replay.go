package service

import (
	"context"

	"github.com/vramplan/vramplan/estimator"
)

// Events are what the first steps of a job ask PyTorch's allocator for, in order. The error is an
// *estimator.InvalidJobError that lists everything wrong with the job, or an *Error.
func (s *Service) Events(ctx context.Context, job estimator.Job, steps int) ([]estimator.Event, error) {
	r, err := s.resolve(ctx, s.current(), job)
	if err != nil {
		return nil, err
	}
	events, err := estimator.Events(r.input, steps)
	return events, r.problems(err)
}
