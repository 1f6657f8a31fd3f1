package play

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// KeepsGradients is zero_grad that fills gradients with zeros instead of letting go of them.
var KeepsGradients = release.Declare("keeps-gradients", release.Change{
	Library: "torch", To: "2.0",
	What:   "zero_grad of torch before 2.0 keeps the gradients' memory through the next forward",
	Source: "torch/optim/optimizer.py (zero_grad), 1.13 and 2.0", Shown: "published runs",
}, release.Change{
	Library: "transformers", To: "4.27", Unless: "torch",
	What: "zero_grad of torch before 2.0, which was there when transformers 4.26 was, keeps the gradients' " +
		"memory through the next forward",
	Source: "release dates: torch 2.0 and transformers 4.27 in March 2023", Shown: "published runs",
})

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
		l.session.mind(seg.End - seg.Start)
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
