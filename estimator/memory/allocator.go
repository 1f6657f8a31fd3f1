// Package memory turns the allocations of a training step into what a GPU has to
// hold: PyTorch's caching allocator, and what CUDA and the driver add.
package memory

// Sizes of PyTorch's caching allocator.
// Source: c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp, torch 2.9.
const (
	mib = 1 << 20

	blockBits         = 9
	minBlockBytes     = 1 << blockBits // every request is rounded up to this
	smallRequestBytes = 1 * mib        // up to here requests share small segments
	smallSegmentBytes = 2 * mib        // what such a segment takes
	largeSegmentBytes = 20 * mib       // what requests below minLargeRequest take
	minLargeRequest   = 10 * mib       // from here a segment is made to measure,
	roundLargeBytes   = 2 * mib        // rounded up to this
)

// Allocator replays PyTorch's caching allocator on sizes alone. It satisfies alloc.Settling
// and, for what is allocated on other streams than the one that computes, alloc.Streaming.
//
// A request takes the smallest free block that is large enough (of equal ones the
// one with the lowest address), else a new segment; a block is split when enough is
// left over; freed neighbours merge; segments are given back only when a limit is hit.
//
// Small and large requests have segments of their own, on each stream, and so the pools
// have nothing to do with each other until a limit is hit.
type Allocator struct {
	pools [poolCount]*pool // the small and the large one of each stream that was allocated on
	count int32            // one more than the highest pool that exists
	whole []int32          // while cached segments are given back: these

	Settings
	limit  int64 // reserved bytes may not exceed it; 0 without
	pauses pauses
	counters
}

// counters is what an allocator counts from a reset on.
type counters struct {
	failed  bool
	refused int64 // bytes that the request asked for which failed

	allocated, reserved         int64
	peakAllocated, peakReserved int64

	held     bool // peakAllocated is to be heldPeak again
	heldPeak int64

	alike alike
}

const (
	smallPool = iota
	largePool
	streamPools // each stream has so many

	poolBits  = 6 // the lowest of a handle: which pool its block is in
	poolCount = 1 << poolBits
)

// Streams is how many streams an allocator tells apart, that which computes among them: as many as CUDA's pool for one
// priority hands out before it begins anew. Source: c10/cuda/CUDAStream.cpp (kStreamsPerPool), torch 2.9.
const Streams = poolCount / streamPools

// NewAllocator makes an empty allocator.
func NewAllocator(settings Settings) *Allocator {
	a := &Allocator{}
	a.Reset(settings, 0)
	return a
}

// Reset empties a for another run, keeping its storage. A limit above 0 bounds the reserved bytes, as
// torch.cuda.set_per_process_memory_fraction does: cached segments are given back before a request fails.
func (a *Allocator) Reset(settings Settings, limit int64) {
	a.Settings, a.limit = settings, limit
	a.pauses = pauses{}
	a.counters = counters{alike: anyLimit}
	if a.Expandable {
		a.alike = alike{limit, limit + 1} // which block is taken depends on the address space, and this on the limit
	}
	a.count = max(a.count, streamPools)
	for n, p := range a.pools[:a.count] {
		if p == nil && n < streamPools {
			p = &pool{}
			a.pools[n] = p
		}
		if p != nil {
			a.empty(p, int32(n))
		}
	}
}

// empty is a pool from which nothing was allocated.
func (a *Allocator) empty(p *pool, number int32) {
	p.reset()
	if a.Expandable {
		p.unmapped(a.space(number))
	}
}

// pool is that of the given number. A stream beyond Streams has none: there the index is out of range.
func (a *Allocator) pool(number int32) *pool {
	p := a.pools[number]
	if p == nil {
		p = &pool{}
		a.pools[number] = p
		a.count = max(a.count, number+1)
		a.empty(p, number)
	}
	return p
}

// ForgetPeaks lets PeakAllocated and PeakReserved begin again from what there is now, as
// torch.cuda.reset_peak_memory_stats does.
func (a *Allocator) ForgetPeaks() { a.peakAllocated, a.peakReserved = a.allocated, a.reserved }

// Room says whether so many bytes could be reserved beside what is.
func (a *Allocator) Room(bytes int64) bool {
	room := a.limit == 0 || a.reserved+bytes <= a.limit
	a.alike.asked(a.reserved+bytes, room)
	return room
}

