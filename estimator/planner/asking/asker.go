package asking

import (
	"context"
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Asker asks the estimator about candidates, within what a plan may ask, and says how long they take.
type Asker struct {
	Batch pairing.Batch
	Costs *costs
	Tool  string
	GPU   estimator.GPU
	Rest  []estimator.GPU // further GPUs of the job
	Shape traits.Shape

	// RefTime is what times are relative to.
	RefTime [3]float64
	// Readings are the expected, the cheap and the dear one, and basis what they rest on.
	Readings steptime.Readings
	Basis    string
	Notes    notes
	Budget   budget
	// Bounds says that lower bounds are looked for from the beginning, brief that they are left out.
	Bounds, Brief bool
}

// New asks estimate about the ways to run a job on its first card, whose batch is b.
func New(estimate Estimator, in estimator.Input, b pairing.Batch, brief, leastIfBeyond bool) *Asker {
	a := &Asker{
		Batch: b,
		Costs: NewCosts(estimate, in, leastIfBeyond),
		Tool:  traits.ToolOf(in),
		Rest:  in.GPUs[min(1, len(in.GPUs)):],
		Brief: brief,
	}
	if len(in.GPUs) > 0 {
		a.GPU = in.GPUs[0]
	}
	return a
}

// Judged is a candidate with its answer.
type Judged struct {
	Candidate
	Answer
	Time document.StepTime
}

// Choice is its pair.
func (j Judged) Choice() pairing.Choice {
	return pairing.Choice{MicroBatch: j.Micro, GradientAccumulation: j.Accum}
}

// DeviceBytes is what the card holds; 0 where the estimator refuses the candidate.
func (j Judged) DeviceBytes() int64 {
	if j.Result == nil {
		return 0
	}
	return j.Result.Peak.DeviceBytes
}

// LowBytes is the lower bound; 0 also where nobody looked for it.
func (j Judged) LowBytes() int64 {
	if j.Result == nil || !j.whole {
		return 0
	}
	return j.Result.Peak.LowBytes
}

// AtLeast says that the candidate cannot fit and was not played: its bytes are the least that it takes.
func (j Judged) AtLeast() bool { return j.Result != nil && j.Result.AtLeast }

// HighBytes is the upper bound; 0 where the estimator refuses the candidate.
func (j Judged) HighBytes() int64 {
	if j.Result == nil {
		return 0
	}
	return j.Result.Peak.HighBytes
}

// Judge asks about one candidate. Its error is not the estimator's refusal, which
// is an answer.
func (a *Asker) Judge(ctx context.Context, v lever.Variant, p pairing.Choice) (Judged, error) {
	return a.judgeWith(ctx, v, p, false)
}

// JudgeShown is judge for a candidate that most likely is shown: with its lower bound, where those are looked for.
func (a *Asker) JudgeShown(ctx context.Context, v lever.Variant, p pairing.Choice) (Judged, error) {
	return a.judgeWith(ctx, v, p, a.Bounds)
}

func (a *Asker) judgeWith(ctx context.Context, v lever.Variant, p pairing.Choice, whole bool) (Judged, error) {
	j := Judged{Candidate: Candidate{With: v, Micro: p.MicroBatch, Accum: p.GradientAccumulation}}
	var err error
	if j.Answer, err = a.Costs.answer(ctx, j.Candidate, whole); err != nil {
		return Judged{}, err
	}
	if a.RefTime[0] > 0 && j.Result != nil {
		j.Time = a.RelativeTime(j)
	}
	return j, nil
}

// JudgeAll judges pairs of the job as it stands and leaves out those that the
// estimator refuses, with a note: a micro-batch beyond what a job may ask for.
func (a *Asker) JudgeAll(ctx context.Context, ps []pairing.Choice) ([]Judged, error) {
	out := make([]Judged, 0, len(ps))
	var refused []Judged
	for _, p := range ps {
		j, err := a.Judge(ctx, lever.Variant{}, p)
		if err != nil {
			return nil, err
		}
		if j.Err != nil {
			refused = append(refused, j)
			continue
		}
		out = append(out, j)
	}
	a.Notes.refusedPairs(refused)
	return out, nil
}

// GPUs is the number of data-parallel GPUs that a candidate runs on.
func (a *Asker) GPUs(c Candidate) int64 {
	if n := c.With.GPUs(); n > 0 {
		return n
	}
	return a.Batch.GPUs
}

// Effective is the effective batch of a candidate.
func (a *Asker) Effective(c Candidate) int64 { return c.Micro * c.Accum * a.GPUs(c) }

// RelativeTime of a candidate beside the reference, under each assumption.
func (a *Asker) RelativeTime(j Judged) document.StepTime {
	per := a.PerToken(j)
	t := document.StepTime{Low: math.Inf(1), Basis: a.Basis}
	if j.With.OtherCards() {
		t.Basis = BasisModel // of which nothing was measured
	}
	share := float64(a.Batch.GPUs) / float64(a.GPUs(j.Candidate)) // of the tokens, for each GPU
	for i, x := range per {
		r := x / a.RefTime[i] * share
		if i == 0 {
			t.Expected = Round3(r)
		}
		t.Low, t.High = math.Min(t.Low, Round3(r)), math.Max(t.High, Round3(r))
	}
	return t
}

// PerToken is the time of a token under the expected, the cheap and the dear assumption.
func (a *Asker) PerToken(j Judged) [3]float64 {
	gpu := a.GPU
	if in := j.Input(a.Costs.Base); len(in.GPUs) > 0 {
		gpu = in.GPUs[0] // another, where a lever says so
	}
	return a.PerTokenOn(gpu, j)
}

// PerTokenOn is perToken on another card.
func (ask *Asker) PerTokenOn(gpu estimator.GPU, j Judged) [3]float64 {
	w := ask.Workload(j)
	c := steptime.CardOf(gpu, w.Training.Precision)
	var per [3]float64
	for i, a := range ask.Readings {
		per[i] = w.PerToken(c, a)
	}
	return per
}

// Workload is a candidate as the time model sees it.
func (a *Asker) Workload(j Judged) steptime.Workload {
	in := j.Input(a.Costs.Base)
	w := steptime.Workload{Shape: a.Shape, Training: in.Job.Training, Micro: float64(j.Micro), Accum: float64(j.Accum),
		GPUs: float64(a.GPUs(j.Candidate))}
	for _, l := range j.With.Levers {
		if l.Group == "layers" || l.Group == "width" {
			w.Shape = traits.ShapeOf(in, j.Result.Model.Parameters)
		}
	}
	if d := in.Job.Training.Distributed; d != nil {
		w.Tensor, w.Context = float64(d.TensorParallel), float64(d.ContextParallel)
		w.Experts, w.Stages = float64(d.ExpertParallel), float64(d.PipelineParallel)
	}
	w.Parameters, w.Trainable = float64(j.Result.Model.Parameters), float64(j.Result.Model.TrainableParameters)
	if w.Sequence = float64(traits.SequenceLength(in, w.Shape)); w.Sequence <= 0 {
		w.Sequence = DefaultSequence
	}
	return w
}

// DefaultSequence stands in where neither the job nor the model says a length.
const DefaultSequence = 512

// Round3 keeps what the model can mean, and keeps the last bit of a processor's
// floating-point unit out of the answer.
func Round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// Judging is [search.judge], or what stands in its place.
type Judging func(context.Context, lever.Variant, pairing.Choice) (Judged, error)

// What StepTime.Basis says: the model alone, or fitted to measured steps.
const (
	BasisModel      = "model"
	BasisCalibrated = "calibrated"
)
