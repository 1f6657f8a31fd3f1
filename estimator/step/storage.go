package step

// About how many bytes one entry of each of these lists takes.
const (
	storageBytes, nodeBytes, actBytes, paramBytes, lazyBytes = 16, 136, 24, 32, 96
	slotBytes, eventBytes, requestBytes, handleBytes         = 40, 8, 24, 4
)

// StorageBytes is about how much memory t keeps for its next recording.
func (t *Tape) StorageBytes() int64 {
	return storageBytes*room(t.storages) + nodeBytes*room(t.nodes) + actBytes*room(t.acts) + paramBytes*room(t.params) +
		handleBytes*(room(t.cast)+room(t.castEdge)) + lazyBytes*room(t.lazies) + slotBytes*room(t.program.Slots) + eventBytes*room(t.program.Events)
}

// StorageBytes is about how much memory s keeps for its next run.
func (s *Session) StorageBytes() int64 {
	return s.player.storageBytes() + s.evaluating.storageBytes() +
		handleBytes*(room(s.once)+room(s.held)+room(s.gradients)+room(s.updater.held)+room(s.updater.rms)) +
		8*(room(s.trained)+room(s.book.tally.sizes)) + 3*room(s.book.current)
}

func (y *player) storageBytes() int64 {
	return requestBytes*(room(y.flat)+room(y.parts[0])+room(y.parts[1])) + handleBytes*(room(y.now)+room(y.last)+room(y.fold.local))
}

// room is how many entries s has room for.
func room[T any](s []T) int64 { return int64(cap(s)) }
