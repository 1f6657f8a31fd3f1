package service

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/workplace"
)

// EstimateOptions asks for parts of an answer that are left out by default.
type EstimateOptions struct {
	Timeline, Tensors bool
	// VerdictsOnly asks for nothing but the device figure and the verdicts, which are as they are without it; what else
	// the result says may be left out or coarser.
	VerdictsOnly bool
	// AtLeast goes with VerdictsOnly: a job that fits on none of its cards even if nothing is reserved beyond what is
	// alive at its peak is answered with the least that it takes, as Result.AtLeast then says.
	AtLeast bool
	// Calibration pins the one to answer with; empty is that in force.
	Calibration string
}

// Estimate says what a job takes and where it fits. The result is shared with other
// callers and is for reading only. The error is an *estimator.InvalidJobError that lists
// everything wrong with the job, or an *Error.
func (s *Service) Estimate(ctx context.Context, job estimator.Job, o EstimateOptions) (*estimator.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := s.resolve(ctx, s.current(), job)
	if err != nil {
		return nil, err
	}
	r.input.Timeline, r.input.Tensors, r.input.VerdictsOnly = o.Timeline, o.Tensors, o.VerdictsOnly
	r.input.LeastIfBeyond = o.VerdictsOnly && o.AtLeast
	if r.input.Calibration, err = s.calibrationFor(ctx, o.Calibration); err != nil {
		return nil, err
	}
	answer := func(ctx context.Context) (*estimator.Result, error) {
		estimate := s.estimate
		if o.VerdictsOnly {
			estimate = estimator.Judge
		}
		result, err := paced(ctx, s, r.input, estimate)
		if err := r.problems(err); err != nil {
			return nil, err
		}
		result.Versions.Catalog = r.catalog.Revision()
		return result, nil
	}
	size := workplace.Unknown
	if o.Timeline || o.Tensors { // answers of megabytes
		size = workplace.Long
	}
	work := func(ctx context.Context) (*estimator.Result, error) { return workplace.Do(ctx, s.place, size, answer) }
	var result *estimator.Result
	if o.Timeline || o.Tensors || r.unknown.Err() != nil {
		// Not remembered: a timeline may be megabytes, and a job with unknown names has no answer.
		result, err = work(ctx)
	} else {
		var part []int64 // of an answer, which is remembered beside the whole
		switch {
		case r.input.LeastIfBeyond:
			part = []int64{2}
		case o.VerdictsOnly:
			part = []int64{1}
		}
		result, err = s.results.do(ctx, r.digest(part...), work)
	}
	if err != nil {
		return nil, err
	}
	if len(r.notes) > 0 {
		noted := *result
		noted.Notes = slices.Concat(result.Notes, r.notes)
		result = &noted
	}
	return result, nil
}

// problems joins the names that nothing has with what the estimator found wrong. Without
// its preset the estimator cannot say anything about the model, so of those
// complaints only the catalog's is kept.
func (r *resolved) problems(err error) error {
	unknown, _ := errors.AsType[*invalid.Error](r.unknown.Err())
	err = r.ofFound(err)
	if unknown == nil {
		return err
	}
	var all invalid.List
	all.Append(unknown.Fields...)
	if found, ok := errors.AsType[*invalid.Error](err); ok {
		presetUnknown := slices.ContainsFunc(unknown.Fields, func(f invalid.Field) bool {
			return f.Code == "unknown_model"
		})
		for _, f := range found.Fields {
			if presetUnknown && (f.Pointer == "/model" || strings.HasPrefix(f.Pointer, "/model/preset")) {
				continue
			}
			all.Append(f)
		}
	}
	return all.Err()
}
