package step

// About how many bytes one entry of each of these lists takes.
const (
	storageBytes, nodeBytes, actBytes, paramBytes, lazyBytes = 16, 144, 24, 32, 96
	slotBytes, eventBytes, castBytes                         = 40, 8, 4
)

// StorageBytes is about how much memory t keeps for its next recording.
func (t *Tape) StorageBytes() int64 {
	return storageBytes*Room(t.storages) + nodeBytes*Room(t.nodes) + actBytes*Room(t.acts) + paramBytes*Room(t.params) +
		castBytes*(Room(t.cast)+Room(t.castEdge)) + lazyBytes*Room(t.lazies) + slotBytes*Room(t.program.Slots) +
		eventBytes*Room(t.program.Events)
}

// Room is how many entries s has room for.
func Room[T any](s []T) int64 { return int64(cap(s)) }
