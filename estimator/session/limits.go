package session

import (
	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolved"
)

// fill plays a run on each of its cards that has less than is reserved without a limit, but not less than the smallest
// limit: there the driver refuses a segment, the allocator gives back what is cached and asks again, and so the process
// never shows more than the card has. A card whose context is corrected by measured runs is left out.
// Source: c10/cuda/CUDACachingAllocator.cpp (malloc, release_cached_blocks), torch 2.9.
func (r *Player) fill(w *replay.Workspace, out *resolved.Replayed, requests int64) {
	w.ForgetTries()
	for i := range out.Cards {
		c := &out.Cards[i]
		room := c.Usable - out.Base.Context
		if c.Group != nil || room < out.Base.Limit || room >= out.Base.Reserved {
			continue
		}
		reserved, ok := w.Attempt(r.Allocator, room)
		out.Played += requests
		if ok {
			c.WhenFull = reserved + out.Base.Context
		}
	}
}

// least answers a run that need not be played, by what is alive at its peak, and says whether it did.
func (r *Player) least(out *resolved.Replayed) bool {
	if !r.in.LeastOnly && !r.in.LeastIfBeyond {
		return false
	}
	peak := out.Ledger.Peak.Bytes
	doubts := bounds.On(r.Job).Doubts(out)
	out.Base = memory.BaseOf(peak, peak, peak, bounds.On(r.Job).Outside(out.Recipe), doubt.Widest(doubts))
	out.Figures = bounds.On(r.Job).Bounded(out.Base, out.Group)
	if out.AtLeast = r.in.LeastOnly; !out.AtLeast {
		// Whether all layers would be played is not known before.
		sure := memory.BaseOf(
			peak,
			peak,
			peak,
			bounds.On(r.Job).Outside(out.Recipe),
			doubt.Widest(append(doubts, doubt.Continued)),
		)
		out.AtLeast = r.beyondHope(out, sure)
	}
	return out.AtLeast
}

// beyondHope says that a run fits on none of its cards by the least that it takes. What is not known of a card is no
// reason.
func (r *Player) beyondHope(out *resolved.Replayed, sure memory.Base) bool {
	least := bounds.On(r.Job).Bounded(sure, out.Group).Low
	if r.in.FitsOnly {
		least = out.Figures.High
	}
	for _, c := range out.Cards {
		if c.Usable <= 0 || least <= c.Usable {
			return false
		}
	}
	return len(out.Cards) > 0
}

// undecided says whether the verdict on a card of the run may depend on the smallest limit, which is somewhere between
// those of the two bases.
func (r *Player) undecided(out *resolved.Replayed, least, most memory.Base) bool {
	for _, c := range out.Cards {
		// The lower bound is concave in the limit: it is least at one of the ends.
		f, g := bounds.On(r.Job).Bounded(least, c.Group), bounds.On(r.Job).Bounded(most, c.Group)
		if min(f.Low, g.Low) <= c.Usable && c.Usable < f.Device {
			return true
		}
	}
	return false
}

// decided says whether the verdicts are the same whatever the smallest limit is from least to most; base is that of a
// limit.
func (r *Player) decided(out *resolved.Replayed, least, most int64, base func(limit int64) memory.Base) bool {
	for _, c := range out.Cards {
		high := bounds.On(r.Job).Bounded(base(most), c.Group)
		if c.Usable >= high.Device {
			continue
		}
		// The lower bound is concave in the limit: nowhere between two limits is it below both, and where it rises to
		// the second it is nowhere above.
		never := high.Low > c.Usable && bounds.On(r.Job).Bounded(base(least), c.Group).Low > c.Usable
		perhaps := high.Low <= c.Usable && high.Low >= bounds.On(r.Job).Bounded(base(most-1<<20), c.Group).Low
		if !never && !perhaps {
			return false
		}
	}
	return true
}
