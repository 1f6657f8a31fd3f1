package memory

import "slices"

// run is free blocks in falling order, by their indexes, so that the one that goes next stands at the end.
type run []int32

// at is where x lies or would lie: the first place whose block is not above x.
func (r run) at(blocks []block, x *block) int {
	low, high := 0, len(r)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if x.below(&blocks[r[middle]]) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// runLength is how many blocks a run has at most. A mixture of experts has tens of thousands of free blocks of one
// size, which come and go in any order: no more than a run is moved to make room for one.
const runLength = 57

// bucket holds the free blocks of one class in falling order: the lowest ones in last, which is empty only where the
// bucket is, and those above them, where there are many, in runs of which none is empty. It fills four cache lines.
type bucket struct {
	count   int32 // of last
	last    [runLength]int32
	earlier []run
}

// insert puts block i in its place among others.
func (b *bucket) insert(blocks []block, i int32) {
	x := &blocks[i]
	if n := b.count; n < runLength && (len(b.earlier) == 0 || x.below(&blocks[b.last[0]])) { // mostly near the end
		for ; n > 0 && blocks[b.last[n-1]].below(x); n-- {
			b.last[n] = b.last[n-1]
		}
		b.last[n] = i
		b.count++
		return
	}
	k := max(b.holds(blocks, x), 0)
	at := b.run(k).at(blocks, x)
	if at == runLength && k < len(b.earlier) { // as well at the start of the next
		k, at = k+1, 0
	}
	if len(b.run(k)) == runLength {
		k, at = b.divide(k, at)
	}
	if k < len(b.earlier) {
		b.earlier[k] = slices.Insert(b.earlier[k], at, i)
		return
	}
	copy(b.last[at+1:b.count+1], b.last[at:b.count])
	b.last[at] = i
	b.count++
}

// divide makes two runs of the k-th, which is full, and says where place i of it is now. Blocks that come in order find
// a run that has room for those to come.
func (b *bucket) divide(k, i int) (run, place int) {
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
	if k == n {
		first = append(first, b.last[:cut]...)
		b.count = int32(copy(b.last[:], b.last[cut:b.count]))
	} else {
		copy(b.earlier[k+1:], b.earlier[k:n])
		second := b.earlier[k+1]
		first = append(first, second[:cut]...)
		b.earlier[k+1] = append(second[:0], second[cut:]...)
	}
	b.earlier[k] = first
	if i < cut || i == 0 {
		return k, i
	}
	return k + 1, i - cut
}

// remove takes block i out, which is there and not the lowest.
func (b *bucket) remove(blocks []block, i int32) {
	if k := b.count - 2; k >= 0 && b.last[k] == i {
		b.last[k] = b.last[k+1]
		b.count--
		return
	}
	x := &blocks[i]
	k := b.holds(blocks, x)
	at := b.run(k).at(blocks, x)
	if k == len(b.earlier) {
		copy(b.last[at:], b.last[at+1:b.count])
		b.count--
		return
	}
	b.earlier[k] = slices.Delete(b.earlier[k], at, at+1)
	if len(b.earlier[k]) == 0 {
		b.drop(k)
	}
}

// drop lets go of the k-th run, which is empty, and keeps its storage.
func (b *bucket) drop(k int) {
	n := len(b.earlier) - 1
	room := b.earlier[k]
	copy(b.earlier[k:], b.earlier[k+1:])
	b.earlier[n] = room
	b.earlier = b.earlier[:n]
}

// refill fills last, which is empty, with the run above it, and says whether there is one.
func (b *bucket) refill() bool {
	n := len(b.earlier) - 1
	if n < 0 {
		return false
	}
	b.count = int32(copy(b.last[:], b.earlier[n]))
	b.earlier = b.earlier[:n]
	return true
}

// run is the k-th run.
func (b *bucket) run(k int) run {
	if k == len(b.earlier) {
		return b.last[:b.count]
	}
	return b.earlier[k]
}

// holds is the run in which x lies or would lie: the last that begins with x or above; -1 where x is above all.
func (b *bucket) holds(blocks []block, x *block) int {
	low, high := 0, len(b.earlier)+1
	for low < high {
		middle := int(uint(low+high) >> 1)
		if blocks[b.run(middle)[0]].below(x) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low - 1
}

// from is the lowest block that is not below x.
func (b *bucket) from(blocks []block, x *block) int32 {
	k := b.holds(blocks, x)
	if k < 0 {
		return noBlock
	}
	r := b.run(k)
	i := r.at(blocks, x)
	if i == len(r) || blocks[r[i]].below(x) {
		i--
	}
	return r[i]
}

// each calls f for every block.
func (b *bucket) each(f func(int32)) {
	for k := range len(b.earlier) + 1 {
		for _, i := range b.run(k) {
			f(i)
		}
	}
}

func (b *bucket) clear() {
	for b.count = 0; b.refill(); b.count = 0 {
	}
}
