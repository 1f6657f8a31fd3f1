package estimator

import "github.com/vramplan/vramplan/estimator/replay"

// fill plays a run on each of its cards that has less than is reserved without a limit, but not less than the smallest
// limit: there the driver refuses a segment, the allocator gives back what is cached and asks again, and so the process
// never shows more than the card has. A card whose context is corrected by measured runs is left out.
// Source: c10/cuda/CUDACachingAllocator.cpp (malloc, release_cached_blocks), torch 2.9.
func (r *player) fill(w *replay.Workspace, out *run, requests int64) {
	w.ForgetTries()
	for i := range out.cards {
		c := &out.cards[i]
		room := c.usable - out.base.Context
		if c.group != nil || room < out.base.Limit || room >= out.base.Reserved {
			continue
		}
		reserved, ok := w.Attempt(r.expand, room)
		out.played += requests
		if ok {
			c.whenFull = reserved + out.base.Context
		}
	}
}

// fillIn writes the figures of full cards into an answer.
func (r *run) fillIn(list []GPUFit) {
	for _, c := range r.cards {
		list[c.index].DeviceBytes = c.whenFull
	}
}
