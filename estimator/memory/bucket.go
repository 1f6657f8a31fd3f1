package memory

// bucket holds free blocks of one size with falling addresses. Both ends are open, since a step gives blocks back in the order
// in which it took them (an optimizer's temporaries) or in the reverse of it (backward), and a mixture of experts has tens
// of thousands of a size.
type bucket struct {
	items []freeBlock // what lies before head is room
	head  int
}

func (b *bucket) list() []freeBlock { return b.items[b.head:] }

func (b *bucket) len() int { return len(b.items) - b.head }

func (b *bucket) get(i int) freeBlock { return b.items[b.head+i] }

func (b *bucket) clear() { b.items, b.head = b.items[:0], 0 }

// at is where a block of this address lies or would lie: the first whose address is at most addr.
func (b *bucket) at(addr int64) int {
	list := b.list()
	low, high := 0, len(list)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if list[middle].addr > addr {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func (b *bucket) insert(f freeBlock) {
	n := len(b.items) - b.head
	if n == 0 || b.items[len(b.items)-1].addr > f.addr {
		b.items = append(b.items, f)
		return
	}
	i := b.at(f.addr)
	if i > n/2 {
		b.items = append(b.items, freeBlock{})
		list := b.list()
		copy(list[i+1:], list[i:n])
		list[i] = f
		return
	}
	if b.head == 0 {
		b.makeRoom()
	}
	b.head--
	list := b.list()
	copy(list[:i], list[1:i+1])
	list[i] = f
}

// makeRoom leaves as much room before the head as there are blocks.
func (b *bucket) makeRoom() {
	n := len(b.items)
	for range n + 1 {
		b.items = append(b.items, freeBlock{})
	}
	b.head = n + 1
	copy(b.items[b.head:], b.items[:n])
}

func (b *bucket) remove(i int) {
	n := len(b.items) - b.head
	if i == n-1 {
		b.items = b.items[:len(b.items)-1]
		return
	}
	list := b.list()
	if i >= n/2 {
		copy(list[i:], list[i+1:])
		b.items = b.items[:len(b.items)-1]
		return
	}
	copy(list[1:i+1], list[:i])
	b.head++
}
