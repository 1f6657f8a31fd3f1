package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// survey goes through the run for its totals alone and finds the largest moments; it returns what the first
// micro-step leaves behind, and what all of them do.
func (l *Ledger) survey() (gradients, left int64) {
	s := l.session
	loading := s.strategy.LoadPeak(s.asRank(), l.live[step.Weights])
	if s.strategy.LoadYields() {
		l.Largest[StageLoad] = max(l.total, loading)
		loading = l.total
	}
	leaving, _ := s.leaving()
	l.record(StageLoad, Moment{Bytes: max(l.total+leaving, loading), Stage: StageLoad, MicroStep: -1, Layer: -1,
		Label: step.LabelParameter, segment: -1})
	l.Resumed = l.total + l.optimizer.states
	l.begin()
	l.surveyEvaluation()
	before := l.total
	for m := range s.walked() {
		l.surveyMicroStep(m)
		if m == 0 {
			gradients = l.total - before
		}
	}
	left = l.total - before
	l.record(StageOptimizer, Moment{Bytes: l.total + l.optimizer.scratch, Stage: StageOptimizer, Backward: true,
		MicroStep: -1, Layer: -1, Label: l.optimizer.label, segment: -1})
	l.Steady = l.total - left
	return gradients, left
}

// walk goes through the run, component by component, up to where it is told to stop.
func (l *Ledger) walk(gradients, left int64) {
	if l.stop.Stage == StageLoad {
		return
	}
	l.begin()
	first := int64(0)
	if l.counts == nil && (l.stop.MicroStep > 0 || l.stop.Stage == StageOptimizer) {
		if l.stop.Stage == StageOptimizer {
			gradients = left
		}
		// Nothing but the gradients is left of a first micro-step, or of all.
		l.live[step.Gradients] += gradients
		l.total += gradients
		first = 1
		if l.stop.Stage == StageOptimizer {
			return
		}
	}
	for m := first; m < l.session.walked(); m++ {
		if l.microStep(m) {
			return
		}
	}
}

// surveyMicroStep walks one micro-step for its totals. A unit that is repeated is walked once: each repetition
// starts from what the one before left, so the largest of them is the last when a unit leaves something behind
// and the first when it takes something away.
func (l *Ledger) surveyMicroStep(micro int64) {
	s, p := l.session, l.session.Program
	first := s.standing(micro)
	l.previous, l.current = l.current, l.previous
	clear(l.current)
	passed := 0 // 0 before the layers' forward, 1 after it, 2 after their backward
	for g := range p.Segments {
		seg := p.Segments[g]
		s.mind(seg.End - seg.Start)
		stage := StageForward
		switch {
		case seg.Kind == step.PassReference:
			stage = StageReference
		case seg.Kind == step.PassGeneration:
			stage = StageGeneration
		case seg.Kind == step.PassEvaluation:
			stage = StageEvaluation
		case seg.Unit < 0 && (seg.Backward && passed < 2 || !seg.Backward && passed == 1):
			stage = StageLoss
		case seg.Backward:
			stage = StageBackward
		}
		if seg.Unit >= 0 && seg.Kind == step.PassTraining {
			passed = 1
			if seg.Backward {
				passed = 2
			}
		}
		start := l.total
		total, most, at, expert := l.surveySegment(seg, first)
		copies := int64(1)
		if seg.Unit == l.fold.unit && seg.Unit >= 0 {
			copies = l.fold.copies
		}
		delta := total - start
		l.total = start + delta*copies
		best := Moment{Bytes: most, Stage: stage, Backward: seg.Backward, MicroStep: micro, segment: g, event: at,
			expert: expert}
		if delta > 0 && copies > 1 {
			best.Bytes += delta * (copies - 1)
			best.copy = copies - 1
		}
		best.Layer = s.layer(seg.Unit, seg.Backward, best.copy)
		best.Label = p.Slots[p.Events[at].Slot].Label
		l.record(stage, best)
		l.span(seg, stage, micro, start, delta, copies, best)
	}
}

// surveySegment adds up one segment, once: what is alive when it ends, the most that ever was, and at which event of
// which repetition of the middle expert.
func (l *Ledger) surveySegment(seg step.Segment, turn standing) (total, most int64, at int, expert int64) {
	if l.experts.copies <= 1 {
		total, most, at = l.surveyEvents(seg, seg.Start, seg.End, turn, l.total, false)
		return total, most, at, 0
	}
	total, most = l.total, -1
	l.session.Program.EachStretch(seg, func(from, to int, run *step.Run) {
		start := total
		end, highest, where := l.surveyEvents(seg, from, to, turn, start, run == nil)
		which := int64(0)
		total = end
		if run != nil && run.Repeated() {
			total = start + (end-start)*l.experts.copies
			if end > start {
				which = l.experts.copies - 1
				highest += (end - start) * which
			}
		}
		if highest > most {
			most, at, expert = highest, where, which
		}
	})
	return total, most, at, expert
}

// surveyEvents does so for some events of a segment, before which total is alive. spread says that what happens to the
// middle expert's tensor happens to that of every repetition.
func (l *Ledger) surveyEvents(seg step.Segment, from, to int, turn standing, before int64,
	spread bool) (total, most int64, at int) {
	events, slots := l.session.Program.Events[from:to], l.session.Program.Slots
	previous, current := l.previous, l.current
	total, most = before, -1
	first := turn.first
	folded := seg.Unit < 0 && l.fold.unit >= 0
	for i, e := range events {
		bytes := alloc.Rounded(slots[e.Slot].Bytes)
		if folded && l.fold.isMiddle[e.Slot] {
			bytes *= l.fold.copies
		}
		if spread && slots[e.Slot].Expert == step.MiddleExpert {
			bytes *= l.experts.copies
		}
		switch e.Op {
		case step.Alloc, step.AllocAside:
			total += bytes
			current[e.Slot] = true
		case step.Free:
			total -= bytes
			current[e.Slot] = false
		case step.Keep:
			if !first {
				total -= bytes
			}
			current[e.Slot] = false
		case step.AllocFirst:
			if first {
				total += bytes
			}
		case step.FreePrev:
			if previous[e.Slot] {
				previous[e.Slot] = false
				total -= bytes
			}
		case step.AllocOnce: // there since the first step
		default:
			total += bytes * turn.whole(e.Op)
		}
		if total > most {
			most, at = total, from+i
		}
	}
	return total, most, at
}

// span adds what is shown of a segment, every repetition of it.
func (l *Ledger) span(seg step.Segment, stage Stage, micro, start, delta, copies int64, best Moment) {
	if !l.keepSpans {
		return
	}
	most := best.Bytes - best.copy*delta
	for c := range copies {
		l.Spans = append(l.Spans, Span{Stage: stage, Backward: seg.Backward, MicroStep: micro,
			Layer: l.session.layer(seg.Unit, seg.Backward, c), End: start + delta*(c+1), Most: most + delta*c,
			event: best.event, expert: best.expert})
	}
}

// layer is the unit of the model that the copy-th repetition, in order of time, of a recorded unit stands for.
func (s *Session) layer(unit int32, backward bool, copy int64) int64 {
	repeated := s.Lead + step.FoldedFirst
	if s.Units <= s.Recorded || int64(unit) < repeated {
		return int64(unit)
	}
	extra := s.Units - s.Recorded
	if int64(unit) > repeated {
		return int64(unit) + extra
	}
	if backward {
		return repeated + extra - copy
	}
	return repeated + copy
}
