package memory

import (
	"math/bits"
	"slices"
)

// pool orders the free blocks of one kind by size and then by address. There are many blocks of few sizes, and a step
// gives them back in the reverse of the order in which it took them; so each size has a list of its own, threaded
// through the blocks with the lowest address first, and a bit that says whether there is anything in it. A size
// stays when its list is empty: it comes back in every layer and every micro-step.
type pool struct {
	sizes  []int64  // ascending
	lists  []int32  // by rank in sizes: which list holds that size
	filled []uint64 // by rank: a bit for lists that are not empty

	rank        []int32 // by list: its size's rank
	first, last []int32 // by list: its blocks with the lowest and the highest address

	table []slot // open addressing, size → list
	tail  int32  // expandable: the unmapped end of the pool's one segment
}

type slot struct {
	size int64 // 0 where there is nothing
	list int32
}

const firstTable = 256

func (p *pool) reset() {
	p.sizes, p.lists, p.rank, p.first, p.last = p.sizes[:0], p.lists[:0], p.rank[:0], p.first[:0], p.last[:0]
	clear(p.filled)
	if p.table == nil {
		p.table = make([]slot, firstTable)
	}
	clear(p.table)
	p.tail = none
}

func (p *pool) probe(size int64) *slot {
	mask := len(p.table) - 1
	i := int(uint64(size)*0x9e3779b97f4a7c15>>40) & mask
	for p.table[i].size != size && p.table[i].size != 0 {
		i = (i + 1) & mask
	}
	return &p.table[i]
}

// sizeAt is the rank of the first size that is at least n.
func (p *pool) sizeAt(n int64) int {
	low, high := 0, len(p.sizes)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if p.sizes[middle] < n {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// next is the first rank from r on whose list is not empty, or -1.
func (p *pool) next(r int) int {
	w := r >> 6
	if w >= len(p.filled) {
		return -1
	}
	word := p.filled[w] &^ (1<<(uint(r)&63) - 1)
	for word == 0 {
		if w++; w == len(p.filled) {
			return -1
		}
		word = p.filled[w]
	}
	return w<<6 | bits.TrailingZeros64(word)
}

// fit is the smallest block of at least n bytes, of equal ones that with the lowest address, or none.
func (p *pool) fit(n int64) int32 {
	s := p.probe(n)
	if s.size == 0 {
		return p.from(p.sizeAt(n))
	}
	if b := p.first[s.list]; b != none {
		return b
	}
	return p.from(int(p.rank[s.list]) + 1)
}

// from is the first block of the sizes from rank r on, or none.
func (p *pool) from(r int) int32 {
	if r = p.next(r); r < 0 {
		return none
	}
	return p.first[p.lists[r]]
}

// after is the block that follows b in the pool's order, or none.
func (p *pool) after(b *block) int32 {
	if b.nextFree != none {
		return b.nextFree
	}
	return p.from(int(p.rank[b.list]) + 1)
}

// list finds the list of a size, or starts one.
func (p *pool) list(size int64) int32 {
	s := p.probe(size)
	if s.size != 0 {
		return s.list
	}
	k := int32(len(p.rank))
	s.size, s.list = size, k
	r := p.sizeAt(size)
	p.sizes = slices.Insert(p.sizes, r, size)
	p.lists = slices.Insert(p.lists, r, k)
	p.rank, p.first, p.last = append(p.rank, 0), append(p.first, none), append(p.last, none)
	for i := r; i < len(p.lists); i++ {
		p.rank[p.lists[i]] = int32(i)
	}
	p.shift(r)
	if 2*len(p.sizes) > len(p.table) {
		p.grow()
	}
	return k
}

// shift makes room for a bit at rank r.
func (p *pool) shift(r int) {
	if len(p.sizes) > 64*len(p.filled) {
		p.filled = append(p.filled, 0)
	}
	w := r >> 6
	for k := len(p.filled) - 1; k > w; k-- {
		p.filled[k] = p.filled[k]<<1 | p.filled[k-1]>>63
	}
	below := uint64(1)<<(uint(r)&63) - 1
	p.filled[w] = p.filled[w]&below | (p.filled[w]&^below)<<1
}

func (p *pool) grow() {
	p.table = make([]slot, 2*len(p.table))
	for r, size := range p.sizes {
		*p.probe(size) = slot{size, p.lists[r]}
	}
}

// insert puts free block i into the list of its size.
func (p *pool) insert(blocks []block, i int32) {
	b := &blocks[i]
	if b.list == none {
		b.list = p.list(b.size)
	}
	k := b.list
	head := p.first[k]
	switch {
	case head == none:
		b.prevFree, b.nextFree = none, none
		p.first[k], p.last[k] = i, i
		r := p.rank[k]
		p.filled[r>>6] |= 1 << (uint(r) & 63)
	case b.addr < blocks[head].addr:
		b.prevFree, b.nextFree = none, head
		blocks[head].prevFree = i
		p.first[k] = i
	default: // mostly at the end, so look from there
		at := p.last[k]
		for blocks[at].addr > b.addr {
			at = blocks[at].prevFree
		}
		b.prevFree, b.nextFree = at, blocks[at].nextFree
		if b.nextFree == none {
			p.last[k] = i
		} else {
			blocks[b.nextFree].prevFree = i
		}
		blocks[at].nextFree = i
	}
}

// remove takes free block i out of its list.
func (p *pool) remove(blocks []block, i int32) {
	b := &blocks[i]
	k := b.list
	if b.prevFree == none {
		p.first[k] = b.nextFree
	} else {
		blocks[b.prevFree].nextFree = b.nextFree
	}
	if b.nextFree == none {
		p.last[k] = b.prevFree
	} else {
		blocks[b.nextFree].prevFree = b.prevFree
	}
	if p.first[k] == none {
		r := p.rank[k]
		p.filled[r>>6] &^= 1 << (uint(r) & 63)
	}
}

func (p *pool) hash(blocks []block, h uint64) uint64 {
	for r := p.next(0); r >= 0; r = p.next(r + 1) {
		h = mix(h, uint64(p.sizes[r]))
		for i := p.first[p.lists[r]]; i != none; i = blocks[i].nextFree {
			h = mix(h, uint64(blocks[i].addr))
		}
	}
	return h
}

// mix is one round of a multiplicative hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
