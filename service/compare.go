package service

import (
	"context"
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/compare"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/workplace"
)

// CompareOptions say how a comparison is made.
type CompareOptions struct {
	// Calibration pins the one to answer with; empty is that in force.
	Calibration string
}

// Compare says why two jobs take different amounts of memory. Errors are those of
// Estimate, with pointers into a document {"a": job, "b": job}.
func (s *Service) Compare(ctx context.Context, a, b estimator.Job, o CompareOptions) (*compare.Comparison, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	current := s.current() // both jobs are read with one catalog
	ra, err := s.resolve(ctx, current, a)
	if err != nil {
		return nil, err
	}
	rb, err := s.resolve(ctx, current, b)
	if err != nil {
		return nil, err
	}
	used, err := s.calibrationFor(ctx, o.Calibration) // and one calibration
	if err != nil {
		return nil, err
	}
	ra.input.Calibration, rb.input.Calibration = used, used
	c, err := workplace.Do(ctx, s.place, workplace.Long, func(ctx context.Context) (*compare.Comparison, error) {
		return compare.Make(ctx, ra.input, rb.input, compare.Estimator(s.within(ctx, s.estimate)))
	})
	if err := compared(ra, rb, err); err != nil {
		return nil, err
	}
	c.Versions.Catalog = current.Revision()
	for _, n := range slices.Concat(ra.notes, rb.notes) { // two jobs may name the same card
		if !slices.Contains(c.Notes, n) {
			c.Notes = append(c.Notes, n)
		}
	}
	return c, nil
}

// compared joins what is wrong with either job.
func compared(a, b *resolved, err error) error {
	sides := map[string]error{}
	for _, e := range leaves(err) {
		refused, ok := errors.AsType[*compare.RefusedError](e)
		if !ok {
			return err
		}
		sides[refused.Side] = refused.Err
	}
	var all invalid.List
	for _, side := range []struct {
		name string
		job  *resolved
	}{{"a", a}, {"b", b}} {
		err := side.job.problems(sides[side.name])
		if err == nil {
			continue
		}
		wrong, ok := errors.AsType[*invalid.Error](err)
		if !ok {
			return err
		}
		for _, f := range wrong.Fields {
			f.Pointer = "/" + side.name + f.Pointer
			all.Append(f)
		}
	}
	return all.Err()
}

// leaves are the errors that errors.Join put together.
func leaves(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
