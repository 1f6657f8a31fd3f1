package memory

// blockBytes is about how many bytes a block takes.
const blockBytes = 32

// StorageBytes is about how much memory a keeps for its next run.
func (a *Allocator) StorageBytes() int64 {
	bytes := int64(0)
	for _, p := range a.pools {
		if p != nil {
			bytes += int64(cap(p.blocks)) * blockBytes
			for c := range p.buckets {
				bytes += int64(cap(p.buckets[c].earlier)) * 4 * runLength
			}
		}
	}
	return bytes
}
