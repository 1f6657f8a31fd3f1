package alloc

// Tally is a heap that only adds up, in blocks: what is alive and the most that ever was.
type Tally struct {
	Sizes      []int64
	Live, Most int64
}

func (t *Tally) Alloc(bytes int64) int32 {
	t.Sizes = append(t.Sizes, bytes)
	t.Live += Rounded(bytes)
	t.Most = max(t.Most, t.Live)
	return int32(len(t.Sizes) - 1)
}

func (t *Tally) Free(handle int32) {
	t.Live -= Rounded(t.Sizes[handle])
	t.Sizes[handle] = 0
}
