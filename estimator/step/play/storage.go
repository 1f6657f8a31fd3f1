package play

import "github.com/vramplan/vramplan/estimator/step"

// About how many bytes one entry of each of these lists takes.
const requestBytes, handleBytes = 24, 4

// StorageBytes is about how much memory s keeps for its next run.
func (s *Session) StorageBytes() int64 {
	return s.player.storageBytes() + s.evaluating.storageBytes() + s.marks.storageBytes() +
		handleBytes*(step.Room(s.once)+step.Room(s.held)+step.Room(s.gradients)+step.Room(s.updater.Held)+
			step.Room(s.updater.Rms)) +
		8*(step.Room(s.trained)+step.Room(s.book.tally.Sizes)) + 3*step.Room(s.book.current)
}

func (y *player) storageBytes() int64 {
	return requestBytes*(step.Room(y.flat)+step.Room(y.parts[0])+step.Room(y.parts[1])) +
		handleBytes*(step.Room(y.now)+step.Room(y.last)+step.Room(y.fold.local))
}
