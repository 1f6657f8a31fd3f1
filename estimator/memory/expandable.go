package memory

// Where segments grow, a pool has one segment, of which pages get memory as they are needed. Where cached pages were
// given back, it has holes.
// Source: c10/cuda/CUDACachingAllocator.cpp (ExpandableSegment, find_expandable_block, map_block, unmap_block), torch
// 2.9 and 2.15, which do the same.

// page is how much of an expandable segment gets memory at once.
func page(which int32) int64 {
	if which%streamPools == largePool {
		return largeSegmentBytes
	}
	return smallSegmentBytes
}

// endless is as much address space as no job takes, in whole pages: that of a segment on a card of any size.
const endless = int64(1) << 49 / largeSegmentBytes * largeSegmentBytes

// space is how much address space a segment has: an eighth more than the card has memory, in whole pages.
func (a *Allocator) space(which int32) int64 {
	if a.limit == 0 {
		return endless
	}
	page := page(which)
	return (a.limit + a.limit/8 + page - 1) / page * page
}

// unmapped makes a pool's first segment where segments grow, of which nothing has memory yet.
func (p *pool) unmapped(space int64) {
	p.tail = p.newBlock()
	p.blocks[p.tail] = block{size: space, unmapped: true}
}

// another makes one more segment, behind what is neither free nor without memory: segments do not merge.
func (p *pool) another(space int64) {
	wall, tail := p.newBlock(), p.newBlock()
	end := &p.blocks[p.tail]
	at := end.addr + end.size
	end.next = wall
	p.blocks[wall] = block{addr: at, prev: p.tail, next: tail}
	p.blocks[tail] = block{addr: at, size: space, prev: wall, unmapped: true}
	p.tail = tail
	p.holes++
}

// expand maps more of the one expandable segment, so that n bytes are free in one piece.
func (a *Allocator) expand(which int32, n int64) int32 {
	p := a.pool(which)
	if i := a.mapped(p, n, which); i != noBlock || a.pauses.at > 0 {
		return i
	}
	a.ReleaseCached()
	i := a.mapped(p, n, which)
	a.failed = i == noBlock
	return i
}

// mapped maps pages at the first place where n bytes are free or have no memory, and says which free block begins
// there. What was mapped stays so where there is no memory for the rest.
func (a *Allocator) mapped(p *pool, n int64, which int32) int32 {
	page, i := page(which), p.place(n)
	if i == noBlock {
		p.another(max(a.space(which), (n+page-1)/page*page))
		i = p.tail
	}
	have, next := int64(0), i
	if !p.blocks[i].unmapped {
		have, next = p.blocks[i].size, p.blocks[i].next
	}
	for have < n {
		size := (min(n-have, p.blocks[next].size) + page - 1) / page * page
		if a.pauses.before(a.reserved+size) || !a.took(size) {
			return noBlock
		}
		i = p.mapFront(next, size)
		have, next = p.blocks[i].size, p.blocks[i].next
	}
	return i
}

// place is the block of the lowest address at which n bytes are free or have no memory in one piece, some of them
// without: it has none itself, or is followed by one that has none. noBlock where there is no such place.
func (p *pool) place(n int64) int32 {
	if p.holes == 0 && p.blocks[p.tail].size >= n { // the tail is all that has none
		if before := p.blocks[p.tail].prev; p.blocks[before].free {
			return before
		}
		return p.tail
	}
	at, room := noBlock, int64(0)
	for i := p.tail; i != noBlock; i = p.blocks[i].prev {
		b := &p.blocks[i]
		if !b.free && !b.unmapped {
			room = 0
			continue
		}
		room += b.size
		if !b.unmapped {
			continue
		}
		switch before := &p.blocks[b.prev]; {
		case before.free && room+before.size >= n:
			at = b.prev
		case !before.free && room >= n:
			at = i
		}
	}
	return at
}

// mapFront gives the first size bytes of block i memory, and says which free block they are part of.
func (p *pool) mapFront(i int32, size int64) int32 {
	b := &p.blocks[i]
	from, before, after := b.addr, b.prev, i
	b.addr += size
	b.size -= size
	p.reserved += size
	if b.size == 0 && i != p.tail {
		after = b.next
		p.unlink(i)
		p.holes--
	}
	if p.blocks[before].free {
		p.enlarge(before, p.blocks[before].addr, p.blocks[before].size+size)
	} else {
		before = p.addAfter(before, after, from, size)
	}
	if next := p.blocks[before].next; p.blocks[next].free { // where the hole is closed
		p.remove(next)
		p.blocks[next].free = false
		more := p.blocks[next].size
		p.unlink(next)
		p.enlarge(before, p.blocks[before].addr, p.blocks[before].size+more)
	}
	return before
}

// unmap gives back the pages that lie wholly within block i, which is free: what is left of it at either end stays.
func (p *pool) unmap(i int32, page int64) {
	b := &p.blocks[i]
	addr, end := b.addr, b.addr+b.size
	from, to := (addr+page-1)/page*page, end/page*page
	if from >= to {
		return
	}
	p.remove(i)
	b.free, b.unmapped = false, true
	b.addr, b.size = from, to-from
	p.reserved -= to - from
	p.holes++
	if before := b.prev; from > addr {
		p.addAfter(before, i, addr, from-addr)
	} else if p.blocks[before].unmapped {
		p.blocks[i].addr = p.blocks[before].addr
		p.blocks[i].size += p.blocks[before].size
		p.unlink(before)
		p.holes--
	}
	if next := p.blocks[i].next; end > to {
		p.addAfter(i, next, to, end-to)
	} else if p.blocks[next].unmapped { // the tail, perhaps, which stays
		p.blocks[next].addr = p.blocks[i].addr
		p.blocks[next].size += p.blocks[i].size
		p.unlink(i)
		p.holes--
	}
}

// addAfter makes a free block between two.
func (p *pool) addAfter(before, after int32, addr, size int64) int32 {
	k := p.newBlock()
	p.blocks[k] = block{addr: addr, size: size, class: class(size), prev: before, next: after}
	p.blocks[before].next = k
	p.blocks[after].prev = k
	p.insert(k)
	return k
}

// unlink takes block i, which is on no list, from between its neighbours.
func (p *pool) unlink(i int32) {
	b := &p.blocks[i]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
	b.unmapped = false
	p.discard(i)
}

// discard leaves block i to whoever needs one next.
func (p *pool) discard(i int32) { p.blocks[i].next, p.spare = p.spare, i }
