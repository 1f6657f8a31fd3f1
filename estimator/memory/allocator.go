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

// Allocator replays PyTorch's caching allocator on sizes alone. It satisfies step.Heap
// and, for what is allocated on other streams than the one that computes, step.Streaming.
//
// A request takes the smallest free block that is large enough (of equal ones the
// one with the lowest address), else a new segment; a block is split when enough is
// left over; freed neighbours merge; segments are given back only when a limit is hit.
type Allocator struct {
	blocks []block
	spare  []int32
	whole  []freeBlock // while cached segments are given back: these
	pools  [2]pool
	aside  []pool // of the other streams, two for each that was allocated on

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
	for p := range a.aside {
		a.aside[p].reset()
	}
	a.blocks, a.spare, a.expandable, a.limit = a.blocks[:0], a.spare[:0], expandable, limit
	a.counters = counters{}
	if expandable {
		for p := range a.pools {
			a.newTail(uint8(p))
		}
		for p := range a.aside {
			a.newTail(uint8(len(a.pools) + p))
		}
	}
}

// newTail gives pool p its one expandable segment, nothing of which has memory yet.
func (a *Allocator) newTail(p uint8) {
	const farApart = int64(1) << 50
	i := a.newBlock()
	a.blocks[i] = block{addr: int64(p) * farApart, size: farApart / 2, prev: none, next: none, pool: p, unmapped: true}
	a.pool(p).tail = i
}

// pool is that of the given number: the small and the large one of each stream, in order.
func (a *Allocator) pool(p uint8) *pool {
	if int(p) < len(a.pools) {
		return &a.pools[p]
	}
	return &a.aside[int(p)-len(a.pools)]
}

// numbers are how many pools there are.
func (a *Allocator) numbers() uint8 { return uint8(len(a.pools) + len(a.aside)) }

// AllocOn is Alloc on another stream: a free block goes only to requests of the stream that its segment was made for.
// Source: c10/cuda/CUDACachingAllocator.cpp (BlockComparatorSize, get_free_block), torch 2.9.
func (a *Allocator) AllocOn(stream uint8, bytes int64) int32 {
	for int(a.numbers()) < 2*int(stream)+2 {
		a.aside = append(a.aside, pool{})
		p := a.numbers() - 1
		a.pool(p).reset()
		if a.expandable {
			a.newTail(p)
		}
	}
	return a.alloc(2*stream, bytes)
}

// PeakAllocated is torch.cuda.max_memory_allocated(), in bytes.
func (a *Allocator) PeakAllocated() int64 { return a.peakAllocated }

// PeakReserved is torch.cuda.max_memory_reserved(), in bytes.
func (a *Allocator) PeakReserved() int64 { return a.peakReserved }

// Failed says whether a request could not be met within the limit.
func (a *Allocator) Failed() bool { return a.failed }

// Alloc serves one request and returns a handle for Free.
func (a *Allocator) Alloc(bytes int64) int32 { return a.alloc(0, bytes) }

// alloc serves a request from the two pools from first on.
func (a *Allocator) alloc(first uint8, bytes int64) int32 {
	if a.failed {
		return none
	}
	n := (max(bytes, 1) + minBlockBytes - 1) &^ (minBlockBytes - 1)
	p := first + largePool
	if n <= smallRequestBytes {
		p = first + smallPool
	}
	pool := a.pool(p)
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
	if n <= smallRequestBytes || a.expandable {
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
	a.pool(rest.pool).insert(freeBlock{rest.size, rest.addr, k})
	return b
}

// Free gives a block back; it merges with free neighbours.
func (a *Allocator) Free(handle int32) {
	if handle == none {
		return
	}
	b := &a.blocks[handle]
	pool := a.pool(b.pool)
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
	if p%2 == largePool {
		page = largeSegmentBytes
	}
	tail := a.pool(p).tail
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
	for p := range a.numbers() {
		pool := a.pool(p)
		a.whole = a.whole[:0]
		pool.each(func(f freeBlock) {
			if b := &a.blocks[f.index]; b.prev == none && b.next == none {
				a.whole = append(a.whole, f)
			}
		})
		for _, f := range a.whole {
			pool.remove(f)
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
	a.pool(b.pool).insert(freeBlock{b.size, b.addr, i})
}

func (a *Allocator) remove(i int32) {
	b := &a.blocks[i]
	a.pool(b.pool).remove(freeBlock{b.size, b.addr, i})
}

// Address is where the block of a handle lies.
func (a *Allocator) Address(handle int32) int64 { return a.blocks[handle].addr }

// State is a hash of the free blocks and the reserved bytes. Two moments of equal state at which the same
// handles lie at the same addresses go on alike.
func (a *Allocator) State() uint64 {
	h := mix(uint64(a.reserved), uint64(a.allocated))
	for p := range a.numbers() {
		h = a.pool(p).hash(h)
	}
	return h
}
