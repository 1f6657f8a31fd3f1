package step

// About how many bytes one entry of each of these lists takes.
const (
	storageBytes, nodeBytes, actBytes, paramBytes, lazyBytes = 16, 136, 24, 32, 96
	slotBytes, eventBytes, castBytes                         = 40, 8, 4
)

// StorageBytes is about how much memory t keeps for its next recording.
func (t *Tape) StorageBytes() int64 {
	return storageBytes*room(t.storages) + nodeBytes*room(t.nodes) + actBytes*room(t.acts) + paramBytes*room(t.params) +
		castBytes*(room(t.cast)+room(t.castEdge)) + lazyBytes*room(t.lazies) + slotBytes*room(t.program.Slots) + eventBytes*room(t.program.Events)
}

// room is how many entries s has room for.
func room[T any](s []T) int64 { return int64(cap(s)) }
