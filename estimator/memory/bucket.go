package memory

import "slices"

// freeBlock is a free block as a pool lists it.
type freeBlock struct {
	size, addr int64
	index      int32 // among the allocator's blocks
}

// below says whether the allocator looks at f before it looks at g.
func (f freeBlock) below(g freeBlock) bool {
	return f.size < g.size || f.size == g.size && f.addr < g.addr
}

// run is free blocks in falling order, so that the one that goes next stands at the end.
type run []freeBlock

// at is where f lies or would lie: the first place whose block is not above f.
func (r run) at(f freeBlock) int {
	low, high := 0, len(r)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if f.below(r[middle]) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// runLength is how many blocks a run has at most. A mixture of experts has tens of thousands of free blocks of one size, which
// come and go in any order: no more than a run is moved to make room for one.
const runLength = 64

// bucket holds free blocks in falling order: the lowest ones in last, which is empty only where the bucket is, and those above
// them, where there are many, in runs of which none is empty.
type bucket struct {
	last    run
	earlier []run
}

func (b *bucket) empty() bool { return len(b.last) == 0 }

// lowest is the block that goes next.
func (b *bucket) lowest() freeBlock { return b.last[len(b.last)-1] }

// takeLowest takes it out.
func (b *bucket) takeLowest() {
	if b.last = b.last[:len(b.last)-1]; len(b.last) == 0 {
		b.drop(len(b.earlier))
	}
}

// insert puts f in its place among others, which mostly is near the end.
func (b *bucket) insert(f freeBlock) {
	if n := len(b.last); n < runLength && f.below(b.last[0]) {
		b.last = append(b.last, f)
		for ; b.last[n-1].below(f); n-- {
			b.last[n] = b.last[n-1]
		}
		b.last[n] = f
		return
	}
	k := max(b.holds(f), 0)
	r := b.run(k)
	i := r.at(f)
	if i == runLength && k < len(b.earlier) { // as well at the start of the next
		k, i = k+1, 0
		r = b.run(k)
	}
	if len(*r) == runLength {
		r, i = b.divide(k, i)
	}
	*r = slices.Insert(*r, i, f)
}

// divide makes two runs of the k-th, which is full, and says where its place i is now. Blocks that come in order find a run that
// has room for those to come.
func (b *bucket) divide(k, i int) (*run, int) {
	cut := runLength / 2
	if i == 0 || i == runLength {
		cut = i
	}
	n := len(b.earlier)
	if n == cap(b.earlier) {
		b.earlier = append(b.earlier, nil)
	}
	b.earlier = b.earlier[:n+1]
	first := b.earlier[n][:0] // the storage of a run that is gone
	copy(b.earlier[k+1:], b.earlier[k:n])
	second := b.run(k + 1)
	first = append(first, (*second)[:cut]...)
	*second = append((*second)[:0], (*second)[cut:]...)
	b.earlier[k] = first
	if i < cut || i == 0 {
		return &b.earlier[k], i
	}
	return second, i - cut
}

// remove takes f out, which is there.
func (b *bucket) remove(f freeBlock) {
	n := len(b.last) - 1
	if b.last[n].addr == f.addr {
		b.takeLowest()
		return
	}
	if n > 0 && b.last[n-1].addr == f.addr {
		b.last[n-1] = b.last[n]
		b.last = b.last[:n]
		return
	}
	k := b.holds(f)
	r := b.run(k)
	i := r.at(f)
	*r = append((*r)[:i], (*r)[i+1:]...)
	if len(*r) == 0 {
		b.drop(k)
	}
}

// drop lets go of the k-th run, which is empty, and keeps its storage.
func (b *bucket) drop(k int) {
	n := len(b.earlier) - 1
	if n < 0 {
		return
	}
	room := *b.run(k)
	if k > n {
		b.last = b.earlier[n]
	} else {
		copy(b.earlier[k:], b.earlier[k+1:])
	}
	b.earlier[n] = room
	b.earlier = b.earlier[:n]
}

// run is the k-th run.
func (b *bucket) run(k int) *run {
	if k == len(b.earlier) {
		return &b.last
	}
	return &b.earlier[k]
}

// holds is the run in which f lies or would lie: the last that begins with f or above; -1 where f is above all.
func (b *bucket) holds(f freeBlock) int {
	low, high := 0, len(b.earlier)+1
	for low < high {
		middle := int(uint(low+high) >> 1)
		if (*b.run(middle))[0].below(f) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low - 1
}

// from is the lowest block that is not below f.
func (b *bucket) from(f freeBlock) (found freeBlock, ok bool) {
	k := b.holds(f)
	if k < 0 {
		return freeBlock{}, false
	}
	r := *b.run(k)
	i := r.at(f)
	if i == len(r) || r[i].below(f) {
		i--
	}
	return r[i], true
}

// each calls f for every block.
func (b *bucket) each(f func(freeBlock)) {
	for k := range len(b.earlier) + 1 {
		for _, free := range *b.run(k) {
			f(free)
		}
	}
}

func (b *bucket) clear() {
	for !b.empty() {
		b.last = b.last[:0]
		b.drop(len(b.earlier))
	}
}
