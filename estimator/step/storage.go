package step

// About how many bytes one entry of each of these lists takes.
const requestBytes, handleBytes = 24, 4

// StorageBytes is about how much memory s keeps for its next run.
func (s *Session) StorageBytes() int64 {
	return s.player.storageBytes() + s.evaluating.storageBytes() +
		handleBytes*(room(s.once)+room(s.held)+room(s.gradients)+room(s.updater.held)+room(s.updater.rms)) +
		8*(room(s.trained)+room(s.book.tally.sizes)) + 3*room(s.book.current)
}

func (y *player) storageBytes() int64 {
	return requestBytes*(room(y.flat)+room(y.parts[0])+room(y.parts[1])) + handleBytes*(room(y.now)+room(y.last)+room(y.fold.local))
}
