// Package memory turns the allocations of a training step into what a GPU has to
// hold: PyTorch's caching allocator, and what CUDA and the driver add.
package memory

// Sizes of PyTorch's caching allocator.
// Source: c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp, torch 2.9.
const (
	mib = 1 << 20

	minBlockBytes     = 512      // every request is rounded up to this
	smallRequestBytes = 1 * mib  // up to here requests share small segments
	smallSegmentBytes = 2 * mib  // what such a segment takes
	largeSegmentBytes = 20 * mib // what requests below minLargeRequest take
	minLargeRequest   = 10 * mib // from here a segment is made to measure,
	roundLargeBytes   = 2 * mib  // rounded up to this
)

// Allocator replays PyTorch's caching allocator on sizes alone, for one stream. It
// satisfies step.Heap.
//
// A request takes the smallest free block that is large enough (of equal ones the
// one with the lowest address), else a new segment; a block is split when enough is
// left over; freed neighbours merge; segments are given back only when a limit is hit.
type Allocator struct {
	blocks []block
	spare  []int32
	whole  []freeBlock // while cached segments are given back: these
	pools  [2]pool

	expandable bool
	limit      int64 // reserved bytes may not exceed it; 0 without
	counters
}

// counters is what an allocator counts from a reset on.
type counters struct {
	failed   bool
	nextAddr int64

	allocated, reserved         int64
	peakAllocated, peakReserved int64
}

type block struct {
	addr, size int64
	prev, next int32 // neighbours in the same segment, none at its ends
	pool       uint8
	free       bool
	unmapped   bool // the part of an expandable segment that has no memory yet
}

const none int32 = -1

const (
	smallPool = iota
	largePool
)

// NewAllocator makes an empty allocator; expandable is expandable_segments:True.
func NewAllocator(expandable bool) *Allocator {
	a := &Allocator{}
	a.Reset(expandable, 0)
	return a
}

// Reset empties a for another run, keeping its storage. A limit above 0 bounds the reserved bytes, as
// torch.cuda.set_per_process_memory_fraction does: cached segments are given back before a request fails.
func (a *Allocator) Reset(expandable bool, limit int64) {
	for p := range a.pools {
		a.pools[p].reset()
	}
	a.blocks, a.spare, a.expandable, a.limit = a.blocks[:0], a.spare[:0], expandable, limit
	a.counters = counters{}
	if expandable {
		const farApart = int64(1) << 50
		for p := range a.pools {
			i := a.newBlock()
			a.blocks[i] = block{addr: int64(p) * farApart, size: farApart / 2, prev: none, next: none, pool: uint8(p), unmapped: true}
			a.pools[p].tail = i
		}
	}
}

// PeakAllocated is torch.cuda.max_memory_allocated(), in bytes.
func (a *Allocator) PeakAllocated() int64 { return a.peakAllocated }

// PeakReserved is torch.cuda.max_memory_reserved(), in bytes.
func (a *Allocator) PeakReserved() int64 { return a.peakReserved }

// Failed says whether a request could not be met within the limit.
func (a *Allocator) Failed() bool { return a.failed }

// Alloc serves one request and returns a handle for Free.
func (a *Allocator) Alloc(bytes int64) int32 {
	if a.failed {
		return none
	}
	n := (max(bytes, 1) + minBlockBytes - 1) &^ (minBlockBytes - 1)
	p, pool := uint8(largePool), &a.pools[largePool]
	if n <= smallRequestBytes {
		p, pool = smallPool, &a.pools[smallPool]
	}
	var f freeBlock
	var ok bool
	if a.expandable {
		f, ok = a.leastGrowing(pool, n)
	} else {
		f, ok = pool.take(n)
	}
	i := f.index
	if !ok {
		if i = a.grow(p, n); i == none {
			return none
		}
	}
	b := &a.blocks[i]
	rest := b.size - n
	split := rest > smallRequestBytes
	if p == smallPool || a.expandable {
		split = rest >= minBlockBytes
	}
	if split {
		b = a.split(i, n)
	}
	b.free = false
	if a.allocated += b.size; a.allocated > a.peakAllocated {
		a.peakAllocated = a.allocated
	}
	return i
}

// split cuts block i to n bytes; what is left of it is free.
func (a *Allocator) split(i int32, n int64) *block {
	k := a.newBlock()
	b, rest := &a.blocks[i], &a.blocks[k]
	rest.addr, rest.size = b.addr+n, b.size-n
	rest.prev, rest.next = i, b.next
	rest.pool, rest.free, rest.unmapped = b.pool, true, false
	if b.next != none {
		a.blocks[b.next].prev = k
	}
	b.next, b.size = k, n
	a.pools[rest.pool].insert(freeBlock{rest.size, rest.addr, k})
	return b
}

// Free gives a block back; it merges with free neighbours.
func (a *Allocator) Free(handle int32) {
	if handle == none {
		return
	}
	b := &a.blocks[handle]
	pool := &a.pools[b.pool]
	a.allocated -= b.size
	b.free = true
	if p := b.prev; p != none && a.blocks[p].free {
		o := &a.blocks[p]
		pool.remove(freeBlock{o.size, o.addr, p})
		b.addr, b.prev = o.addr, o.prev
		b.size += o.size
		if b.prev != none {
			a.blocks[b.prev].next = handle
		}
		a.spare = append(a.spare, p)
	}
	if q := b.next; q != none && a.blocks[q].free {
		o := &a.blocks[q]
		pool.remove(freeBlock{o.size, o.addr, q})
		b.next = o.next
		b.size += o.size
		if b.next != none {
			a.blocks[b.next].prev = handle
		}
		a.spare = append(a.spare, q)
	}
	pool.insert(freeBlock{b.size, b.addr, handle})
}

