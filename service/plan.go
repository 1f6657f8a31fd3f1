package service

import (
	"context"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/workplace"
)

// PlanRequest is a job and the batch that it is to keep.
type PlanRequest struct {
	Job estimator.Job
	// EffectiveBatch counts sequences over all GPUs and accumulation steps; 0
	// means what the job gives today.
	EffectiveBatch int64
	// MeasuredSteps are steps of the job that were timed.
	MeasuredSteps []jobdoc.MeasuredStep
	// Cluster asks for layouts on it; nil for a plan on one card.
	Cluster *jobdoc.Cluster
}

// cluster is that of the request as the planner takes it.
func (r *PlanRequest) cluster() *planner.Cluster {
	if r.Cluster == nil {
		return nil
	}
	return &planner.Cluster{GPUs: r.Cluster.GPUs, PerNode: r.Cluster.GPUsPerNode,
		NetworkBytesPerSecond: r.Cluster.NetworkBytesPerSecond}
}

// measured are the steps as the planner takes them.
func (r *PlanRequest) measured() []planner.MeasuredStep {
	var out []planner.MeasuredStep
	for _, m := range r.MeasuredSteps {
		out = append(out, planner.MeasuredStep{MicroBatch: m.MicroBatch, GradientAccumulation: m.GradientAccumulation,
			Seconds: m.StepTimeSeconds})
	}
	return out
}

// numbers tell the request from others about the same job.
func (r *PlanRequest) numbers(o PlanOptions) []int64 {
	ns := []int64{r.EffectiveBatch, 0, 0, 0, 0}
	if o.Frontier {
		ns[1] |= 1
	}
	if o.Brief {
		ns[1] |= 2
	}
	if c := r.Cluster; c != nil {
		ns[2], ns[3], ns[4] = c.GPUs, c.GPUsPerNode, int64(math.Float64bits(c.NetworkBytesPerSecond))
	}
	for _, m := range r.MeasuredSteps {
		ns = append(ns, m.MicroBatch, m.GradientAccumulation, int64(math.Float64bits(m.StepTimeSeconds)))
	}
	return ns
}

// PlanOptions asks for parts of a plan that are left out by default.
type PlanOptions struct {
	Frontier bool
	// Brief is planner.Request.Brief.
	Brief bool
	// Calibration pins the one to answer with; empty is that in force.
	Calibration string
}

// Plan finds the ways to run a job on its first GPU. The plan is shared with other
// callers and is for reading only. Errors are those of Estimate.
func (s *Service) Plan(ctx context.Context, request PlanRequest, o PlanOptions) (*planner.Plan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := s.resolve(ctx, s.current(), request.Job)
	if err != nil {
		return nil, err
	}
	if r.input.Calibration, err = s.calibrationFor(ctx, o.Calibration); err != nil {
		return nil, err
	}
	cards, err := r.catalog.EstimatorGPUs()
	if err != nil {
		return nil, unreadable(err)
	}
	parts, err := r.catalog.EstimatorSlices()
	if err != nil {
		return nil, unreadable(err)
	}
	presets, err := r.siblings()
	if err != nil {
		return nil, err
	}
	answer := func(ctx context.Context) (*planner.Plan, error) {
		plan, err := planner.MakeWith(ctx, planner.Request{
			Input:          r.input,
			EffectiveBatch: request.EffectiveBatch,
			MeasuredSteps:  request.measured(),
			Cluster:        request.cluster(),
			Catalog:        cards,
			Slices:         parts,
			Presets:        presets,
			Frontier:       o.Frontier,
			Brief:          o.Brief,
		}, s.within(ctx, s.judge()))
		if err := r.problems(err); err != nil {
			return nil, err
		}
		plan.Versions.Catalog = r.catalog.Revision()
		return plan, nil
	}
	work := func(ctx context.Context) (*planner.Plan, error) {
		return workplace.Do(ctx, s.place, workplace.Long, answer)
	}
	var plan *planner.Plan
	if r.unknown.Err() != nil {
		plan, err = work(ctx)
	} else {
		plan, err = s.plans.do(ctx, r.digest(request.numbers(o)...), work)
	}
	if err != nil {
		return nil, err
	}
	if len(r.notes) > 0 {
		noted := *plan
		noted.Notes = append(slices.Clone(plan.Notes), r.notes...)
		plan = &noted
	}
	return plan, nil
}

// siblings are the models of the catalog that a job could train in the place of its own: those of the same kind, and
// language models for one that is described by its numbers.
func (r *resolved) siblings() ([]*model.Preset, error) {
	kind := "decoder"
	if r.input.Preset != nil && r.input.Preset.Kind != "" {
		kind = r.input.Preset.Kind
	}
	models, err := r.catalog.Models()
	if err != nil {
		return nil, unreadable(err)
	}
	var out []*model.Preset
	for i := range models {
		if models[i].Kind == kind {
			out = append(out, &models[i].Preset)
		}
	}
	return out, nil
}
