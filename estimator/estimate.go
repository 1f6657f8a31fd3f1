package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/parallel"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Version is the version of the estimator: the same version gives the same bytes.
const Version = "0.6.0"

// Reference is the software whose allocations are replayed for a job that names no versions.
func Reference() string { return reference(release.Assumed(nil)) }

// Calibration names the constants that come with the estimator and were fitted rather than derived: contexts (package
// memory) and doubts.
const Calibration = "builtin-3"

// Input is a job with its names resolved: what a catalog says of the preset and
// the GPUs that the job names.
type Input struct {
	Job Job
	// Preset is the catalog's entry for Job.Model.Preset; nil otherwise.
	Preset *model.Preset
	// GPUs are the cards to judge, in the order in which the answer lists them. The
	// first decides the figures of the answer (attention kernels, workspaces).
	GPUs []GPU
	// Timeline and Tensors ask for those parts of the answer.
	Timeline, Tensors bool
	// FitsOnly is for those who ask [Judge] for nothing but whether the job fits: then no verdict makes it look for the
	// smallest limit, and one of "unlikely" may be "does_not_fit" to others.
	FitsOnly bool
	// VerdictsOnly is for those who ask [Judge] for nothing but the device figure and the verdicts, which are those of
	// [Estimate]: the smallest limit is looked for no further than they need.
	VerdictsOnly bool
	// LeastOnly is for those who ask [Judge] how much a job takes at least: nothing is played on the allocator, which
	// is taken to reserve no more than what is alive at the peak. Without a Calibration no figure of it lies above that
	// of [Estimate], and no verdict is worse.
	LeastOnly bool
	// LeastIfBeyond is for those who ask [Judge] and do not mind by how much a job is too large: what fits on no GPU
	// even if the allocator reserves no more than is alive is answered as with LeastOnly, the verdicts those of
	// [Estimate], as Result.AtLeast says; not where ranks differ or a Calibration is given.
	LeastIfBeyond bool
	// LowerBound is for those who ask [Judge] for minimum_limit_bytes and low_bytes as [Estimate] gives them.
	LowerBound bool
	// OwnLoop says that the job runs in a plain loop such as the oracle's, which does not do what the Trainer does
	// besides: the model fills the cache that its configuration asks for, and the batch goes when forward has run.
	OwnLoop bool `json:"-"`
	// held says of some changes of the table of releases whether they are there, whatever the job's releases are.
	held map[release.Switch]bool
	// Done stops the estimate within milliseconds when it is closed, with [ErrStopped]; nil never does. It is no part
	// of the question.
	Done <-chan struct{} `json:"-"`
	// Admit, where it is there, is asked before anything is recorded whether a job of this cost may be answered now. It
	// may wait.
	Admit func(Cost) (Turn, error) `json:"-"`
	// MostRequests refuses a job that takes more requests of the replayed allocator in all its runs; 0 is any number.
	MostRequests int64 `json:"-"`
	// took, where it is there, gets what the answer took.
	took *Cost
	// storage, where it is there, is that of the answer before, of the same job.
	storage *replay.Workspace
	// everyExpert records every expert of a mixture.
	everyExpert bool
	// Calibration corrects the constants that were not replayed; nil is the one that is built in. It has to be one that
	// was fitted to this version of the estimator.
	Calibration *calibration.Calibration
}

// Estimate replays one job and says what it holds at its largest moment. The error is an
// *InvalidJobError where the job cannot be understood or asks for something that is not modelled.
// It is a pure function of its input and safe for concurrent use.
func Estimate(in Input) (*Result, error) { return estimate(in, true, forOne(in)) }

// Judge is Estimate for those who ask about many jobs: it looks for the smallest allocator limit, which takes
// several replays, only where a verdict depends on it. Elsewhere minimum_limit_bytes is what is
// alive at the peak, and low_bytes follows from that; everything else is what Estimate says.
func Judge(in Input) (*Result, error) { return estimate(in, false, forOne(in)) }

