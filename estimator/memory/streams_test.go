package memory

import "testing"

// TestStreamsShareNothing: what is free on one stream serves no other, however many there are.
func TestStreamsShareNothing(t *testing.T) {
	const bytes = 30 << 20
	for _, expandable := range []bool{false, true} {
		for first := range uint8(Streams) {
			for second := range uint8(Streams) {
				a := NewAllocator(Settings{Expandable: expandable})
				a.Free(a.AllocOn(first, bytes))
				h := a.AllocOn(second, bytes)
				page := int64(bytes)
				if expandable {
					page = 40 << 20 // pages of 20 MiB
				}
				want := 2 * page
				if first == second {
					want = page
				}
				if a.PeakReserved() != want {
					t.Fatalf("streams %d and %d: reserved %d MiB, want %d", first, second, a.PeakReserved()>>20,
						want>>20)
				}
				if a.Free(h); a.allocated != 0 {
					t.Fatalf("streams %d and %d: %d bytes are left", first, second, a.allocated)
				}
			}
		}
	}
}

// TestRequestKeepsItsStream for a script, which puts the stream into a few bits.
func TestRequestKeepsItsStream(t *testing.T) {
	for stream := range uint8(Streams) {
		for _, bytes := range []int64{1, 512, 1 << 20, 30 << 20} {
			if r := NewRequest(Other, stream, bytes, 0); r.Stream() != stream {
				t.Errorf("%d bytes on stream %d are asked for on %d", bytes, stream, r.Stream())
			}
		}
	}
}

// TestSavedStreams comes back to where an allocator stood with several streams.
func TestSavedStreams(t *testing.T) {
	a, b := NewAllocator(Settings{}), NewAllocator(Settings{})
	a.Free(a.AllocOn(Streams-1, 30<<20))
	a.AllocOn(5, 30<<20)
	var saved Saved
	a.Save(&saved)
	b.Restore(&saved, 0)
	if b.AllocOn(Streams-1, 30<<20); b.PeakReserved() != 60<<20 {
		t.Errorf("reserved %d MiB, want the 60 of before", b.PeakReserved()>>20)
	}
}
