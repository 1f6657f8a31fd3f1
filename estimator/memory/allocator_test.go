package memory

import (
	"testing"

	"pgregory.net/rapid"
)

// naive is the allocator's rules in the plainest way: one list of blocks a segment, searched from end to end.
type naive struct {
	divisions, maxSplit int64
	segments            []*[]naiveBlock
	reserved, allocated int64
	peakReserved        int64
	live                map[int32][2]int64 // handle → segment, address
	next                int32
}

type naiveBlock struct {
	addr, size int64
	free       bool
}

func (n *naive) Alloc(bytes int64) int32 {
	size := (max(bytes, 1) + 511) / 512 * 512
	if n.divisions > 1 && bytes > 512*n.divisions { // the first of the sizes between two powers of two that has room
		power := int64(512)
		for 2*power <= bytes {
			power *= 2
		}
		for size = power; size < bytes; size += power / n.divisions {
		}
	}
	small := size <= 1<<20
	bestSegment, bestBlock, bestSize := -1, -1, int64(0)
	for s, blocks := range n.segments {
		if n.small(s) != small {
			continue
		}
		for i, b := range *blocks {
			if b.free && b.size >= size && (bestSegment < 0 || b.size < bestSize) {
				bestSegment, bestBlock, bestSize = s, i, b.size
			}
		}
	}
	large := n.maxSplit
	if large > 0 && (size < large && bestSize >= large || size >= large && bestSize >= size+20<<20) {
		bestSegment = -1
	}
	if bestSegment < 0 {
		segment := int64(2 << 20)
		switch {
		case size >= 10<<20:
			segment = (size + 2<<20 - 1) / (2 << 20) * (2 << 20)
		case !small:
			segment = 20 << 20
		}
		kind := int64(0) // the first block's address tells the kind: even for small segments
		if !small {
			kind = 1
		}
		n.segments = append(n.segments, &[]naiveBlock{{addr: kind, size: segment, free: true}})
		n.reserved += segment
		n.peakReserved = max(n.peakReserved, n.reserved)
		bestSegment, bestBlock = len(n.segments)-1, 0
	}
	blocks := n.segments[bestSegment]
	b := &(*blocks)[bestBlock]
	rest := b.size - size
	b.free = false
	addr := b.addr
	if small && rest >= 512 || !small && rest > 1<<20 && (n.maxSplit == 0 || size < n.maxSplit) {
		b.size = size
		tail := append([]naiveBlock{{addr: addr + size, size: rest, free: true}}, (*blocks)[bestBlock+1:]...)
		*blocks = append((*blocks)[:bestBlock+1], tail...)
	}
	n.allocated += (*blocks)[bestBlock].size
	n.next++
	n.live[n.next] = [2]int64{int64(bestSegment), addr}
	return n.next
}

func (n *naive) small(s int) bool { return (*n.segments[s])[0].addr == 0 }

func (n *naive) Free(handle int32) {
	where := n.live[handle]
	delete(n.live, handle)
	blocks := n.segments[where[0]]
	var merged []naiveBlock
	for _, b := range *blocks {
		if b.addr == where[1] && !b.free {
			b.free = true
			n.allocated -= b.size
		}
		if k := len(merged) - 1; k >= 0 && merged[k].free && b.free {
			merged[k].size += b.size
			continue
		}
		merged = append(merged, b)
	}
	*blocks = merged
}

// TestAllocatorEqualsNaive gives both the same random requests.
func TestAllocatorEqualsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]Settings{{}, {}, {MaxSplit: 21 << 20}, {MaxSplit: 64 << 20}, {Divisions: 4},
			{MaxSplit: 32 << 20, Divisions: 8}}).Draw(t, "settings")
		fast := NewAllocator(s)
		slow := &naive{divisions: s.Divisions, maxSplit: s.MaxSplit, live: map[int32][2]int64{}}
		sizes := rapid.SampledFrom([]int64{1, 512, 700, 4096, 300_000, 1 << 20, 1<<20 + 1, 3 << 20, 9 << 20, 10 << 20,
			11<<20 + 5, 41<<20 + 600, 63<<20 + 1, 64 << 20, 70 << 20, 90 << 20})
		type pair struct{ fast, slow int32 }
		var live []pair
		for range rapid.IntRange(1, 150).Draw(t, "requests") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				fast.Free(live[i].fast)
				slow.Free(live[i].slow)
				live = append(live[:i], live[i+1:]...)
			} else {
				n := sizes.Draw(t, "bytes")
				live = append(live, pair{fast.Alloc(n), slow.Alloc(n)})
			}
			if fast.allocated != slow.allocated || fast.PeakReserved() != slow.peakReserved {
				t.Fatalf("allocated %d and %d, reserved %d and %d", fast.allocated, slow.allocated, fast.PeakReserved(),
					slow.peakReserved)
			}
		}
	})
}

