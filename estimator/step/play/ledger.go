package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// Ledger is the live memory of a run by component, in bytes rounded up to the
// allocator's blocks of 512. It follows a session without an allocator and without playing
// repeated layers one by one, and finds the largest moment.
type Ledger struct {
	session *Session
	fold    fold
	experts experts

	live  [step.ComponentCount]int64
	parts [step.PartCount]int64
	total int64

	previous []bool // by slot: what the last micro-step left there is still alive
	current  []bool
	once     []bool
	lasting  []step.Event // those of the program that concern what outlives a micro-step, in order

	// Largest is the largest total of each stretch of a step that has been walked.
	Largest [StageCount]int64
	// Steady is what stays between two optimizer steps.
	Steady int64
	// Resumed is what is there before the first forward of a run that starts from a checkpoint.
	Resumed int64
	Peak    Moment
	// Spans has the live bytes at the end of every segment, when asked for.
	Spans     []Span
	keepSpans bool
	// Shares are the components of what lies between the spans, when these are asked for.
	Shares Shares

	tally     alloc.Tally
	optimizer optimizerTotals

	stop   *Moment // where to stop and take stock
	counts []int64 // by slot: how many are alive, when stock is taken of tensors
}

// Stage is a stretch of a training step.
type Stage uint8

// The stages. Loss is the stretch from the last layer's forward to its backward; reference and generation are passes
// without a graph.
const (
	StageLoad Stage = iota
	StageForward
	StageLoss
	StageBackward
	StageOptimizer
	StageEvaluation
	StageReference
	StageGeneration
	StageCount
)

// Moment is a point of the run at which live memory was taken stock of.
type Moment struct {
	Bytes      int64
	Stage      Stage
	Backward   bool
	MicroStep  int64      // within the optimizer step; -1 outside; in the evaluation, the batch
	Layer      int64      // unit of the model whose segment it falls into; -1 outside
	Label      step.Label // the tensor whose allocation reached it
	Components [step.ComponentCount]int64
	Parts      [step.PartCount]int64
	Tensors    []LiveTensor

	between        bool // before the micro-steps
	segment, event int
	copy           int64
	expert         int64 // how many of the repeated experts went before
}

// Between says that the moment lies before the micro-steps of an optimizer step.
func (m *Moment) Between() bool { return m.between }

// Span is the live memory when a segment ends and the most that it reached.
type Span struct {
	Stage     Stage
	Backward  bool
	MicroStep int64
	Layer     int64
	End, Most int64
	// AtEnd and AtMost are End and Most by component; Reached is the tensor whose allocation reached Most.
	AtEnd, AtMost [step.ComponentCount]int64
	Reached       LiveTensor

	event  int
	expert int64 // which repetition of the middle expert
}

// Account walks one run: the model is loaded, then an optimizer step in which the optimizer's state
// exists. The peak is the largest moment; of equal ones the first.
func (s *Session) Account(spans, tensors bool) *Ledger {
	l := s.ledger()
	l.keepSpans = spans
	gradients, left := l.survey()
	found := Ledger{Largest: l.Largest, Steady: l.Steady, Resumed: l.Resumed, Peak: l.Peak, Spans: l.Spans}
	l.restart()
	if spans {
		found.Shares = l.share(found.Spans, left)
		l.restart()
	}
	taken := l.stock(&found.Peak, tensors, gradients, left)
	found.Peak.Components, found.Peak.Parts, found.Peak.Tensors = taken.Components, taken.Parts, taken.Tensors
	return &found
}

// ledger is an empty ledger, in the storage of the session's last one.
func (s *Session) ledger() *Ledger {
	l := &s.book
	n := len(s.Program.Slots)
	flags := func(b []bool) []bool {
		if cap(b) < n {
			return make([]bool, n)
		}
		b = b[:n]
		clear(b)
		return b
	}
	f, x := l.fold, l.experts
	f.set(s.Program, s.Recorded, s.Units, s.Lead)
	x.set(s.Program, &f)
	*l = Ledger{session: s, fold: f, experts: x, previous: flags(l.previous), current: flags(l.current),
		once:    flags(l.once),
		lasting: l.lasting[:0], tally: l.tally}
	l.collectLasting()
	l.optimizer = reckoner{s}.optimizerTotals(&l.tally)
	l.load()
	return l
}

