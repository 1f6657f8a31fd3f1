package memory

// Saved is where an allocator stood.
type Saved struct {
	pools    [poolCount]savedPool
	count    int32 // of pools
	settings Settings
	counters
}

type savedPool struct {
	there       bool // something was allocated from it
	blocks      []block
	spare, tail int32
	holes       int32
	end         int64
	reserved    int64
}

// Save keeps where a stands in the storage of to.
func (a *Allocator) Save(to *Saved) {
	to.settings, to.counters = a.Settings, a.counters
	to.count = a.count
	for k := range a.pools[:a.count] {
		s := &to.pools[k]
		p := a.pools[k]
		if s.there = p != nil && p.used(); !s.there {
			continue
		}
		p.save(s)
	}
}

func (p *pool) save(s *savedPool) {
	s.blocks = append(s.blocks[:0], p.blocks...)
	s.spare, s.tail, s.holes, s.end, s.reserved = p.spare, p.tail, p.holes, p.end, p.reserved
}

// restore brings p, which is empty, to where it stood.
func (p *pool) restore(s *savedPool) {
	p.blocks = append(p.blocks[:0], s.blocks...)
	p.spare, p.tail, p.holes, p.end, p.reserved = s.spare, s.tail, s.holes, s.end, s.reserved
	for i := range p.blocks {
		if p.blocks[i].free {
			p.list(int32(i))
		}
	}
}

// Restore brings a to where another run stood, and bounds what follows by limit, as in Reset.
func (a *Allocator) Restore(from *Saved, limit int64) {
	a.Reset(from.settings, limit)
	a.counters = from.counters
	for k := range from.pools[:from.count] {
		s := &from.pools[k]
		if !s.there {
			continue
		}
		a.pool(int32(k)).restore(s)
	}
}

// Under says whether a run under the limit would have come to the same place.
func (s *Saved) Under(limit int64) bool { return s.alike.least <= limit && limit < s.alike.end }

// StorageBytes is about how much memory s keeps.
func (s *Saved) StorageBytes() int64 {
	bytes := int64(0)
	for i := range s.pools {
		bytes += int64(cap(s.pools[i].blocks)) * blockBytes
	}
	return bytes
}
