package step

// tally is a heap that only adds up, in blocks: what is alive and the most that ever was.
type tally struct {
	sizes      []int64
	live, most int64
}

func (t *tally) Alloc(bytes int64) int32 {
	t.sizes = append(t.sizes, bytes)
	t.live += rounded(bytes)
	t.most = max(t.most, t.live)
	return int32(len(t.sizes) - 1)
}

func (t *tally) Free(handle int32) {
	t.live -= rounded(t.sizes[handle])
	t.sizes[handle] = 0
}
