package play

import "github.com/vramplan/vramplan/estimator/step"

// standing is where a micro-step stands in its optimizer step.
type standing struct {
	// first says that it finds no gradients, last that gradients that were accumulated whole are summed over the GPUs
	// at its end.
	first, last bool
}

// walked is how many micro-steps of an optimizer step the ledger walks: the second stands for all later ones, but for
// the last where that is unlike the others.
func (s *Session) walked() int64 {
	if s.strategy.SumsLast() {
		return min(s.Recipe.Accumulation, 3)
	}
	return min(max(s.Recipe.Accumulation, 1), 2)
}

// standing is that of micro-step m of those that the ledger walks.
func (s *Session) standing(m int64) standing {
	return standing{s.firstMicroStep(m), s.strategy.SumsLast() && m == s.walked()-1}
}

// whole is what an event of gradients that are accumulated whole does to what is alive: allocate (1), free (-1) or
// nothing (0).
func (t standing) whole(o step.Op) int64 {
	switch {
	case o == step.Hold && !t.first:
		return -1
	case o == step.AllocHeld && t.first:
		return 1
	case !t.last:
		return 0
	case o == step.AllocLast, o == step.AllocAsideLast:
		return 1
	case o == step.FreeHeld, o == step.FreeLast:
		return -1
	}
	return 0
}