// restart takes the ledger back to where it was made.
func (l *Ledger) restart() {
	clear(l.previous)
	clear(l.current)
	clear(l.once)
	*l = Ledger{session: l.session, fold: l.fold, experts: l.experts, previous: l.previous, current: l.current,
		once:    l.once,
		lasting: l.lasting, tally: l.tally, optimizer: l.optimizer}
	l.load()
}

func (l *Ledger) load() {
	l.session.Parameters.Distinct(func(p *step.Parameter, times int64) {
		p.Tensors(func(bytes int64) { l.live[step.Weights] += times * alloc.Rounded(bytes) })
	})
	l.session.mind(len(l.session.Parameters.List))
	for i := range l.session.Beside {
		l.session.mind(len(l.session.Beside[i].List))
		l.session.Beside[i].Distinct(func(p *step.Parameter, times int64) {
			l.live[step.Weights] += times * alloc.Rounded(p.Bytes())
		})
	}
	if l.session.Parameters.Nested() {
		l.live[step.Weights] += alloc.Rounded(step.DynamicCode)
	}
	l.total = l.live[step.Weights]
	l.session.eachState(func(bytes int64, c step.Component) {
		l.live[c] += alloc.Rounded(bytes)
		l.total += alloc.Rounded(bytes)
	})
}

// stock walks to moment m and says what is alive there. gradients is what a first micro-step leaves
// behind, left what all of them do.
func (l *Ledger) stock(m *Moment, tensors bool, gradients, left int64) Moment {
	l.stop = m
	if tensors {
		l.counts = make([]int64, len(l.session.Program.Slots))
	}
	if m.Stage == StageEvaluation || m.between {
		return l.stockEvaluation(tensors)
	}
	l.walk(gradients, left)
	taken := Moment{Components: l.live, Parts: l.parts}
	passing, leaving := int64(0), int64(0) // what loading or the optimizer takes for the moment, and what then goes
	if m.Stage == StageOptimizer || m.Stage == StageLoad {
		passing = m.Bytes - l.total
		if m.Stage == StageLoad {
			_, leaving = l.session.leaving()
			taken.Components[step.Weights] += leaving
			passing -= leaving
		}
		taken.Components[step.Temporaries] += passing
	}
	if tensors {
		taken.Tensors = l.tensors()
		if passing > 0 {
			taken.Tensors = append(taken.Tensors, LiveTensor{Label: m.Label, Component: step.Temporaries,
				Bytes: passing, Count: 1})
		}
		if leaving > 0 {
			taken.Tensors = append(taken.Tensors, LiveTensor{Label: step.LabelParameter, Component: step.Weights,
				Bytes: leaving, Count: 1})
		}
		largestFirst(taken.Tensors)
	}
	return taken
}

// begin sets the ledger to the start of the second optimizer step: the optimizer's state is there, and
// what every micro-step leaves to the next: the batch, what the loop holds of the model's output, and what is
// allocated once. The first step is never larger than the second.
func (l *Ledger) begin() {
	l.live[step.OptimizerState] += l.optimizer.states
	l.total += l.optimizer.states
	l.keptGradients()
	for _, e := range l.lasting {
		switch {
		case e.Op == step.FreePrev && !l.current[e.Slot]:
			l.current[e.Slot] = true
			l.add(e.Slot, alloc.Rounded(l.session.Program.Slots[e.Slot].Bytes)*l.repeats(e.Slot))
		case e.Op == step.AllocOnce && !l.once[e.Slot]:
			l.once[e.Slot] = true
			l.add(e.Slot, alloc.Rounded(l.session.Program.Slots[e.Slot].Bytes)*l.repeats(e.Slot))
		}
	}
}

// collectLasting lists what is allocated once, and what the end of a micro-step leaves for the next one to free.
func (l *Ledger) collectLasting() {
	for _, e := range l.session.Program.Events {
		switch e.Op {
		case step.Alloc:
			l.current[e.Slot] = true
		case step.Free, step.Keep:
			l.current[e.Slot] = false
		case step.AllocOnce, step.FreePrev:
			l.lasting = append(l.lasting, e)
		}
	}
	l.session.mind(len(l.session.Program.Events))
	l.lasting = slices.DeleteFunc(l.lasting, func(e step.Event) bool {
		return e.Op == step.FreePrev && !l.current[e.Slot]
	})
	clear(l.current)
}

