package planner

import (
	"context"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Make plans a job. The error is an [estimator.InvalidJobError] where the job or
// the effective batch cannot be understood.
func Make(ctx context.Context, r Request) (*document.Plan, error) {
	return MakeWith(ctx, r, estimator.NewReplays().Judge)
}

// MakeWith is Make with another estimator, such as one that remembers answers or
// applies a calibration.
func MakeWith(ctx context.Context, r Request, estimate Estimator) (*document.Plan, error) {
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
	ask := newAsker(estimator.Until(ctx, estimate), &r, b)
	ask.notes.all = append(ask.notes.all, pictures...)
	if r.Cluster != nil {
		return ask.planLayouts(ctx, r)
	}
	s := newSearch(ask)
	if r.MeasuredSteps, err = readMeasured(r.MeasuredSteps, b); err != nil {
		return nil, err
	}
	if err := s.survey(ctx, r.MeasuredSteps); err != nil {
		return nil, err
	}
	return s.plan(ctx, r)
}

// asker asks the estimator about candidates, within what a plan may ask, and says how long they take.
type asker struct {
	batch pairing.Batch
	costs *costs
	tool  string
	gpu   estimator.GPU
	rest  []estimator.GPU // further GPUs of the job
	shape traits.Shape

	// refTime is what times are relative to.
	refTime [3]float64
	// readings are the expected, the cheap and the dear one, and basis what they rest on.
	readings steptime.Readings
	basis    string
	notes    notes
	budget   budget
	// bounds says that lower bounds are looked for from the beginning, brief that they are left out.
	bounds, brief bool
}

// ranker says which of what was asked is better.
type ranker struct {
	*asker
	// today is nil where the job does not say what runs.
	today *judged
	// pick is the pair that is recommended; nil where none is.
	pick *pairing.Choice
}

// search is the state of one plan.
type search struct {
	*asker
	rank ranker
	// exact are the pairs that reach the target; near those of its neighbours,
	// where the GPUs divide no batch of that size.
	exact, near []judged
	floor       judged
	// reference is what savings are relative to.
	reference judged
}

// newAsker asks estimate about r, whose batch is b.
func newAsker(estimate func(estimator.Input) (*estimator.Result, error), r *Request, b pairing.Batch) *asker {
	a := &asker{
		batch: b,
		costs: newCosts(estimate, r.Input, r.Brief && r.Cluster == nil),
		tool:  traits.ToolOf(r.Input),
		rest:  r.Input.GPUs[min(1, len(r.Input.GPUs)):],
		brief: r.Brief,
	}
	if len(r.Input.GPUs) > 0 {
		a.gpu = r.Input.GPUs[0]
	}
	return a
}

func newSearch(a *asker) *search { return &search{asker: a, rank: ranker{asker: a}} }

// teller says in notes what a search found, presenter in the options of a plan.
type (
	teller    struct{ s *search }
	presenter struct{ s *search }
)

// judged is a candidate with its answer.
type judged struct {
	candidate
	answer
	time document.StepTime
}

func (j judged) choice() pairing.Choice {
	return pairing.Choice{MicroBatch: j.micro, GradientAccumulation: j.accum}
}

// deviceBytes and highBytes are 0 where the estimator refuses the candidate, and lowBytes also where nobody looked for
// it.
func (j judged) deviceBytes() int64 {
	if j.result == nil {
		return 0
	}
	return j.result.Peak.DeviceBytes
}

func (j judged) lowBytes() int64 {
	if j.result == nil || !j.whole {
		return 0
	}
	return j.result.Peak.LowBytes
}

// atLeast says that the candidate cannot fit and was not played: its bytes are the least that it takes.
func (j judged) atLeast() bool { return j.result != nil && j.result.AtLeast }

func (j judged) highBytes() int64 {
	if j.result == nil {
		return 0
	}
	return j.result.Peak.HighBytes
}

// survey asks about the job at every pair, today's and the smallest.
func (s *search) survey(ctx context.Context, measured []MeasuredStep) error {
	exact := s.batch.Pairs(s.batch.Target)
	var near []pairing.Choice
	if len(exact) == 0 {
		for _, target := range s.batch.Nearest() {
			near = append(near, s.batch.Pairs(target)...)
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
	if s.batch.Given() {
		ask = append(ask, pairing.At(s.batch.Micro, s.batch.Accum))
	}
	cs := make([]candidate, len(ask))
	for i, p := range ask {
		cs[i] = candidate{micro: p.MicroBatch, accum: p.GradientAccumulation}
	}
	if err := s.costs.all(ctx, cs, s.bounds); err != nil {
		return err
	}
	s.shape = traits.ShapeOf(s.costs.base, s.floor.result.Model.Parameters)
	s.calibrate(measured)

	if s.batch.Given() {
		j, err := s.judge(ctx, lever.Variant{}, pairing.At(s.batch.Micro, s.batch.Accum))
		if err != nil {
			return err
		}
		if j.err != nil {
			return j.err
		}
		s.rank.today = &j
	}
	if s.exact, err = s.judgeAll(ctx, exact); err != nil {
		return err
	}
	if s.near, err = s.judgeAll(ctx, near); err != nil {
		return err
	}
	s.setReference()
	return s.knowReference(ctx)
}

// knowReference has the reference played where a brief plan has only the least that it takes: what options save is said
// relative to it, and a difference from a bound is no figure.
func (s *search) knowReference(ctx context.Context) error {
	if !s.reference.atLeast() {
		return nil
	}
	a, err := s.costs.played(ctx, s.reference.candidate)
	if err != nil || a.err != nil {
		return err
	}
	know := func(j *judged) {
		if j.with.Key == s.reference.with.Key && j.choice() == s.reference.choice() {
			j.answer = a
		}
	}
	for _, list := range [][]judged{s.exact, s.near} {
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
			if j.fits() {
				break
			}
		}
	}
	s.refTime = s.perToken(s.reference)
	set := func(js []judged) {
		for i := range js {
			js[i].time = s.relativeTime(js[i])
		}
	}
	set(s.exact)
	set(s.near)
	if pair := s.rank.recommended(s.exact); pair != nil {
		c := pair.choice()
		s.rank.pick = &c
	}
	s.floor.time = s.relativeTime(s.floor)
	if s.rank.today != nil {
		s.rank.today.time = s.relativeTime(*s.rank.today)
	}
}

// judge asks about one candidate. Its error is not the estimator's refusal, which
// is an answer.
func (a *asker) judge(ctx context.Context, v lever.Variant, p pairing.Choice) (judged, error) {
	return a.judgeWith(ctx, v, p, false)
}

// judgeShown is judge for a candidate that most likely is shown: with its lower bound, where those are looked for.
func (a *asker) judgeShown(ctx context.Context, v lever.Variant, p pairing.Choice) (judged, error) {
	return a.judgeWith(ctx, v, p, a.bounds)
}

func (a *asker) judgeWith(ctx context.Context, v lever.Variant, p pairing.Choice, whole bool) (judged, error) {
	j := judged{candidate: candidate{with: v, micro: p.MicroBatch, accum: p.GradientAccumulation}}
	var err error
	if j.answer, err = a.costs.answer(ctx, j.candidate, whole); err != nil {
		return judged{}, err
	}
	if a.refTime[0] > 0 && j.result != nil {
		j.time = a.relativeTime(j)
	}
	return j, nil
}

// judgeAll judges pairs of the job as it stands and leaves out those that the
// estimator refuses, with a note: a micro-batch beyond what a job may ask for.
func (a *asker) judgeAll(ctx context.Context, ps []pairing.Choice) ([]judged, error) {
	out := make([]judged, 0, len(ps))
	var refused []judged
	for _, p := range ps {
		j, err := a.judge(ctx, lever.Variant{}, p)
		if err != nil {
			return nil, err
		}
		if j.err != nil {
			refused = append(refused, j)
			continue
		}
		out = append(out, j)
	}
	a.notes.refusedPairs(refused)
	return out, nil
}

// gpus is the number of data-parallel GPUs that a candidate runs on, and effective its effective batch.
func (a *asker) gpus(c candidate) int64 {
	if n := c.with.GPUs(); n > 0 {
		return n
	}
	return a.batch.GPUs
}

func (a *asker) effective(c candidate) int64 { return c.micro * c.accum * a.gpus(c) }

// relativeTime of a candidate beside the reference, under each assumption.
func (a *asker) relativeTime(j judged) document.StepTime {
	per := a.perToken(j)
	t := document.StepTime{Low: math.Inf(1), Basis: a.basis}
	if j.with.OtherCards() {
		t.Basis = basisModel // of which nothing was measured
	}
	share := float64(a.batch.GPUs) / float64(a.gpus(j.candidate)) // of the tokens, for each GPU
	for i, x := range per {
		r := x / a.refTime[i] * share
		if i == 0 {
			t.Expected = round3(r)
		}
		t.Low, t.High = math.Min(t.Low, round3(r)), math.Max(t.High, round3(r))
	}
	return t
}

// perToken is the time of a token under the expected, the cheap and the dear assumption.
func (a *asker) perToken(j judged) [3]float64 {
	gpu := a.gpu
	if in := j.input(a.costs.base); len(in.GPUs) > 0 {
		gpu = in.GPUs[0] // another, where a lever says so
	}
	return a.perTokenOn(gpu, j)
}

// perTokenOn is perToken on another card.
func (ask *asker) perTokenOn(gpu estimator.GPU, j judged) [3]float64 {
	w := ask.workload(j)
	c := steptime.CardOf(gpu, w.Training.Precision)
	var per [3]float64
	for i, a := range ask.readings {
		per[i] = w.PerToken(c, a)
	}
	return per
}

// workload is a candidate as the time model sees it.
func (a *asker) workload(j judged) steptime.Workload {
	in := j.input(a.costs.base)
	w := steptime.Workload{Shape: a.shape, Training: in.Job.Training, Micro: float64(j.micro), Accum: float64(j.accum),
		GPUs: float64(a.gpus(j.candidate))}
	for _, l := range j.with.Levers {
		if l.Group == "layers" || l.Group == "width" {
			w.Shape = traits.ShapeOf(in, j.result.Model.Parameters)
		}
	}
	if d := in.Job.Training.Distributed; d != nil {
		w.Tensor, w.Context = float64(d.TensorParallel), float64(d.ContextParallel)
		w.Experts, w.Stages = float64(d.ExpertParallel), float64(d.PipelineParallel)
	}
	w.Parameters, w.Trainable = float64(j.result.Model.Parameters), float64(j.result.Model.TrainableParameters)
	if w.Sequence = float64(traits.SequenceLength(in, w.Shape)); w.Sequence <= 0 {
		w.Sequence = defaultSequence
	}
	return w
}

// defaultSequence stands in where neither the job nor the model says a length.
const defaultSequence = 512

// round3 keeps what the model can mean, and keeps the last bit of a processor's
// floating-point unit out of the answer.
func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// plan puts the answer together.
func (s *search) plan(ctx context.Context, r Request) (*document.Plan, error) {
	p := &document.Plan{
		Versions:         s.floor.result.Versions,
		Model:            s.floor.result.Model,
		SequenceLength:   traits.SequenceLength(s.costs.base, s.shape),
		EffectiveBatch:   s.batch.Target,
		DataParallelGPUs: s.batch.GPUs,
		GPU:              s.gpu.ID,
		UsableBytes:      s.floor.fit().UsableBytes,
		FloorBytes:       s.floor.deviceBytes(),
		FloorAtLeast:     s.floor.atLeast(),
		StepTimeBasis:    s.basis,
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
	if d := s.costs.base.Job.Training.Distributed; d != nil && d.WorldSize > 1 {
		if d.WorldSize > s.batch.GPUs {
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
	options, err := s.options(ctx, edge, r.Catalog, p.SmallestGPUs, fewest)
	if err != nil {
		return nil, err
	}
	if err := s.bound(ctx, s.shown(fewest, options)); err != nil {
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
	p.Notes = s.notes.list()
	return p, nil
}

// shown are the candidates whose bytes a plan shows.
func (s *search) shown(fewest *judged, options []proposal) []*judged {
	js := []*judged{s.rank.today, fewest}
	for i := range s.exact {
		js = append(js, &s.exact[i])
	}
	for i := range options {
		js = append(js, &options[i].judged)
	}
	return js
}
