package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
)

// Estimator answers what one job takes. [estimator.Estimate] is one.
type Estimator func(estimator.Input) (*estimator.Result, error)

// Comparison is the answer: two jobs, and why they differ.
type Comparison struct {
	Versions estimator.Versions `json:"versions"`
	A        Side               `json:"a"`
	B        Side               `json:"b"`
	// DifferenceBytes is B's device figure less A's.
	DifferenceBytes int64 `json:"difference_bytes"`
	// Components are all that a peak has, in the order of an estimate.
	Components []Component `json:"components"`
	// Causes add up to the difference, in every component. Each is what it moves on top of those before it.
	Causes []Cause `json:"causes"`
	// WithoutEffect are differences between the jobs that move no byte; a value that a document leaves out is what it
	// was taken for.
	WithoutEffect []Change         `json:"without_effect"`
	Notes         []estimator.Note `json:"notes"`
}

// Side is one of the two jobs.
type Side struct {
	Model estimator.ModelInfo `json:"model"`
	Peak  estimator.Peak      `json:"peak"`
	GPUs  []estimator.GPUFit  `json:"gpus"`
}

// Component is one component of the two peaks.
type Component struct {
	Name            string `json:"name"`
	ABytes          int64  `json:"a_bytes"`
	BBytes          int64  `json:"b_bytes"`
	DifferenceBytes int64  `json:"difference_bytes"`
}

// Cause is what one change moves, or several that only make sense together.
type Cause struct {
	Changes []Change `json:"changes"`
	// Follows are fields that the documents leave out and that are taken for something else with these changes:
	// defaults of a framework, of a model or of a release.
	Follows []Change `json:"follows,omitempty"`
	// DifferenceBytes is what the device figure grows by, below zero where it shrinks.
	DifferenceBytes int64 `json:"difference_bytes"`
	// AloneBytes is what it would grow by with only this change made to the first job; null where that job is refused.
	AloneBytes *int64 `json:"alone_bytes"`
	// Components are those that the change moves, the most moved first.
	Components []Moved `json:"components"`
	// PeakMoves is true where the largest moment of the job is another after the change.
	PeakMoves bool `json:"peak_moves"`
	// Text says it in a sentence.
	Text string `json:"text"`
}

// Moved is by how much a component grows.
type Moved struct {
	Name            string `json:"name"`
	DifferenceBytes int64  `json:"difference_bytes"`
}

// RefusedError says which of the two jobs cannot be estimated.
type RefusedError struct {
	// Side is "a" or "b".
	Side string
	Err  error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("job %s: %v", e.Side, e.Err) }
func (e *RefusedError) Unwrap() error { return e.Err }

// Make compares two jobs. The error is a *[RefusedError] where one of them cannot be estimated, and the context's where
// it ended.
func Make(ctx context.Context, a, b estimator.Input, estimate Estimator) (*Comparison, error) {
	a.Timeline, a.Tensors, b.Timeline, b.Tensors = false, false, false, false
	estimate = estimator.Until(ctx, estimate)
	ra, errA := estimate(a)
	rb, errB := estimate(b)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := refused(errA, errB); err != nil {
		return nil, err
	}
	list, err := changes(a, b)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].fillIn(ra, rb)
	}
	c := &Comparison{
		Versions: rb.Versions, A: sideOf(ra), B: sideOf(rb), DifferenceBytes: rb.Peak.DeviceBytes - ra.Peak.DeviceBytes,
		Causes: []Cause{}, WithoutEffect: []Change{}, Notes: []estimator.Note{},
	}
	for i, x := range ra.Components {
		c.Components = append(c.Components, Component{x.Name, x.Bytes, rb.Components[i].Bytes,
			rb.Components[i].Bytes - x.Bytes})
	}
	w := walk{ctx: ctx, estimate: estimate, start: a, first: ra, last: rb}
	if err := w.causes(list, c); err != nil {
		return nil, err
	}
	c.explain(len(follows(ra, rb, nil)) == 0 && !slices.ContainsFunc(list, func(x change) bool {
		return !strings.HasPrefix(x.Pointer, training)
	}))
	return c, nil
}

func refused(a, b error) error {
	var errs []error
	for side, err := range map[string]error{"a": a, "b": b} {
		if err != nil {
			errs = append(errs, &RefusedError{side, err})
		}
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return errors.Join(errs...)
}

func sideOf(r *estimator.Result) Side { return Side{r.Model, r.Peak, r.GPUs} }

// walk leads from one job to the other.
type walk struct {
	ctx         context.Context
	estimate    Estimator
	start       estimator.Input
	first, last *estimator.Result
}

// causes makes the changes one after the other. A job on the way that the estimator refuses (a kernel of an optimizer
// that comes later) is passed over: its change and the next are one cause.
func (w *walk) causes(list []change, c *Comparison) error {
	now, before := w.start, w.first
	var together []change
	for i, x := range list {
		if err := x.apply(&now); err != nil {
			return err
		}
		together = append(together, x)
		after := w.last
		if i < len(list)-1 {
			r, err := w.ask(now)
			if err != nil {
				return err
			}
			if r == nil {
				continue
			}
			after = r
		}
		if err := w.add(c, together, before, after); err != nil {
			return err
		}
		together, before = nil, after
	}
	return nil
}

// ask estimates a job on the way; nil where it is refused.
func (w *walk) ask(in estimator.Input) (*estimator.Result, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	r, err := w.estimate(in)
	if _, refusal := errors.AsType[*invalid.Error](err); refusal {
		return nil, nil
	}
	return r, err
}

// add lists the changes between two jobs as a cause, or as being without effect.
func (w *walk) add(c *Comparison, together []change, before, after *estimator.Result) error {
	var cause Cause
	for _, x := range together {
		cause.Changes = append(cause.Changes, x.Change)
	}
	cause.Follows = follows(before, after, cause.Changes)
	cause.DifferenceBytes = after.Peak.DeviceBytes - before.Peak.DeviceBytes
	for i, x := range after.Components {
		if d := x.Bytes - before.Components[i].Bytes; d != 0 {
			cause.Components = append(cause.Components, Moved{x.Name, d})
		}
	}
	alone := w.start
	for _, x := range together {
		if err := x.apply(&alone); err != nil {
			return err
		}
	}
	r, err := w.ask(alone)
	if err != nil {
		return err
	}
	if r != nil {
		d := r.Peak.DeviceBytes - w.first.Peak.DeviceBytes
		cause.AloneBytes = &d
	}
	if len(cause.Components) == 0 && (r == nil || *cause.AloneBytes == 0) {
		c.WithoutEffect = append(append(c.WithoutEffect, cause.Changes...), cause.Follows...)
		return nil
	}
	if cause.Components == nil {
		cause.Components = []Moved{}
	}
	slices.SortStableFunc(cause.Components, func(a, b Moved) int {
		return sign(size(b.DifferenceBytes) - size(a.DifferenceBytes))
	})
	cause.PeakMoves = moment(after.Peak) != moment(before.Peak)
	cause.Text = sentence(cause, before.Peak, after.Peak)
	c.Causes = append(c.Causes, cause)
	return nil
}

func size(x int64) int64 { return max(x, -x) }

func sign(x int64) int { return int(min(max(x, -1), 1)) }
