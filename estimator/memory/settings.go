package memory

import "math/bits"

// Settings are those of PYTORCH_ALLOC_CONF that change what is reserved. garbage_collection_threshold is none of them:
// it does something only in a process whose share of the card was limited (set_per_process_memory_fraction).
// Source: c10/core/AllocatorConfig.cpp, c10/cuda/CUDACachingAllocator.cpp (malloc, round_size, should_split,
// get_free_block, release_available_cached_blocks), torch 2.9 and 2.15.
type Settings struct {
	// Expandable is expandable_segments:True.
	Expandable bool
	// MaxSplit is max_split_size_mb in bytes: blocks of as many are not divided. 0 divides all.
	MaxSplit int64
	// Divisions is roundup_power2_divisions: into how many sizes a power of two and the next are divided, to the next
	// of which requests are rounded up. 0 and 1 round to whole blocks alone.
	Divisions int64
}

// rounded is what a request takes.
func (s *Settings) rounded(bytes int64) int64 {
	if s.Divisions > 1 && bytes > minBlockBytes*s.Divisions {
		division := int64(1) << (bits.Len64(uint64(bytes)) - 1) / s.Divisions
		return (bytes + division - 1) / division * division
	}
	return rounded(bytes)
}

// oversize is by how much a block that is not divided may be larger than a request: max_non_split_rounding_mb's
// default.
const oversize = 20 * mib

// undivided is block i, the smallest that is free and large enough for n bytes, where it may serve them.
func (a *Allocator) undivided(i int32, p *pool, n int64) int32 {
	if i == noBlock {
		return i
	}
	size := p.blocks[i].size
	if n < a.MaxSplit && size >= a.MaxSplit || n >= a.MaxSplit && size >= n+oversize {
		return noBlock
	}
	return i
}

// releaseUndivided gives back cached blocks that are not divided: the smallest that has n bytes, or else the largest
// ones until they have, and says whether they had. What was given back stays so.
func (a *Allocator) releaseUndivided(p *pool, n int64) bool {
	if a.MaxSplit == 0 || a.Expandable {
		return false
	}
	n = max(n, a.MaxSplit)
	given := int64(0)
	for given < n {
		i := p.fit(n, class(n))
		if i == noBlock {
			i = p.largest()
		}
		if i == noBlock || p.blocks[i].size < a.MaxSplit {
			break
		}
		given += p.blocks[i].size
		p.giveBack(i)
	}
	a.reserved -= given
	return given >= n
}

// largest is the largest free block, of equal ones that with the highest address.
func (p *pool) largest() int32 {
	last := noBlock
	for c := p.next(0); c < classes; c = p.next(c + 1) {
		last = p.buckets[c].run(0)[0]
	}
	return last
}
