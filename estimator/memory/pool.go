package memory

import "slices"

// pool holds the free blocks of one kind, ordered by size and then by address. There are
// many blocks of few sizes, and a step gives them back in the reverse of the order in which it took
// them; so each size has a list of its own, with the lowest address at its end.
type pool struct {
	sizes []int64 // ascending, of the lists that are not empty
	lists []int32 // by the same index: which of buckets holds that size
	spare []int32 // buckets without a size

	buckets [][]freeBlock
	tail    int32 // expandable: the unmapped end of the pool's one segment
}

type freeBlock struct {
	addr  int64
	index int32
}

// position is a place in a pool.
type position struct {
	list, item int
	ok         bool
}

func (p *pool) reset() {
	p.sizes, p.lists, p.spare = p.sizes[:0], p.lists[:0], p.spare[:0]
	for i := range p.buckets {
		p.buckets[i] = p.buckets[i][:0]
		p.spare = append(p.spare, int32(i))
	}
	p.tail = none
}

// sizeAt is the first list whose size is at least n.
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

// fit is the smallest block of at least n bytes, of equal ones that with the lowest address.
func (p *pool) fit(n int64) position {
	l := p.sizeAt(n)
	if l == len(p.sizes) {
		return position{}
	}
	return position{list: l, item: len(p.buckets[p.lists[l]]) - 1, ok: true}
}

// after is the place that follows at.
func (p *pool) after(at position) position {
	if at.item > 0 {
		at.item--
		return at
	}
	at.list++
	if at.list == len(p.sizes) {
		return position{}
	}
	at.item = len(p.buckets[p.lists[at.list]]) - 1
	return at
}

func (p *pool) index(at position) int32 { return p.buckets[p.lists[at.list]][at.item].index }

func (p *pool) takeAt(at position) {
	b := &p.buckets[p.lists[at.list]]
	if at.item == len(*b)-1 {
		*b = (*b)[:at.item]
	} else {
		*b = slices.Delete(*b, at.item, at.item+1)
	}
	if len(*b) == 0 {
		p.drop(at.list)
	}
}

// drop forgets a size of which nothing is left.
func (p *pool) drop(list int) {
	p.spare = append(p.spare, p.lists[list])
	p.sizes = slices.Delete(p.sizes, list, list+1)
	p.lists = slices.Delete(p.lists, list, list+1)
}

func (p *pool) insert(size, addr int64, index int32) {
	l := p.sizeAt(size)
	if l == len(p.sizes) || p.sizes[l] != size {
		var bucket int32
		if n := len(p.spare); n > 0 {
			bucket = p.spare[n-1]
			p.spare = p.spare[:n-1]
		} else {
			bucket = int32(len(p.buckets))
			p.buckets = append(p.buckets, nil)
		}
		p.sizes = slices.Insert(p.sizes, l, size)
		p.lists = slices.Insert(p.lists, l, bucket)
	}
	b := &p.buckets[p.lists[l]]
	if n := len(*b); n == 0 || (*b)[n-1].addr > addr {
		*b = append(*b, freeBlock{addr, index})
		return
	}
	*b = slices.Insert(*b, p.itemAt(*b, addr), freeBlock{addr, index})
}

// itemAt is the first block of a list whose address is at most addr.
func (p *pool) itemAt(b []freeBlock, addr int64) int {
	low, high := 0, len(b)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if b[middle].addr > addr {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func (p *pool) remove(size, addr int64) {
	l := p.sizeAt(size)
	b := p.buckets[p.lists[l]]
	item := len(b) - 1
	if b[item].addr != addr {
		item = p.itemAt(b, addr)
	}
	p.takeAt(position{list: l, item: item, ok: true})
}

// filter keeps the blocks for which keep is true.
func (p *pool) filter(keep func(index int32) bool) {
	for l := len(p.sizes) - 1; l >= 0; l-- {
		b := &p.buckets[p.lists[l]]
		*b = slices.DeleteFunc(*b, func(f freeBlock) bool { return !keep(f.index) })
		if len(*b) == 0 {
			p.drop(l)
		}
	}
}

func (p *pool) hash(h uint64) uint64 {
	for l, size := range p.sizes {
		h = mix(h, uint64(size))
		for _, f := range p.buckets[p.lists[l]] {
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