func estimate(in Input, limits bool, replays *replay.Memory) (_ *Result, err error) {
	if c := in.Calibration; c != nil && (c.Estimator != Version || c.Base != Calibration) {
		return nil, fmt.Errorf("the calibration %s was fitted to the estimator %s with %s, and this is %s with %s",
			c.ID, c.Estimator, c.Base, Version, Calibration)
	}
	if kinds, _, _ := kindsOfRanks(&in.Job.Training); kinds > 1 {
		in.LeastIfBeyond = false
		return estimateRanks(in, limits, replays)
	}
	r, err := resolve(&in)
	if err != nil {
		return nil, err
	}
	limits = limits || in.LowerBound
	in.LeastIfBeyond = in.LeastIfBeyond && in.Calibration == nil && !limits
	p := playerOf(r, &in, replays)
	end, err := p.admit()
	if err != nil {
		return nil, err
	}
	defer end()
	defer r.refuseRecording(&err)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	recipe := hardware(r.recipe, first)
	recipe = r.hardware(recipe, first)
	// Cards of the same hardware share a replay, and so each replay knows the cards that it has to judge. The smallest
	// limit is part of the answer for the first of them only.
	runs := map[step.Recipe]*run{}
	for i := range in.GPUs {
		rc := r.hardware(recipe, &in.GPUs[i])
		if runs[rc] == nil {
			runs[rc] = &run{recipe: rc, limits: limits && rc == recipe, group: r.group(&in.GPUs[i])}
		}
		g := &in.GPUs[i]
		runs[rc].cards = append(runs[rc].cards, judged{usable: g.UsableBytes - in.Job.Aside(g), group: r.group(g),
			index: i})
	}
	main := runs[recipe]
	if main == nil {
		main = &run{recipe: recipe, limits: limits, group: r.group(nil)}
	}
	if err := p.replay(main, in.Timeline, in.Tensors); err != nil {
		return nil, err
	}
	res := r.answer(main, in)
	res.Played, res.Requests, res.AtLeast = main.played, main.requests, main.atLeast
	res.GPUs = make([]GPUFit, 0, len(in.GPUs))
	var others spread
	for i := range in.GPUs {
		one := runs[r.hardware(recipe, &in.GPUs[i])]
		if one.ledger == nil {
			if err := p.replay(one, false, false); err != nil {
				return nil, err
			}
			res.Played += one.played
			res.AtLeast = res.AtLeast || one.atLeast
		}
		figures := r.figures(one, r.group(&in.GPUs[i]))
		others.add(figures.Device)
		res.GPUs = append(res.GPUs, judge(&in.GPUs[i], figures, r.aside(one, &in.Job, &in.GPUs[i])))
		displayNote(res, &in.Job, &in.GPUs[i], figures.High)
	}
	main.fillIn(res.GPUs)
	if others.least != others.most {
		res.Notes = append(res.Notes, others.note(first.ID))
	}
	return res, nil
}

// run is what a replay found.
type run struct {
	recipe step.Recipe
	limits bool     // look for the smallest limit whether or not a verdict depends on it
	cards  []judged // that are judged by it

	ledger *play.Ledger
	// embeddings is how many elements the trained embeddings have that a GPU updates.
	embeddings int64
	// applied is what of the recipe the recording made use of.
	applied step.Applied
	base    memory.Base
	// group corrects the base, and figures are what comes of it.
	group   *calibration.Group
	figures memory.Figures
	// uneven is what is alive at the peak where rows go unevenly to the experts of GPUs; 0 where they do not go.
	uneven int64
	// played and requests are those of the Result.
	played, requests int64
	// continued says that not all layers were played, atLeast that none were.
	continued, atLeast bool
	// parameters is how many the model has, and trained how many of them are trained; counted for the answer.
	parameters, trained int64
}

