package memory

import (
	"math"
	"math/bits"
)

// pool holds the free blocks of one kind in the order in which the allocator looks at them: by size, and of equal ones by address.
// Sizes that are near each other are of one class, of which there are sixteen from a power of two to the next; each class has a
// bucket, and a bit that says whether there is anything in it. So to find, take and give back a block takes a few steps, however
// many blocks and sizes there are.
type pool struct {
	buckets [classes]bucket
	filled  [classes / 64]uint64
	tail    int32 // expandable: the unmapped end of the pool's one segment
}

const (
	perPower = 16 // classes for each power of two
	classes  = 52 * perPower
)

// class is that of a size, which is a multiple of minBlockBytes. Sizes in order have classes in order.
func class(size int64) int {
	units := uint64(size) / minBlockBytes
	if units < perPower {
		return int(units)
	}
	power := bits.Len64(units) - bits.Len64(perPower)
	return power*perPower + int(units>>uint(power))
}

func (p *pool) reset() {
	for c := p.next(0); c >= 0; c = p.next(c + 1) {
		p.buckets[c].clear()
	}
	p.filled = [classes / 64]uint64{}
	p.tail = none
}

// next is the first class from c on whose bucket is not empty, or -1.
func (p *pool) next(c int) int {
	w := c >> 6
	if w >= len(p.filled) {
		return -1
	}
	word := p.filled[w] &^ (1<<(uint(c)&63) - 1)
	for word == 0 {
		if w++; w == len(p.filled) {
			return -1
		}
		word = p.filled[w]
	}
	return w<<6 | bits.TrailingZeros64(word)
}

// take takes out the smallest block of at least n bytes, of equal ones that with the lowest address.
func (p *pool) take(n int64) (f freeBlock, ok bool) {
	c := class(n)
	b := &p.buckets[c]
	if b.empty() || b.lowest().size < n {
		if f, ok = p.fit(n); ok {
			p.remove(f)
		}
		return f, ok
	}
	f = b.lowest()
	if b.takeLowest(); b.empty() {
		p.filled[c>>6] &^= 1 << (uint(c) & 63)
	}
	return f, true
}

// fit is the block that take takes.
func (p *pool) fit(n int64) (f freeBlock, ok bool) {
	return p.from(freeBlock{size: n, addr: math.MinInt64})
}

// after is the block that follows f.
func (p *pool) after(f freeBlock) (next freeBlock, ok bool) {
	f.addr++
	return p.from(f)
}

// from is the lowest block that is not below f.
func (p *pool) from(f freeBlock) (found freeBlock, ok bool) {
	c := class(f.size)
	if b := &p.buckets[c]; !b.empty() {
		if found = b.lowest(); !found.below(f) {
			return found, true
		}
		if found, ok = b.from(f); ok {
			return found, true
		}
	}
	if c = p.next(c + 1); c < 0 {
		return freeBlock{}, false
	}
	return p.buckets[c].lowest(), true
}

func (p *pool) insert(f freeBlock) {
	c := class(f.size)
	b := &p.buckets[c]
	if n := len(b.last); n > 0 {
		if n < runLength && f.below(b.last[n-1]) {
			b.last = append(b.last, f)
		} else {
			b.insert(f)
		}
		return
	}
	b.last = append(b.last, f)
	p.filled[c>>6] |= 1 << (uint(c) & 63)
}

// remove takes f out, which is there.
func (p *pool) remove(f freeBlock) {
	c := class(f.size)
	b := &p.buckets[c]
	if b.remove(f); b.empty() {
		p.filled[c>>6] &^= 1 << (uint(c) & 63)
	}
}

// each calls f for every free block.
func (p *pool) each(f func(freeBlock)) {
	for c := p.next(0); c >= 0; c = p.next(c + 1) {
		p.buckets[c].each(f)
	}
}

func (p *pool) hash(h uint64) uint64 {
	p.each(func(f freeBlock) { h = mix(mix(h, uint64(f.size)), uint64(f.addr)) })
	return h
}

// mix is one round of a multiplicative hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