// PeakAllocated is torch.cuda.max_memory_allocated(), in bytes.
func (a *Allocator) PeakAllocated() int64 { return a.peakAllocated }

// Reserved is torch.cuda.memory_reserved(), in bytes.
func (a *Allocator) Reserved() int64 { return a.reserved }

// PeakReserved is torch.cuda.max_memory_reserved(), in bytes.
func (a *Allocator) PeakReserved() int64 { return a.peakReserved }

// Failed says whether a request could not be met within the limit.
func (a *Allocator) Failed() bool { return a.failed }

// Refused is how many bytes the request asked for that could not be met within the limit; 0 where there was none.
func (a *Allocator) Refused() int64 { return a.refused }

// none is the handle of nothing.
const none int32 = -1

// Alloc serves one request and returns a handle for Free.
func (a *Allocator) Alloc(bytes int64) int32 { return a.AllocOn(0, bytes) }

// AllocOn is Alloc on another stream, below Streams: a free block goes only to requests of the stream that its segment
// was made for. Source: c10/cuda/CUDACachingAllocator.cpp (BlockComparatorSize, get_free_block), torch 2.9.
func (a *Allocator) AllocOn(stream uint8, bytes int64) int32 {
	n := a.rounded(bytes)
	which := streamPools*int32(stream) + largePool
	if n <= smallRequestBytes {
		which += smallPool - largePool
	}
	return a.serve(which, bytes, n, class(n))
}

// serve finds n bytes, which are of class c, in one of the pools, for a request of so many bytes.
func (a *Allocator) serve(which int32, bytes, n int64, c uint16) int32 {
	if a.failed {
		return none
	}
	least := int64(smallRequestBytes + minBlockBytes) // what has to be left over of a block that is split
	if n <= smallRequestBytes || a.Expandable {
		least = minBlockBytes
	}
	p := a.pool(which)
	i := noBlock
	switch {
	case a.Expandable:
		i = p.leastGrowing(p.fit(n, c))
	case a.MaxSplit > 0:
		if n >= a.MaxSplit {
			least = endless
		}
		i = a.undivided(p.fit(n, c), p, n)
	default:
		i = p.take(n, c, least)
	}
	if i == noBlock || a.Expandable || a.MaxSplit > 0 {
		if i == noBlock {
			if i = a.grow(which, n); i == noBlock {
				if a.failed {
					a.refused = bytes
				}
				return none
			}
		}
		i = p.cut(i, n, c, least)
	}
	if a.allocated += p.blocks[i].size; a.allocated > a.peakAllocated {
		a.peakAllocated = a.allocated
	}
	return i<<poolBits | which
}

// Free gives a block back; it merges with free neighbours.
func (a *Allocator) Free(handle int32) {
	if handle == none {
		return
	}
	p, i := a.pools[handle&(poolCount-1)], handle>>poolBits
	a.allocated -= p.blocks[i].size
	p.free(i)
}

// Parts is how many parts there are: the two pools, as long as there is no other stream.
func (a *Allocator) Parts() int {
	for _, p := range a.pools[streamPools:a.count] {
		if p != nil && p.used() {
			return 1
		}
	}
	return streamPools
}

// Apart says that the parts have nothing to do with each other: a limit binds them together.
func (a *Allocator) Apart() bool { return a.limit == 0 && a.Parts() > 1 }

// Part is that of the parts in which the block of a handle lies.
func (a *Allocator) Part(handle int32) int { return int(handle & (poolCount - 1)) }

// Address is where the block of a handle lies among those of its pool.
func (a *Allocator) Address(handle int32) int64 {
	return a.pools[handle&(poolCount-1)].blocks[handle>>poolBits].addr
}

// State is a hash of what is free in a part. Two moments of equal state at which the same handles lie at the same
// addresses go on alike.
func (a *Allocator) State(part int) uint64 {
	if a.Parts() > 1 {
		return a.pools[part].hash(0)
	}
	h := mix(uint64(a.reserved), uint64(a.allocated))
	for _, p := range a.pools[:a.count] {
		if p != nil {
			h = p.hash(h)
		}
	}
	return h
}

// Hold keeps PeakAllocated as it is until Hold is called again.
func (a *Allocator) Hold() {
	if a.held {
		a.peakAllocated = a.heldPeak
	}
	a.held, a.heldPeak = !a.held, a.peakAllocated
}