// TestAllocatorRules shows the rules one by one.
func TestAllocatorRules(t *testing.T) {
	for _, c := range []struct {
		name                string
		requests            []int64
		allocated, reserved int64
	}{
		{"every request is rounded to 512", []int64{1}, 512, 2 << 20},
		{"small requests share a segment of 2 MiB", []int64{1 << 20, 1 << 20}, 2 << 20, 2 << 20},
		{"a third one takes another", []int64{1 << 20, 1 << 20, 512}, 2<<20 + 512, 4 << 20},
		{"middle requests come from 20 MiB", []int64{3 << 20, 9 << 20}, 12 << 20, 20 << 20},
		{"large ones are made to measure in steps of 2 MiB", []int64{11 << 20}, 12 << 20, 12 << 20},
		{"a large block is not split for 1 MiB or less", []int64{11<<20 + 1}, 12 << 20, 12 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewAllocator(Settings{})
			for _, n := range c.requests {
				a.Alloc(n)
			}
			if a.PeakAllocated() != c.allocated || a.PeakReserved() != c.reserved {
				t.Errorf("allocated %d, reserved %d; want %d, %d", a.PeakAllocated(), a.PeakReserved(), c.allocated,
					c.reserved)
			}
		})
	}
}

// TestUndividedGoFirst: where a limit is hit, blocks that are not divided are given back first, no more of them than it
// takes.
func TestUndividedGoFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		cached   []int64 // in MiB, beside a divided segment of 20 MiB
		request  int64
		reserved int64
	}{
		{"the smallest that is large enough", []int64{40, 80, 100}, 50, 240 - 80 + 50},
		{"the largest ones where none is", []int64{40, 60, 70}, 120, 190 - 70 - 60 + 120},
		{"all where those are not enough", []int64{40}, 210, 20 + 210},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewAllocator(Settings{})
			a.Reset(Settings{MaxSplit: 32 << 20}, 250<<20)
			a.Alloc(3 << 20)
			var cached []int32
			for _, n := range c.cached {
				cached = append(cached, a.Alloc(n<<20))
			}
			for _, h := range cached {
				a.Free(h)
			}
			a.limit = a.reserved + c.request<<20 - 1
			if len(c.cached) == 1 {
				a.limit = c.reserved << 20
			}
			a.Alloc(c.request << 20)
			if a.Failed() || a.reserved != c.reserved<<20 {
				t.Errorf("reserved %d MiB, failed %v; want %d", a.reserved>>20, a.Failed(), c.reserved)
			}
		})
	}
}

// TestLimit gives cached segments back before it fails.
func TestLimit(t *testing.T) {
	a := NewAllocator(Settings{})
	a.Reset(Settings{}, 100<<20)
	a.Free(a.Alloc(60 << 20))
	if h := a.Alloc(90 << 20); h == none || a.Failed() {
		t.Fatal("60 MiB are cached and 90 MiB asked for: the cached segment has to go")
	}
	if a.PeakReserved() != 90<<20 {
		t.Errorf("reserved %d", a.PeakReserved())
	}
	if a.Alloc(20 << 20); !a.Failed() {
		t.Error("110 MiB do not fit into 100")
	}
}

// TestReleasePart gives back the cached segments of one part, and none in which something is allocated.
func TestReleasePart(t *testing.T) {
	a := NewAllocator(Settings{})
	small, large := NewRequest(Take, 0, 512, 0), NewRequest(Take, 0, 60<<20, 0)
	a.Free(a.Alloc(512))
	a.Free(a.Alloc(60 << 20))
	a.Alloc(30 << 20)
	a.Alloc(40 << 20)
	a.ReleasePart(large.Part())
	if a.ForgetPeaks(); a.PeakReserved() != 102<<20 {
		t.Errorf("reserved %d MiB; 60, 40 and 2 are in use or in the other part", a.PeakReserved()>>20)
	}
	a.ReleasePart(small.Part())
	if a.ForgetPeaks(); a.PeakReserved() != 100<<20 {
		t.Errorf("reserved %d MiB; 60 and 40 are in use", a.PeakReserved()>>20)
	}
}

// TestExpandable keeps one segment a pool, which grows in pages.
func TestExpandable(t *testing.T) {
	a := NewAllocator(Settings{Expandable: true})
	first := a.Alloc(30 << 20)
	a.Free(first)
	a.Alloc(50 << 20) // the free 40 MiB at the end grow by one page of 20
	if a.PeakReserved() != 60<<20 {
		t.Errorf("reserved %d MiB, want 60", a.PeakReserved()>>20)
	}
}

// TestFigures holds the bounds to what they promise of each other.
func TestFigures(t *testing.T) {
	f := BaseOf(9<<30, 10<<30, 9<<30+1<<29, ContextLazy, Doubt{0.015, 0.015}).Bounded(Correction{}, 0.95)
	if !(f.Low < f.Device && f.Device < f.High && f.Device == 10<<30+ContextLazy.Bytes) {
		t.Errorf("%+v", f)
	}
	if p := f.Probability(f.Device); p < 0.49 || p > 0.51 {
		t.Errorf("half of all runs need no more than the device figure, not %g", p)
	}
	if f.Probability(f.Low) > 0.05 || f.Probability(f.High) < 0.95 {
		t.Errorf("at low %g, at high %g", f.Probability(f.Low), f.Probability(f.High))
	}
	wide := BaseOf(9<<30, 10<<30, 9<<30+1<<29, ContextLazy, Doubt{0.015, 0.015}).Bounded(Correction{}, 0.99)
	if wide.Low >= f.Low || wide.High <= f.High {
		t.Error("more confidence has to mean wider bounds")
	}
	generic := BaseOf(9<<30, 10<<30, 9<<30+1<<29, ContextLazy, Doubt{0.10, 0.10}).Bounded(Correction{}, 0.95)
	if generic.High <= f.High {
		t.Error("a generic family has to have wider bounds")
	}
}