// session records one micro-step of the job on the given hardware; plain records every layer.
func (r *player) session(w *replay.Workspace, rc step.Recipe, plain bool) *play.Session {
	a := r.recorded(rc, plain)
	plain = plain || unfolds(rc.Objective)
	units, recorded, layers := recordedLayers(a, plain || rc.Compile || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, w.Parameters)
	together := r.trainBeside(&parameters, rc)
	w.Parameters = parameters.List
	record := func(remembered step.Rehearsed) *step.Program {
		w.Tape.Rehearsed = remembered
		w.Tape.Reset(rc, r.shape, parameters)
		w.Tape.Look = r.watch()
		if rc.Objective != nil {
			w.Tape.Another = func() step.Network {
				same, _ := a.Build(layers, rc.Stored, nil)
				return same
			}
		}
		r.standBeside(&w.Tape, rc, len(parameters.List), together)
		return w.Tape.Record(net)
	}
	between := func(remembered step.Rehearsed) *play.Evaluation {
		w.Evaluated.Rehearsed = remembered
		return r.recordEvaluation(w, rc, plain)
	}
	program, evaluation := replay.Rehearsed(w, rc, record, between)
	whole := parameters
	if _, contrasts := rc.Objective.(objective.Contrastive); contrasts || r.arch.Idles() ||
		recordings.Recording(&r.arch) != nil {
		w.Tape.MarkUnreached()
	}
	if rc.Strategy != nil {
		parameters = rc.Strategy.Parts(whole, &w.Parts)
	}
	w.Session.Reset(play.Session{
		Program: program, Parameters: parameters, Whole: whole,
		Optimizer: r.optimizer, Rank: r.rank, Clip: r.clip, Recipe: rc,
		Beside: r.besides(rc, plain), Leaving: r.leaving(rc), Units: units, Recorded: recorded, Lead: a.Lead,
		Evaluation: evaluation,
	})
	return &w.Session
}

// unfolds says that an objective has every layer recorded.
func unfolds(o step.Objective) bool {
	every, ok := o.(step.Unfolded)
	return ok && every.Unfolds()
}

// recorded is the architecture as it is recorded.
func (r *player) recorded(rc step.Recipe, plain bool) *model.Architecture {
	_, flat := rc.Strategy.(parallel.FSDP1) // one part of a layer's flat tensor begins within any expert
	if !plain && !flat && !rc.Spread().Irregular() && !r.in.everyExpert {
		return &r.arch
	}
	every := r.arch
	every.EveryExpert = true
	return &every
}

// recordedLayers is how many units a model has, and how many of them, with how many layers, have to be recorded.
func recordedLayers(a *model.Architecture, all bool) (units, recorded, layers int64) {
	per := a.UnitLayers()
	units = (a.Layers + per - 1) / per
	recorded = step.RecordedUnits(units, a.Lead)
	if all || a.Irregular || a.Layers%per != 0 || a.Lead > 0 && per > 1 {
		recorded = units // the last unit is cut short: nothing repeats to the end
	}
	return units, recorded, min(a.Layers, recorded*per)
}

