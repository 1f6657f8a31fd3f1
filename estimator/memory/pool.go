package memory

import (
	"math/bits"
	"slices"
)

// pool holds the free blocks of one kind, ordered by size and then by address. There are
// many blocks of few sizes, and a step gives them back in the reverse of the order in which it took
// them; so each size has a list of its own, with the lowest address at its end, found by a hash
// table, and a bit that says whether there is anything in it. Sizes stay when their list is empty: they come back
// in every layer and every micro-step.
type pool struct {
	sizes  []int64  // ascending
	lists  []int32  // by rank in sizes: which of buckets holds that size
	filled []uint64 // by rank: a bit for lists that are not empty
	rank   []int32  // by bucket: its size's rank

	buckets []bucket
	table   []slot // open addressing, size → bucket
	tail    int32  // expandable: the unmapped end of the pool's one segment
}

type freeBlock struct {
	addr  int64
	index int32
}

type slot struct {
	size   int64 // 0 where there is nothing
	bucket int32
}

// position is a place in a pool.
type position struct {
	rank, item int
	ok         bool
}

const firstTable = 256

func (p *pool) reset() {
	p.sizes, p.lists, p.rank = p.sizes[:0], p.lists[:0], p.rank[:0]
	clear(p.filled)
	for i := range p.buckets {
		p.buckets[i].clear()
	}
	if p.table == nil {
		p.table = make([]slot, firstTable)
	}
	clear(p.table)
	p.tail = none
}

func (p *pool) probe(size int64) int {
	mask := len(p.table) - 1
	i := int(uint64(size)*0x9e3779b97f4a7c15>>40) & mask
	for p.table[i].size != size && p.table[i].size != 0 {
		i = (i + 1) & mask
	}
	return i
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

// fit is the smallest block of at least n bytes, of equal ones that with the lowest address.
func (p *pool) fit(n int64) position {
	var r int
	if s := &p.table[p.probe(n)]; s.size != 0 {
		r = int(p.rank[s.bucket])
	} else {
		r = p.sizeAt(n)
	}
	return p.first(r)
}

// first is the first block of the sizes from rank r on.
func (p *pool) first(r int) position {
	if r = p.next(r); r < 0 {
		return position{}
	}
	return position{rank: r, item: p.buckets[p.lists[r]].len() - 1, ok: true}
}

// after is the place that follows at.
func (p *pool) after(at position) position {
	if at.item > 0 {
		at.item--
		return at
	}
	return p.first(at.rank + 1)
}

func (p *pool) index(at position) int32 { return p.buckets[p.lists[at.rank]].get(at.item).index }

func (p *pool) takeAt(at position) {
	b := &p.buckets[p.lists[at.rank]]
	b.remove(at.item)
	if b.len() == 0 {
		p.filled[at.rank>>6] &^= 1 << (uint(at.rank) & 63)
	}
}

// bucket finds the list of a size, or starts one.
func (p *pool) bucket(size int64) int32 {
	s := &p.table[p.probe(size)]
	if s.size != 0 {
		return s.bucket
	}
	b := int32(len(p.rank))
	if int(b) == len(p.buckets) {
		p.buckets = append(p.buckets, bucket{})
	}
	s.size, s.bucket = size, b
	r := p.sizeAt(size)
	p.sizes = slices.Insert(p.sizes, r, size)
	p.lists = slices.Insert(p.lists, r, b)
	p.rank = append(p.rank, 0)
	for i := r; i < len(p.lists); i++ {
		p.rank[p.lists[i]] = int32(i)
	}
	p.shift(r)
	if 2*len(p.sizes) > len(p.table) {
		p.grow()
	}
	return b
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
		p.table[p.probe(size)] = slot{size, p.lists[r]}
	}
}

func (p *pool) insert(size, addr int64, index int32) {
	k := p.bucket(size)
	b := &p.buckets[k]
	if b.len() == 0 {
		r := p.rank[k]
		p.filled[r>>6] |= 1 << (uint(r) & 63)
	}
	b.insert(freeBlock{addr, index})
}

func (p *pool) remove(size, addr int64) {
	k := p.table[p.probe(size)].bucket
	b := &p.buckets[k]
	item := b.len() - 1
	if b.get(item).addr != addr {
		item = b.at(addr)
	}
	p.takeAt(position{rank: int(p.rank[k]), item: item, ok: true})
}

// filter keeps the blocks for which keep is true.
func (p *pool) filter(keep func(index int32) bool) {
	for r := p.next(0); r >= 0; r = p.next(r + 1) {
		b := &p.buckets[p.lists[r]]
		kept := slices.DeleteFunc(b.list(), func(f freeBlock) bool { return !keep(f.index) })
		b.items = b.items[:b.head+len(kept)]
		if len(kept) == 0 {
			p.filled[r>>6] &^= 1 << (uint(r) & 63)
		}
	}
}

func (p *pool) hash(h uint64) uint64 {
	for r := p.next(0); r >= 0; r = p.next(r + 1) {
		h = mix(h, uint64(p.sizes[r]))
		for _, f := range p.buckets[p.lists[r]].list() {
			h = mix(h, uint64(f.addr))
		}
	}
	return h
}

// mix is one round of a multiplicative hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}
