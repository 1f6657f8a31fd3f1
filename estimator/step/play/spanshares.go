package play

import "github.com/vramplan/vramplan/estimator/step"

// Shares are the components of the moments outside micro-steps: when the model is loaded, in the optimizer step, and
// between two steps.
type Shares struct {
	Load, Optimizer, Steady [step.ComponentCount]int64
}

// share walks the run again and says of every span which components it consists of, and of the moments between
// micro-steps. A unit that is repeated is walked once, as in the survey: every repetition moves the same bytes.
func (l *Ledger) share(spans []Span, left int64) (s Shares) {
	s.Load = l.live
	l.begin()
	p := l.session.Program
	for micro := range l.session.walked() {
		turn := l.session.standing(micro)
		l.previous, l.current = l.current, l.previous
		clear(l.current)
		for g := range p.Segments {
			seg := p.Segments[g]
			l.session.mind(seg.End - seg.Start)
			copies := int64(1)
			if seg.Unit == l.fold.unit && seg.Unit >= 0 {
				copies = l.fold.copies
			}
			start := l.live
			most := l.shareSegment(seg, turn, &spans[0])
			for c := range l.live {
				delta := l.live[c] - start[c]
				for n := range copies {
					spans[n].AtMost[c], spans[n].AtEnd[c] = most[c]+delta*n, start[c]+delta*(n+1)
				}
				l.live[c] = start[c] + delta*copies
			}
			for n := range copies {
				spans[n].Reached = tensor(&p.Slots[p.Events[spans[n].event].Slot])
				spans[n].Reached.Count = 1
			}
			spans = spans[copies:]
		}
	}
	s.Optimizer, s.Steady = l.live, l.live
	s.Optimizer[step.Temporaries] += l.optimizer.scratch
	s.Steady[step.Gradients] -= left
	return s
}

// shareSegment walks one segment once and returns what is alive where the span has its most. Where that falls into what
// the middle expert does, it is that of one repetition, with those before it whole.
func (l *Ledger) shareSegment(seg step.Segment, turn standing, s *Span) (most [step.ComponentCount]int64) {
	p := l.session.Program
	run := p.RunAt(s.event)
	repeated := run != nil && run.Repeated() && l.experts.copies > 1
	most = l.live
	var entered [step.ComponentCount]int64
	for i := seg.Start; i < seg.End; i++ {
		if repeated && i == run.Start {
			entered = l.live
		}
		e := p.Events[i]
		l.apply(e, turn, l.outside(seg, e)*l.experts.happens(i))
		if i == s.event {
			most = l.live
		}
		if repeated && i == run.End-1 {
			for c := range most {
				one, upTo := (l.live[c]-entered[c])/l.experts.copies, (most[c]-entered[c])/l.experts.copies
				most[c] = entered[c] + one*s.expert + upTo
			}
		}
	}
	return most
}
