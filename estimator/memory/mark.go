package memory

// Mark is where a part of an allocator stood, for a run that comes back there. What was counted on the way stays.
type Mark struct{ pools []markedPool }

type markedPool struct {
	savedPool
	number    int32
	allocated int64
}

// Mark keeps where a part stands, as State has it, in the storage of to.
func (a *Allocator) Mark(part int, to *Mark) {
	n := 0
	to.pools = to.pools[:cap(to.pools)]
	a.eachOf(part, func(number int32, p *pool) {
		if n == len(to.pools) {
			to.pools = append(to.pools, markedPool{})
		}
		m := &to.pools[n]
		p.save(&m.savedPool)
		m.number, m.allocated = number, p.taken()
		n++
	})
	to.pools = to.pools[:n]
}

// Return brings a part back to where it stood.
func (a *Allocator) Return(part int, from *Mark) {
	marked := from.pools
	a.eachOf(part, func(number int32, p *pool) {
		a.reserved -= p.reserved
		a.allocated -= p.taken()
		a.empty(p, number)
		if len(marked) == 0 || marked[0].number != number {
			return // nothing was allocated from it yet
		}
		p.restore(&marked[0].savedPool)
		a.reserved += p.reserved
		a.allocated += marked[0].allocated
		marked = marked[1:]
	})
}

// eachOf calls f for the pools of a part, in order.
func (a *Allocator) eachOf(part int, f func(number int32, p *pool)) {
	if a.Parts() > 1 {
		f(int32(part), a.pools[part])
		return
	}
	for number, p := range a.pools[:a.count] {
		if p != nil {
			f(int32(number), p)
		}
	}
}

// taken is how many bytes of the segments are not free.
func (p *pool) taken() int64 {
	free := int64(0)
	p.each(func(i int32) { free += p.blocks[i].size })
	return p.reserved - free
}

// StorageBytes is about how much memory m keeps.
func (m *Mark) StorageBytes() (bytes int64) {
	for _, p := range m.pools[:cap(m.pools)] {
		bytes += int64(cap(p.blocks)) * blockBytes
	}
	return bytes
}
