package planner

import (
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/layouts"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Make plans a job. The error is an [estimator.InvalidJobError] where the job or
// the effective batch cannot be understood.
func Make(ctx context.Context, r Request) (*document.Plan, error) {
	return MakeWith(ctx, r, estimator.NewReplays().Judge)
}

// MakeWith is Make with another estimator, such as one that remembers answers or
// applies a calibration.
func MakeWith(ctx context.Context, r Request, estimate asking.Estimator) (*document.Plan, error) {
	r.Input.Job = estimator.StoredBase(r.Input.Job)
	var pictures []estimator.Note
	r.Input, pictures = estimator.WithPictures(r.Input)
	if err := readCluster(&r); err != nil {
		return nil, err
	}
	b, err := pairing.Of(r.Input.Job.Training, r.EffectiveBatch)
	if err != nil {
		return nil, err
	}
	ask := asking.New(estimator.Until(ctx, estimate), r.Input, b, r.Brief, r.Brief && r.Cluster == nil)
	ask.Notes.All = append(ask.Notes.All, pictures...)
	if r.Cluster != nil {
		return layouts.Plan(ctx, ask, *r.Cluster)
	}
	s := newSearch(ask)
	s.catalog = r.Catalog
	if r.MeasuredSteps, err = readMeasured(r.MeasuredSteps, b); err != nil {
		return nil, err
	}
	if err := s.survey(ctx, r.MeasuredSteps); err != nil {
		return nil, err
	}
	return s.plan(ctx, r)
}

// ranker says which of what was asked is better.
type ranker struct {
	*asking.Asker
	// today is nil where the job does not say what runs.
	today *asking.Judged
	// pick is the pair that is recommended; nil where none is.
	pick *pairing.Choice
}

// search is the state of one plan.
type search struct {
	*asking.Asker
	rank ranker
	// exact are the pairs that reach the target; near those of its neighbours,
	// where the GPUs divide no batch of that size.
	exact, near []asking.Judged
	floor       asking.Judged
	// reference is what savings are relative to.
	reference asking.Judged
	// catalog are the cards that are known.
	catalog []estimator.GPU
}

func newSearch(a *asking.Asker) *search { return &search{Asker: a, rank: ranker{Asker: a}} }

// teller says in notes what a search found, presenter in the options of a plan.
type (
	teller    struct{ s *search }
	presenter struct{ s *search }
)

// survey asks about the job at every pair, today's and the smallest.
func (s *search) survey(ctx context.Context, measured []MeasuredStep) error {
	exact := s.Batch.Pairs(s.Batch.Target)
	var near []pairing.Choice
	if len(exact) == 0 {
		for _, target := range s.Batch.Nearest() {
			near = append(near, s.Batch.Pairs(target)...)
		}
	}
	floor, err := s.findFloor(ctx)
	if err != nil {
		return err
	}
	if len(exact) > 0 {
		exact = s.start(exact)
	} else {
		near = s.start(near)
	}
	ask := append(append([]pairing.Choice{floor}, exact...), near...)
	if s.Batch.Given() {
		ask = append(ask, pairing.At(s.Batch.Micro, s.Batch.Accum))
	}
	cs := make([]asking.Candidate, len(ask))
	for i, p := range ask {
		cs[i] = asking.Candidate{Micro: p.MicroBatch, Accum: p.GradientAccumulation}
	}
	if err := s.Costs.All(ctx, cs, s.Bounds); err != nil {
		return err
	}
	s.Shape = traits.ShapeOf(s.Costs.Base, s.floor.Result.Model.Parameters)
	s.calibrate(measured)

	if s.Batch.Given() {
		j, err := s.Judge(ctx, lever.Variant{}, pairing.At(s.Batch.Micro, s.Batch.Accum))
		if err != nil {
			return err
		}
		if j.Err != nil {
			return j.Err
		}
		s.rank.today = &j
	}
	if s.exact, err = s.JudgeAll(ctx, exact); err != nil {
		return err
	}
	if s.near, err = s.JudgeAll(ctx, near); err != nil {
		return err
	}
	s.setReference()
	return s.knowReference(ctx)
}

// knowReference has the reference played where a brief plan has only the least that it takes: what options save is said
// relative to it, and a difference from a bound is no figure.
func (s *search) knowReference(ctx context.Context) error {
	if !s.reference.AtLeast() {
		return nil
	}
	a, err := s.Costs.Played(ctx, s.reference.Candidate)
	if err != nil || a.Err != nil {
		return err
	}
	know := func(j *asking.Judged) {
		if j.With.Key == s.reference.With.Key && j.Choice() == s.reference.Choice() {
			j.Answer = a
		}
	}
	for _, list := range [][]asking.Judged{s.exact, s.near} {
		for i := range list {
			know(&list[i])
		}
	}
	know(&s.floor)
	if s.rank.today != nil {
		know(s.rank.today)
	}
	know(&s.reference)
	return nil
}

// setReference fixes what step times are relative to and gives times to what the
// survey found.
func (s *search) setReference() {
	s.reference = s.floor
	switch {
	case s.rank.today != nil:
		s.reference = *s.rank.today
	default:
		for _, j := range append(slices.Clone(s.exact), s.near...) {
			s.reference = j // the largest that fits, or else the smallest
			if j.Fits() {
				break
			}
		}
	}
	s.RefTime = s.PerToken(s.reference)
	set := func(js []asking.Judged) {
		for i := range js {
			js[i].Time = s.RelativeTime(js[i])
		}
	}
	set(s.exact)
	set(s.near)
	if pair := s.rank.recommended(s.exact); pair != nil {
		c := pair.Choice()
		s.rank.pick = &c
	}
	s.floor.Time = s.RelativeTime(s.floor)
	if s.rank.today != nil {
		s.rank.today.Time = s.RelativeTime(*s.rank.today)
	}
}

// plan puts the answer together.
func (s *search) plan(ctx context.Context, r Request) (*document.Plan, error) {
	p := &document.Plan{
		Versions:         s.floor.Result.Versions,
		Model:            s.floor.Result.Model,
		SequenceLength:   traits.SequenceLength(s.Costs.Base, s.Shape),
		EffectiveBatch:   s.Batch.Target,
		DataParallelGPUs: s.Batch.GPUs,
		GPU:              s.GPU.ID,
		UsableBytes:      s.floor.Fit().UsableBytes,
		FloorBytes:       s.floor.DeviceBytes(),
		FloorAtLeast:     s.floor.AtLeast(),
		StepTimeBasis:    s.Basis,
	}
	edge, err := s.largest(ctx, lever.Variant{})
	if err != nil {
		return nil, err
	}
	p.LargestMicroBatch = edge.micro()
	if p.SmallestGPUs, err = s.smallestGPUs(ctx, r.Catalog); err != nil {
		return nil, err
	}
	p.SmallestSlices = []string{}
	if d := s.Costs.Base.Job.Training.Distributed; d != nil && d.WorldSize > 1 {
		if d.WorldSize > s.Batch.GPUs {
			p.WorldSize = d.WorldSize
		}
		// And no host has several slices that work together.
	} else if p.SmallestSlices, err = s.smallestGPUs(ctx, r.Slices); err != nil {
		return nil, err
	}
	fewest, err := s.fewestGPUs(ctx)
	if err != nil {
		return nil, err
	}
	if p.GPUs, err = s.byGPU(ctx); err != nil {
		return nil, err
	}
	s.giveCosts(p.GPUs)
	options, err := s.options(ctx, edge, p, fewest)
	if err != nil {
		return nil, err
	}
	if err := s.Bound(ctx, s.shown(fewest, options)); err != nil {
		return nil, err
	}
	if r.Frontier {
		if err := s.frontiers(ctx, p, r.Presets); err != nil {
			return nil, err
		}
	}
	presenter{s}.present(p, fewest, options)
	if err := s.explainExpandable(ctx); err != nil {
		return nil, err
	}
	teller{s}.explain(edge, p)
	p.Notes = s.Notes.List()
	return p, nil
}

// shown are the candidates whose bytes a plan shows.
func (s *search) shown(fewest *asking.Judged, options []proposal) []*asking.Judged {
	js := []*asking.Judged{s.rank.today, fewest}
	for i := range s.exact {
		js = append(js, &s.exact[i])
	}
	for i := range options {
		js = append(js, &options[i].Judged)
	}
	return js
}
