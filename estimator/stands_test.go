package estimator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/memory"
)

// TestStandsEqualPlaying compares a run under a limit that goes on from where the run without one stood with a run from the
// beginning.
func TestStandsEqualPlaying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: randomJob(t)}
		r, err := resolve(&in)
		if err != nil {
			t.Fatal(err)
		}
		w := &workspace{allocator: memory.NewAllocator(false)}
		requested := r.session(w, hardware(r.recipe, nil), false).Account(false, false).Peak.Bytes
		reserved, _ := w.play(steps(&w.session), false, true)
		stands := w.stands
		if len(stands) == 0 {
			t.Fatal("no stand was kept")
		}
		for range 3 {
			limit := rapid.Int64Range(min(requested*9/10, reserved), reserved).Draw(t, "limit")
			w.stands = stands
			short, fits := w.playLimited(limit)
			allocated := w.allocator.PeakAllocated()
			w.stands = nil
			long, does := w.playLimited(limit)
			if fits != does {
				t.Fatalf("under %d of %d bytes the run that goes on fits: %v; the whole one: %v", limit, reserved, fits, does)
			}
			if fits && (short != long || allocated != w.allocator.PeakAllocated()) {
				t.Fatalf("under %d bytes %d and %d are reserved and allocated, in the whole run %d and %d", limit, short, allocated, long, w.allocator.PeakAllocated())
			}
		}
	})
}
