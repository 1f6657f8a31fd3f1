package memory

// Saved is where an allocator stood.
type Saved struct {
	blocks     []block
	spare      []int32
	tails      []int32
	expandable bool
	counters
}

// Save keeps where a stands in the storage of to.
func (a *Allocator) Save(to *Saved) {
	to.blocks, to.spare = append(to.blocks[:0], a.blocks...), append(to.spare[:0], a.spare...)
	to.expandable, to.counters = a.expandable, a.counters
	to.tails = to.tails[:0]
	for p := range a.numbers() {
		to.tails = append(to.tails, a.pool(p).tail)
	}
	for _, i := range to.spare { // whose fields hold anything
		to.blocks[i].free = false
	}
}

// Restore brings a to where another run stood, and bounds what follows by limit, as in Reset. Where that run had not reserved
// more than limit until then, one under the limit would stand there, too.
func (a *Allocator) Restore(from *Saved, limit int64) {
	a.Reset(false, limit)
	a.expandable, a.counters = from.expandable, from.counters
	a.blocks, a.spare = append(a.blocks, from.blocks...), append(a.spare, from.spare...)
	for p, tail := range from.tails {
		a.pool(uint8(p)).tail = tail
	}
	for i := range a.blocks {
		if a.blocks[i].free {
			a.insert(int32(i))
		}
	}
}

// PeakReserved is what the run had reserved at most until then.
func (s *Saved) PeakReserved() int64 { return s.peakReserved }
