package memory

// Saved is where an allocator stood.
type Saved struct {
	pools      [poolCount]savedPool
	count      int32 // of pools
	expandable bool
	counters
}

type savedPool struct {
	there       bool // something was allocated from it
	blocks      []block
	spare, tail int32
	end         int64
}

// Save keeps where a stands in the storage of to.
func (a *Allocator) Save(to *Saved) {
	to.expandable, to.counters = a.expandable, a.counters
	to.count = a.count
	for k := range a.pools[:a.count] {
		s := &to.pools[k]
		p := a.pools[k]
		if s.there = p != nil && p.used(); !s.there {
			continue
		}
		s.blocks = append(s.blocks[:0], p.blocks...)
		s.spare, s.tail, s.end = p.spare, p.tail, p.end
	}
}

// Restore brings a to where another run stood, and bounds what follows by limit, as in Reset. Where that run had not reserved
// more than limit until then, one under the limit would stand there, too.
func (a *Allocator) Restore(from *Saved, limit int64) {
	a.Reset(false, limit)
	a.expandable, a.counters = from.expandable, from.counters
	for k := range from.pools[:from.count] {
		s := &from.pools[k]
		if !s.there {
			continue
		}
		p := a.pool(int32(k))
		p.blocks = append(p.blocks[:0], s.blocks...)
		p.spare, p.tail, p.end = s.spare, s.tail, s.end
		for i := range p.blocks {
			if p.blocks[i].free {
				p.insert(int32(i))
			}
		}
	}
}

// PeakReserved is what the run had reserved at most until then.
func (s *Saved) PeakReserved() int64 { return s.peakReserved }
