package estimator

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/memory"
)

// least answers a run that need not be played, by what is alive at its peak, and says whether it did.
func (r *player) least(out *run) bool {
	if !r.in.LeastOnly && !r.in.LeastIfBeyond {
		return false
	}
	peak := out.ledger.Peak.Bytes
	doubts := r.doubts(out)
	out.base = memory.BaseOf(peak, peak, peak, r.outside(out.recipe), doubt.Widest(doubts))
	out.figures = r.bounded(out.base, out.group)
	if out.atLeast = r.in.LeastOnly; !out.atLeast {
		// Whether all layers would be played is not known before.
		sure := memory.BaseOf(peak, peak, peak, r.outside(out.recipe), doubt.Widest(append(doubts, doubt.Continued)))
		out.atLeast = r.beyondHope(out, sure)
	}
	return out.atLeast
}

// beyondHope says that a run fits on none of its cards by the least that it takes. What is not known of a card is no
// reason.
func (r *player) beyondHope(out *run, sure memory.Base) bool {
	least := r.bounded(sure, out.group).Low
	if r.in.FitsOnly {
		least = out.figures.High
	}
	for _, c := range out.cards {
		if c.usable <= 0 || least <= c.usable {
			return false
		}
	}
	return len(out.cards) > 0
}
