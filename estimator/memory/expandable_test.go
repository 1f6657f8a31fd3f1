package memory

import "testing"

// TestExpandableOnAFullCard is a run of PyTorch 2.9.1 and 2.15.0 on a card of 200 MiB: what was reserved after each
// request, in MiB, 0 where it ran out of memory.
func TestExpandableOnAFullCard(t *testing.T) {
	a := NewAllocator(Settings{Expandable: true})
	a.Reset(Settings{Expandable: true}, 200<<20)
	handles := map[string]int32{}
	for _, c := range []struct {
		name          string
		kib, reserved int64
		free, fails   bool
	}{
		{name: "a", kib: 30 << 10, reserved: 40},
		{name: "b", kib: 5 << 10, reserved: 40},
		{name: "c", kib: 64 << 10, reserved: 100},
		{name: "d", kib: 512, reserved: 102},
		{name: "a", free: true, reserved: 102},
		{name: "c", free: true, reserved: 102},
		{name: "e", kib: 120 << 10, reserved: 162}, // in c's place and three more pages
		{name: "f", kib: 7 << 10, reserved: 162},   // in a's place
		{name: "g", kib: 8 << 10, reserved: 162},
		{name: "h", kib: 60 << 10, fails: true},
	} {
		if c.free {
			a.Free(handles[c.name])
			continue
		}
		handles[c.name] = a.Alloc(c.kib << 10)
		if a.Failed() != c.fails {
			t.Fatalf("%s: runs out of memory: %v", c.name, a.Failed())
		}
		if a.ForgetPeaks(); !c.fails && a.PeakReserved() != c.reserved<<20 {
			t.Errorf("%s: reserved %d MiB, PyTorch %d", c.name, a.PeakReserved()>>20, c.reserved)
		}
	}
}

// TestExpandableClosesHoles: a request that no free block has room for begins at the lowest place that has.
func TestExpandableClosesHoles(t *testing.T) {
	a := NewAllocator(Settings{Expandable: true})
	first, second := a.Alloc(30<<20), a.Alloc(5<<20)
	a.ReleaseCached()
	a.Free(first)
	a.ReleaseCached() // the first page of two
	if a.ForgetPeaks(); a.PeakReserved() != 20<<20 {
		t.Fatalf("reserved %d MiB, 20 and no more have to stay", a.PeakReserved()>>20)
	}
	if again := a.Alloc(29 << 20); a.Address(again) != 0 || a.PeakReserved() != 40<<20 {
		t.Errorf("at %d with %d MiB reserved: the page that went comes back", a.Address(again), a.PeakReserved()>>20)
	}
	a.Free(second)
}
