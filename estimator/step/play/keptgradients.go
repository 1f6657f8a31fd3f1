package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// firstMicroStep says whether micro-step m of an optimizer step that is not the run's first finds no gradients.
func (s *Session) firstMicroStep(m int64) bool {
	return m == 0 && !s.Recipe.KeepsGradients && !s.Recipe.States.GradientBuffers
}

// keptGradients adds the gradients that the optimizer step before left behind with zeros in them.
func (l *Ledger) keptGradients() {
	if !l.session.Recipe.KeepsGradients || l.session.Recipe.States.GradientBuffers {
		return
	}
	p := l.session.Program
	for _, seg := range p.Segments {
		copies := int64(1)
		if seg.Unit == l.fold.unit && seg.Unit >= 0 {
			copies = l.fold.copies
		}
		for i, e := range p.Events[seg.Start:seg.End] {
			if e.Op == step.Keep || e.Op == step.AllocFirst {
				l.add(e.Slot, alloc.Rounded(p.Slots[e.Slot].Bytes)*copies*l.outside(seg, e)*l.experts.happens(seg.Start+
					i))
			}
		}
	}
}
