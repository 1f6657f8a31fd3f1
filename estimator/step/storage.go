package step

import "unsafe"

// StorageBytes is about how much memory t keeps for its next recording.
func (t *Tape) StorageBytes() int64 {
	return bytesOf(t.storages) + bytesOf(t.nodes) + bytesOf(t.acts) + bytesOf(t.params) + bytesOf(t.cast) + bytesOf(t.castEdge) +
		bytesOf(t.lazies) + bytesOf(t.program.Slots) + bytesOf(t.program.Events)
}

// StorageBytes is about how much memory s keeps for its next run.
func (s *Session) StorageBytes() int64 {
	return s.player.storageBytes() + s.evaluating.storageBytes() + bytesOf(s.once) + bytesOf(s.held) + bytesOf(s.gradients) +
		bytesOf(s.trained) + bytesOf(s.updater.held) + bytesOf(s.updater.rms) + bytesOf(s.book.tally.sizes) + bytesOf(s.book.current)
}

func (y *player) storageBytes() int64 {
	return bytesOf(y.flat) + bytesOf(y.parts[0]) + bytesOf(y.parts[1]) + bytesOf(y.now) + bytesOf(y.last) + bytesOf(y.fold.local)
}

func bytesOf[T any](s []T) int64 {
	var one T
	return int64(cap(s)) * int64(unsafe.Sizeof(one))
}
