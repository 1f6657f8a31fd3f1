package memory

// grow takes memory from the driver for n bytes in a pool, and returns a free block that has room for them.
func (a *Allocator) grow(which int32, n int64) int32 {
	if a.Expandable {
		return a.expand(which, n)
	}
	return a.segment(which, n)
}

// segment asks the driver for a new segment for n bytes.
func (a *Allocator) segment(which int32, n int64) int32 {
	size := int64(smallSegmentBytes)
	switch {
	case n >= minLargeRequest:
		size = (n + roundLargeBytes - 1) / roundLargeBytes * roundLargeBytes
	case n > smallRequestBytes:
		size = largeSegmentBytes
	}
	if !a.reserve(which, n, size) {
		return noBlock
	}
	p := a.pool(which)
	i := p.newBlock()
	p.blocks[i] = block{addr: p.end, size: size, class: class(size)}
	p.end += size
	p.reserved += size
	p.insert(i)
	return i
}

// leastGrowing is the free block that serves a request where segments grow; i is the smallest that is large enough.
func (p *pool) leastGrowing(i int32) int32 {
	for i != noBlock { // of the candidates in order, up to the first whose segment could not grow less
		could := p.growable(i)
		if could == p.blocks[i].size { // those behind it are no smaller
			break
		}
		next := p.after(i)
		if next == noBlock || p.growable(next) >= could {
			break
		}
		i = next
	}
	return i
}

func (p *pool) growable(i int32) int64 {
	b := &p.blocks[i]
	if next := &p.blocks[b.next]; next.unmapped {
		return b.size + next.size
	}
	return b.size
}

// reserve takes size bytes from the driver for a request of n in a pool, giving cached segments back first where the
// limit asks for it.
func (a *Allocator) reserve(which int32, n, size int64) bool {
	if a.pauses.before(a.reserved + size) {
		return false
	}
	if a.took(size) || a.releaseUndivided(a.pool(which), n) && a.took(size) {
		return true
	}
	a.ReleaseCached()
	a.failed = !a.took(size)
	return !a.failed
}

// took takes size bytes from the driver, where the limit has room for them.
func (a *Allocator) took(size int64) bool {
	within := a.limit == 0 || a.reserved+size <= a.limit
	a.alike.asked(a.reserved+size, within)
	if within {
		a.reserved += size
		a.peakReserved = max(a.peakReserved, a.reserved)
	}
	return within
}

// ReleaseCached is torch.cuda.empty_cache(): it gives back every segment in which nothing is allocated, and of
// expandable ones the pages.
// Source: CUDACachingAllocator.cpp (release_cached_blocks), torch 2.9.
func (a *Allocator) ReleaseCached() {
	for part := range a.count {
		a.ReleasePart(int(part))
	}
}

// ReleasePart does so in one part.
func (a *Allocator) ReleasePart(part int) {
	p := a.pools[part]
	if p == nil {
		return
	}
	a.whole = a.whole[:0]
	p.each(func(i int32) {
		if b := &p.blocks[i]; a.Expandable || b.prev == noBlock && b.next == noBlock {
			a.whole = append(a.whole, i)
		}
	})
	given := p.reserved
	for _, i := range a.whole {
		if a.Expandable {
			p.unmap(i, page(int32(part)))
			continue
		}
		p.giveBack(i)
	}
	a.reserved -= given - p.reserved
}

// giveBack gives the driver a segment of which block i, which is free, is all.
func (p *pool) giveBack(i int32) {
	p.remove(i)
	p.reserved -= p.blocks[i].size
	p.blocks[i].free = false
	p.discard(i)
}
