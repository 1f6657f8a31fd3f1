package memory

// grow takes memory from the driver for n bytes in a pool, and returns a free block that has room for them.
func (a *Allocator) grow(which int32, n int64) int32 {
	if a.expandable {
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
	if !a.reserve(size) {
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

// unmapped makes the pool's one segment where segments grow, of which nothing has memory yet.
func (p *pool) unmapped() {
	const farApart = int64(1) << 50
	p.tail = p.newBlock()
	p.blocks[p.tail] = block{size: farApart / 2, unmapped: true}
}

// expand maps more of the one expandable segment, so that its end holds n free bytes.
func (a *Allocator) expand(which int32, n int64) int32 {
	p, page := a.pool(which), int64(smallSegmentBytes)
	if which%streamPools == largePool {
		page = largeSegmentBytes
	}
	tail := p.tail
	last := p.blocks[tail].prev
	have := int64(0)
	if p.blocks[last].free {
		have = p.blocks[last].size
	}
	need := (n - have + page - 1) / page * page
	if !a.reserve(need) {
		return noBlock
	}
	t := &p.blocks[tail]
	from := t.addr
	t.addr += need
	t.size -= need
	p.reserved += need
	if have > 0 {
		p.enlarge(last, p.blocks[last].addr, have+need)
		return last
	}
	k := p.newBlock()
	p.blocks[k] = block{addr: from, size: need, class: class(need), prev: last, next: tail}
	p.blocks[last].next = k
	p.blocks[tail].prev = k
	p.insert(k)
	return k
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

// reserve takes size bytes from the driver, giving cached segments back first where the limit asks for it.
func (a *Allocator) reserve(size int64) bool {
	if a.pauses.before(a.reserved + size) {
		return false
	}
	if a.limit > 0 && a.reserved+size > a.limit {
		a.alike.asked(a.reserved+size, false)
		a.ReleaseCached()
		if a.reserved+size > a.limit {
			a.alike.asked(a.reserved+size, false)
			a.failed = true
			return false
		}
	}
	a.reserved += size
	a.alike.asked(a.reserved, true)
	a.peakReserved = max(a.peakReserved, a.reserved)
	return true
}

// ReleaseCached is torch.cuda.empty_cache(): it gives back every segment in which nothing is allocated.
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
		if b := &p.blocks[i]; b.prev == noBlock && b.next == noBlock {
			a.whole = append(a.whole, i)
		}
	})
	for _, i := range a.whole {
		p.remove(i)
		a.reserved -= p.blocks[i].size
		p.reserved -= p.blocks[i].size
		p.blocks[i].free = false
		p.blocks[i].next, p.spare = p.spare, i
	}
}