// replay fills in what a run finds.
func (r *player) replay(out *run, timeline, tensors bool) error {
	if err := r.look(); err != nil {
		return err
	}
	w := r.workspace()
	var err error
	if out.uneven, err = r.unevenly(w, out.recipe); err != nil {
		return err
	}
	s, err := r.begin(w, out.recipe)
	if err != nil {
		return err
	}
	defer func() { r.account(w) }()
	w.Restart()
	out.ledger, out.applied = s.Account(timeline, tensors), w.Tape.Applied
	if err := r.look(); err != nil {
		return err
	}
	out.requests = s.CountRequests()
	s.Parameters.Distinct(func(p *step.Parameter, times int64) {
		if p.Embedding && p.Trained() {
			out.embeddings += times * p.Numel
		}
	})
	if r.least(out) {
		return nil
	}
	once := replay.Requests(s)
	searches := out.limits && r.arch.Layers <= deepLayers && once <= replay.SearchedRequests
	found, err := r.replays.Of(s, r.expand, out.ledger.Peak.Bytes, r.turn, r.in.Done)
	if err != nil {
		return err
	}
	defer found.Unlock()
	w.Forget()
	if r.spent() {
		return r.tooDear()
	}
	base := func(limit, reserved int64) memory.Base {
		return memory.BaseOf(found.Allocated, reserved, limit, r.outside(out.recipe), doubt.Widest(r.doubts(out)))
	}
	mayDecide := !r.in.FitsOnly && once <= replay.SearchedRequests
	if !found.Done {
		keep := searches
		if mayDecide && !searches {
			const mostBeyond = 1.5 // hardly a job reserves more than so many times what is alive
			peak := out.ledger.Peak.Bytes
			most := int64(mostBeyond * float64(peak))
			keep = r.undecided(out, base(peak, most), base(most, most))
		}
		if err := w.PlayAll(found, out.ledger.Peak.Bytes, r.expand, keep && !r.expand); err != nil {
			return err
		}
		found.Done = true
	}
	out.played, out.continued = found.Requests, found.Continued
	out.base = base(min(out.ledger.Peak.Bytes, found.Reserved), found.Reserved)
	out.figures = r.bounded(out.base, out.group)
	if found.Continued { // of a job that was not played to its end no more is known
		return nil
	}
	if !searches && !(mayDecide && r.undecided(out, out.base, base(found.Reserved, found.Reserved))) {
		return nil
	}
	if found.Limit == 0 && r.spent() {
		return r.tooDear()
	}
	if found.Limit == 0 {
		enough := func(int64, int64) bool { return false }
		if r.in.VerdictsOnly && !searches {
			enough = func(least, most int64) bool {
				return r.decided(out, least, most, func(limit int64) memory.Base { return base(limit, found.Reserved) })
			}
		}
		if searches && !r.expand && !w.Stood() { // it was played for an earlier question
			w.Play(replay.Steps(s), r.expand, out.ledger.Peak.Bytes-1)
		}
		limit, tries, whole := w.SmallestLimit(r.expand, out.ledger.Peak.Bytes, found.Reserved, enough)
		if s.Ended() == play.Stopped {
			return ErrStopped
		}
		if !whole {
			out.base = base(limit, found.Reserved)
			out.figures = r.bounded(out.base, out.group)
			return nil
		}
		found.Limit, found.Tries = limit, tries
	}
	out.played += found.Tries * found.Requests
	out.base = base(found.Limit, found.Reserved)
	out.figures = r.bounded(out.base, out.group)
	if out.limits {
		r.fill(w, out, found.Requests)
	}
	return nil
}

// spent says that the answer took as many requests as it may.
func (r *player) spent() bool { return r.in.MostRequests > 0 && r.played >= r.in.MostRequests }

// account counts what a replay took, and gives its workspace back.
func (r *player) account(w *replay.Workspace) {
	r.played += w.Taken()
	if took := r.in.took; took != nil {
		took.Requests += w.Taken() + int64(len(w.Session.Program.Events))
		took.Bytes = max(took.Bytes, w.StorageBytes())
	}
	w.Session.Watch, w.Tape.Look, w.Evaluated.Look = play.Watch{}, nil, nil
	select {
	case <-r.in.Done: // whatever it was in the middle of
		return
	default:
	}
	if w != r.in.storage {
		w.PutBack()
	}
}

// deepLayers is up to how many layers the smallest limit is always looked for; beyond, where a replay takes
// longer, only when a verdict depends on it.
const deepLayers = 256

// hardware is the recipe for g. Very deep models, whose replay takes long, are replayed for the kinds of hardware only
// and not for every number of multiprocessors, which moves the scratch of a few sums.
func (r *work) hardware(first step.Recipe, g *GPU) step.Recipe {
	if r.arch.Layers <= deepLayers {
		return hardware(r.recipe, g)
	}
	rc := r.recipe
	rc.Hardware = hardwareOf(g, &rc.Software, &first.Hardware)
	return rc
}

// Replay plays the allocations and frees of the given number of optimizer steps on heap, in PyTorch's order: what
// Estimate plays on its model of the caching allocator. plain records and plays every layer by itself, without the
// short cut for layers that repeat.
func Replay(in Input, heap alloc.Heap, steps int, plain bool) (err error) {
	r, err := resolve(&in)
	if err != nil {
		return err
	}
	defer r.refuseRecording(&err)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	playerOf(r, &in, nil).session(&replay.Workspace{}, hardware(r.recipe, first), plain).Play(heap, steps)
	return nil
}
