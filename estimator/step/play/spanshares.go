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
			copies := int64(1)
			if seg.Unit == l.fold.unit && seg.Unit >= 0 {
				copies = l.fold.copies
			}
			start, most := l.live, l.live
			for i := seg.Start; i < seg.End; i++ {
				e := p.Events[i]
				l.apply(e, turn, l.outside(seg, e))
				if i == spans[0].event {
					most = l.live
				}
			}
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
