package memory

import (
	"math"
	"math/bits"
	"slices"
)

// pool is the blocks of one kind of segments. Those that are free are held in the order in which the allocator looks at
// them: by size, and of equal ones by address. Sizes that are near each other are of one class, of which there are
// sixteen from a power of two to the next; each class has a bucket, and a bit that says whether there is anything in
// it. So to find, take and give back a block takes a few steps, however many blocks and sizes there are.
type pool struct {
	blocks []block
	spare  int32 // a block that is no more, whose next is another one
	tail   int32 // expandable: the unmapped end of the pool's one segment
	holes  int32 // expandable: how many parts before it have no memory, either
	end    int64 // the address of the next segment
	// reserved is how many bytes the segments have.
	reserved int64
	words    uint64
	filled   [classes / 64]uint64
	buckets  [classes]bucket
}

// block is a part of a segment. Where a segment ends, its neighbour is the block with index 0, which is none and never
// free.
type block struct {
	addr, size int64
	prev, next int32
	class      uint16 // of its size
	free       bool
	unmapped   bool // the part of an expandable segment that has no memory yet
}

// below says whether the allocator looks at b before it looks at c.
func (b *block) below(c *block) bool {
	return b.size < c.size || b.size == c.size && b.addr < c.addr
}

// noBlock is the index of no block.
const noBlock int32 = 0

// classes are sixteen for each power of two up to that of the largest size, in blocks of minBlockBytes.
const classes = 14 * 64

// class is that of a size: the exponent and the first four bits of its mantissa. Sizes in order have classes in order.
func class(size int64) uint16 {
	const mantissa, bias, kept = 52, 1023, 4
	return uint16(math.Float64bits(float64(size>>blockBits))>>(mantissa-kept) - bias<<kept)
}

func (p *pool) reset() {
	for c := p.next(0); c < classes; c = p.next(c + 1) {
		p.buckets[c].clear()
	}
	p.words, p.filled = 0, [classes / 64]uint64{}
	p.blocks, p.spare, p.end, p.tail = append(p.blocks[:0], block{}), noBlock, 0, noBlock
	p.reserved, p.holes = 0, 0
}

// used says whether anything was ever allocated from p since it was empty.
func (p *pool) used() bool { return p.end > 0 || len(p.blocks) > 2 }

// newBlock is a block whose fields hold anything. They are set one by one where the block stays: a struct of this many
// is copied through memory otherwise.
func (p *pool) newBlock() int32 {
	if i := p.spare; i != noBlock {
		p.spare = p.blocks[i].next
		return i
	}
	if n := len(p.blocks); n == cap(p.blocks) { // append would copy large lists at every quarter more
		p.blocks = slices.Grow(p.blocks, max(n, 64))
	}
	p.blocks = append(p.blocks, block{})
	return int32(len(p.blocks) - 1)
}

// next is the first class from c on whose bucket is not empty, or classes.
func (p *pool) next(c uint16) uint16 {
	w := c >> 6
	if w >= classes/64 {
		return classes
	}
	if word := p.filled[w] >> (c & 63); word != 0 {
		return c + uint16(bits.TrailingZeros64(word))
	}
	words := p.words >> (w + 1)
	if words == 0 {
		return classes
	}
	w += 1 + uint16(bits.TrailingZeros64(words))
	return w<<6 | uint16(bits.TrailingZeros64(p.filled[w]))
}

// fit is the smallest free block of at least n bytes, which are of class c, of equal ones that with the lowest address.
func (p *pool) fit(n int64, c uint16) int32 {
	b := &p.buckets[c]
	if k := b.count; k > 0 {
		if i := b.last[k-1]; p.blocks[i].size >= n {
			return i
		}
		if i := b.from(p.blocks, &block{size: n, addr: math.MinInt64}); i != noBlock {
			return i
		}
	}
	if c = p.next(c + 1); c == classes {
		return noBlock
	}
	b = &p.buckets[c]
	return b.last[b.count-1]
}

// after is the free block that follows block i.
func (p *pool) after(i int32) int32 {
	x := block{size: p.blocks[i].size, addr: p.blocks[i].addr + 1}
	b, c := &p.buckets[p.blocks[i].class], p.blocks[i].class
	if i := b.from(p.blocks, &x); i != noBlock {
		return i
	}
	if c = p.next(c + 1); c == classes {
		return noBlock
	}
	b = &p.buckets[c]
	return b.last[b.count-1]
}

// insert lists block i, which is free from here on.
func (p *pool) insert(i int32) {
	p.blocks[i].free = true
	p.list(i)
}

// remove takes block i off the list.
func (p *pool) remove(i int32) {
	c := p.blocks[i].class
	b := &p.buckets[c]
	k := b.count - 1
	if b.last[k] != i {
		b.remove(p.blocks, i)
		return
	}
	if b.count = k; k == 0 {
		p.emptied(c)
	}
}

// emptied says that nothing is left of the last run of class c.
func (p *pool) emptied(c uint16) {
	if p.buckets[c].refill() {
		return
	}
	w := c >> 6
	if p.filled[w] &^= 1 << (c & 63); p.filled[w] == 0 {
		p.words &^= 1 << w
	}
}