// repeats is for how many tensors a slot stands.
func (l *Ledger) repeats(slot int32) int64 {
	experts := l.experts.of(l.session.Program, slot)
	if l.fold.unit >= 0 && l.fold.isMiddle[slot] {
		return l.fold.copies * experts
	}
	return experts
}

// record notes a moment.
func (l *Ledger) record(stage Stage, m Moment) {
	l.Largest[stage] = max(l.Largest[stage], m.Bytes)
	if m.Bytes > l.Peak.Bytes {
		l.Peak = m
	}
}

func (l *Ledger) apply(e step.Event, at standing, copies int64) {
	first := at.first
	bytes := alloc.Rounded(l.session.Program.Slots[e.Slot].Bytes) * copies
	switch e.Op {
	case step.Alloc, step.AllocAside:
		l.current[e.Slot] = true
		l.add(e.Slot, bytes)
	case step.Free:
		l.current[e.Slot] = false
		l.add(e.Slot, -bytes)
	case step.Keep:
		if !first {
			l.current[e.Slot] = false
			l.add(e.Slot, -bytes)
		}
	case step.AllocFirst:
		if first {
			l.add(e.Slot, bytes)
		}
	case step.AllocOnce:
		if !l.once[e.Slot] {
			l.once[e.Slot] = true
			l.add(e.Slot, bytes)
		}
	case step.FreePrev:
		if l.previous[e.Slot] {
			l.previous[e.Slot] = false
			l.add(e.Slot, -bytes)
		}
	default:
		l.add(e.Slot, bytes*at.whole(e.Op))
	}
}

func (l *Ledger) add(i int32, bytes int64) {
	slot := &l.session.Program.Slots[i]
	l.live[slot.Component] += bytes
	if slot.Component == step.Activations {
		l.parts[slot.Part] += bytes
	}
	l.total += bytes
	if l.counts != nil {
		l.counts[i] += bytes / alloc.Rounded(slot.Bytes)
	}
}

// microStep walks one micro-step component by component. It says whether it came to where the walk stops.
func (l *Ledger) microStep(micro int64) bool {
	p := l.session.Program
	first := l.session.standing(micro)
	l.previous, l.current = l.current, l.previous
	clear(l.current)
	for g := range p.Segments {
		seg := p.Segments[g]
		l.session.mind(seg.End - seg.Start)
		if l.stop.MicroStep == micro && l.stop.segment == g {
			l.stopIn(seg, first)
			return true
		}
		copies := int64(1)
		if seg.Unit == l.fold.unit && seg.Unit >= 0 {
			copies = l.fold.copies
		}
		for i, e := range p.Events[seg.Start:seg.End] {
			l.apply(e, first, copies*l.outside(seg, e)*l.experts.happens(seg.Start+i))
		}
	}
	return false
}

// stopIn goes into segment seg up to the moment at which the walk stops.
func (l *Ledger) stopIn(seg step.Segment, first standing) {
	events := l.session.Program.Events
	if l.stop.copy > 0 {
		for i, e := range events[seg.Start:seg.End] {
			l.apply(e, first, l.stop.copy*l.experts.happens(seg.Start+i))
		}
	}
	from := seg.Start
	to := l.stop.event + 1
	if r := l.session.Program.RunAt(l.stop.event); r != nil && r.Repeated() {
		to = r.Start
	}
	for i, e := range events[from:to] {
		l.apply(e, first, l.outside(seg, e)*l.experts.happens(from+i))
	}
	if to <= l.stop.event { // some experts whole, and one up to the moment
		r := l.session.Program.RunAt(l.stop.event)
		if l.stop.expert > 0 {
			for _, e := range events[r.Start:r.End] {
				l.apply(e, first, l.outside(seg, e)*l.stop.expert)
			}
		}
		for _, e := range events[to : l.stop.event+1] {
			l.apply(e, first, l.outside(seg, e))
		}
	}
}

// outside is for how many tensors an event stands: outside the layers, what happens to the repeated unit's
// tensor happens to that of every repetition.
func (l *Ledger) outside(seg step.Segment, e step.Event) int64 {
	if seg.Unit < 0 && l.fold.unit >= 0 && l.fold.isMiddle[e.Slot] {
		return l.fold.copies
	}
	return 1
}