// grow takes memory from the driver for n bytes in pool p.
func (a *Allocator) grow(p uint8, n int64) int32 {
	if a.expandable {
		return a.expand(p, n)
	}
	return a.segment(p, n)
}

// leastGrowing takes out the free block that serves a request for n bytes where segments grow.
func (a *Allocator) leastGrowing(pool *pool, n int64) (freeBlock, bool) {
	f, ok := pool.fit(n)
	if !ok {
		return f, false
	}
	for { // of the candidates in order, up to the first whose segment could not grow less
		next, ok := pool.after(f)
		if !ok || a.growable(next.index) >= a.growable(f.index) {
			break
		}
		f = next
	}
	pool.remove(f)
	return f, true
}

func (a *Allocator) growable(i int32) int64 {
	b := &a.blocks[i]
	if b.next != none && a.blocks[b.next].unmapped {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

// segment asks the driver for a new segment for n bytes.
func (a *Allocator) segment(p uint8, n int64) int32 {
	size := int64(smallSegmentBytes)
	switch {
	case n >= minLargeRequest:
		size = (n + roundLargeBytes - 1) / roundLargeBytes * roundLargeBytes
	case n > smallRequestBytes:
		size = largeSegmentBytes
	}
	if !a.reserve(size) {
		return none
	}
	i := a.newBlock()
	a.blocks[i] = block{addr: a.nextAddr, size: size, prev: none, next: none, pool: p}
	a.nextAddr += size + roundLargeBytes
	return i
}

// expand maps more of pool p's one expandable segment, so that its end holds n free bytes.
func (a *Allocator) expand(p uint8, n int64) int32 {
	page := int64(smallSegmentBytes)
	if p == largePool {
		page = largeSegmentBytes
	}
	tail := a.pools[p].tail
	last := a.blocks[tail].prev
	have := int64(0)
	if last != none && a.blocks[last].free {
		have = a.blocks[last].size
	} else {
		last = none
	}
	need := (n - have + page - 1) / page * page
	if !a.reserve(need) {
		return none
	}
	if last != none {
		a.remove(last)
		a.blocks[last].size += need
	} else {
		t := a.blocks[tail]
		last = a.newBlock()
		a.blocks[last] = block{addr: t.addr, size: need, prev: t.prev, next: tail, pool: p}
		if t.prev != none {
			a.blocks[t.prev].next = last
		}
		a.blocks[tail].prev = last
	}
	a.blocks[tail].addr += need
	a.blocks[tail].size -= need
	return last
}

// reserve takes size bytes from the driver, giving cached segments back first where the limit asks for it.
func (a *Allocator) reserve(size int64) bool {
	if a.limit > 0 && a.reserved+size > a.limit {
		a.releaseCached()
		if a.reserved+size > a.limit {
			a.failed = true
			return false
		}
	}
	a.reserved += size
	a.peakReserved = max(a.peakReserved, a.reserved)
	return true
}

// ReleaseCached is torch.cuda.empty_cache().
func (a *Allocator) ReleaseCached() { a.releaseCached() }

// releaseCached gives back every segment in which nothing is allocated.
// Source: CUDACachingAllocator.cpp (release_cached_blocks), torch 2.9.
func (a *Allocator) releaseCached() {
	for p := range a.pools {
		a.whole = a.whole[:0]
		a.pools[p].each(func(f freeBlock) {
			if b := &a.blocks[f.index]; b.prev == none && b.next == none {
				a.whole = append(a.whole, f)
			}
		})
		for _, f := range a.whole {
			a.pools[p].remove(f)
			a.reserved -= f.size
			a.spare = append(a.spare, f.index)
		}
	}
}

// newBlock is a block whose fields hold anything. They are set one by one where the block stays: a struct of this many is
// copied through memory otherwise.
func (a *Allocator) newBlock() int32 {
	if n := len(a.spare); n > 0 {
		i := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return i
	}
	a.blocks = append(a.blocks, block{})
	return int32(len(a.blocks) - 1)
}

func (a *Allocator) insert(i int32) {
	b := &a.blocks[i]
	a.pools[b.pool].insert(freeBlock{b.size, b.addr, i})
}

func (a *Allocator) remove(i int32) {
	b := &a.blocks[i]
	a.pools[b.pool].remove(freeBlock{b.size, b.addr, i})
}

// Address is where the block of a handle lies.
func (a *Allocator) Address(handle int32) int64 { return a.blocks[handle].addr }

// State is a hash of the free blocks and the reserved bytes. Two moments of equal state at which the same
// handles lie at the same addresses go on alike.
func (a *Allocator) State() uint64 {
	h := mix(uint64(a.reserved), uint64(a.allocated))
	for p := range a.pools {
		h = a.pools[p].hash(h)
	}
	return h
}