// take is fit and cut at once, where the rest of a block that is divided stays behind what was taken: noBlock where
// nothing is large enough.
func (p *pool) take(n int64, c uint16, least int64) int32 {
	blocks, b := p.blocks, &p.buckets[c]
	i := noBlock
	if k := b.count; k > 0 {
		if i = b.last[k-1]; blocks[i].size < n { // others of the class may be large enough
			if i = b.from(blocks, &block{size: n, addr: math.MinInt64}); i != noBlock {
				return p.cut(i, n, c, least)
			}
		}
	}
	if i == noBlock {
		if c = p.next(c + 1); c == classes {
			return noBlock
		}
		b = &p.buckets[c]
		i = b.last[b.count-1]
	}
	// From here on i is the lowest of its class.
	x := &blocks[i]
	rest := x.size - n
	if rest < least {
		if b.count--; b.count == 0 {
			p.emptied(c)
		}
		x.free = false
		return i
	}
	k := p.spare
	if k != noBlock {
		p.spare = blocks[k].next
	} else {
		k = p.newBlock()
		blocks = p.blocks
		x = &blocks[i]
	}
	y := &blocks[k]
	y.addr, y.size, y.class = x.addr, n, class(n)
	y.prev, y.next = x.prev, i
	y.free, y.unmapped = false, false
	blocks[x.prev].next = k
	x.prev = k
	x.addr += n
	x.size = rest
	if d := class(rest); d != c { // else it still is the lowest
		if b.count--; b.count == 0 {
			p.emptied(c)
		}
		x.class = d
		p.list(i)
	}
	return k
}

// cut takes block i, which is free, off the list: n bytes at its front, which are of class c, where at least so many
// others are left over, and else all of it.
func (p *pool) cut(i int32, n int64, c uint16, least int64) int32 {
	x := &p.blocks[i]
	rest := x.size - n
	if rest < least {
		p.remove(i)
		x.free = false
		return i
	}
	k := p.newBlock()
	blocks := p.blocks
	x = &blocks[i]
	y := &blocks[k]
	y.addr, y.size, y.class = x.addr, n, c
	y.prev, y.next = x.prev, i
	y.free, y.unmapped = false, false
	blocks[y.prev].next = k
	x.prev = k
	p.remove(i)
	x.addr, x.size, x.class = x.addr+n, rest, class(rest)
	p.list(i)
	return k
}

// list puts block i, which is free, where it belongs.
func (p *pool) list(i int32) {
	x := &p.blocks[i]
	c := x.class
	b := &p.buckets[c]
	k := b.count
	if k == 0 {
		b.last[0] = i
		b.count = 1
		p.filled[c>>6] |= 1 << (c & 63)
		p.words |= 1 << (c >> 6)
		return
	}
	if k < runLength && x.below(&p.blocks[b.last[k-1]]) {
		b.last[k] = i
		b.count = k + 1
		return
	}
	b.insert(p.blocks, i)
}

// enlarge gives block i, which is on the list, another place and a larger size.
func (p *pool) enlarge(i int32, addr, size int64) {
	x := &p.blocks[i]
	b, c := &p.buckets[x.class], class(size)
	if c == x.class && b.last[0] == i && len(b.earlier) == 0 { // it was the highest of its class, and is
		x.addr, x.size = addr, size
		return
	}
	if k := b.count - 1; b.last[k] != i {
		b.remove(p.blocks, i)
	} else if b.count = k; k == 0 {
		p.emptied(x.class)
	}
	x.addr, x.size, x.class = addr, size, c
	p.list(i)
}

// free gives block i back; it merges with free neighbours.
func (p *pool) free(i int32) {
	blocks := p.blocks
	b := &blocks[i]
	prev, next := &blocks[b.prev], &blocks[b.next]
	switch {
	case prev.free && next.free:
		k := b.next
		p.remove(k)
		p.enlarge(b.prev, prev.addr, prev.size+b.size+next.size)
		prev.next = next.next
		blocks[next.next].prev = b.prev
		next.free = false
		next.next = p.spare
		b.next = k
		p.spare = i
	case prev.free:
		p.enlarge(b.prev, prev.addr, prev.size+b.size)
		prev.next = b.next
		next.prev = b.prev
		b.next = p.spare
		p.spare = i
	case next.free:
		p.enlarge(b.next, b.addr, next.size+b.size)
		next.prev = b.prev
		prev.next = b.next
		b.next = p.spare
		p.spare = i
	default:
		b.free = true
		p.list(i)
	}
}

// each calls f for every free block.
func (p *pool) each(f func(int32)) {
	for c := p.next(0); c < classes; c = p.next(c + 1) {
		p.buckets[c].each(f)
	}
}

// hash is one of the free blocks.
func (p *pool) hash(h uint64) uint64 {
	p.each(func(i int32) { h = mix(mix(h, uint64(p.blocks[i].size)), uint64(p.blocks[i].addr)) })
	return h
}

// mix is one round of a multiplicative hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
