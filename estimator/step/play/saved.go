package play

import "github.com/vramplan/vramplan/estimator/step"

// Saved is where a session stood, but for its heap: between two optimizer steps or within one.
type Saved struct {
	now, last, once, held, gradients, rms, rank []int32
	started, stepped                            bool
	at                                          place
	seen                                        []uint64
}

// place is where within an optimizer step a session stands; the zero value is before it.
type place struct {
	began   bool
	updates bool // all micro-steps were played
	inside  bool // a micro-step is under way
	micro   int  // how many were played
	served  int  // how many requests of the one under way were
	first   bool // which makes the gradients
	seen    []uint64
}

// Save keeps where s stands between two optimizer steps in the storage of to.
func (s *Session) Save(to *Saved) { s.save(to, place{}) }

// SaveWithin keeps where s stands within one, where it calls Stand.
func (s *Session) SaveWithin(to *Saved) { s.save(to, s.at) }

func (s *Session) save(to *Saved, at place) {
	to.now, to.last = append(to.now[:0], s.now...), append(to.last[:0], s.last...)
	to.once, to.gradients = append(to.once[:0], s.once...), append(to.gradients[:0], s.gradients...)
	to.held = append(to.held[:0], s.held...)
	to.rms, to.started = append(to.rms[:0], s.updater.Rms...), s.started
	to.rank, to.stepped = append(to.rank[:0], s.rank.Held...), s.stepped
	to.seen = append(to.seen[:0], at.seen...)
	to.at = at
	to.at.seen = to.seen
}

// Restore brings s to where it stood when it was saved, on a heap that has been brought there, too.
func (s *Session) Restore(from *Saved) {
	copy(s.now, from.now)
	copy(s.last, from.last)
	copy(s.once, from.once)
	copy(s.held, from.held)
	s.gradients, s.updater.Rms = append(s.gradients[:0], from.gradients...), append(s.updater.Rms[:0], from.rms...)
	s.started = from.started
	s.rank.Held, s.stepped = append(s.rank.Held[:0], from.rank...), from.stepped
	s.evaluating.forget()
	s.played, s.ended = 0, NotEnded
	s.from = from.at
}

// StorageBytes is about how much memory s keeps.
func (s *Saved) StorageBytes() int64 {
	return handleBytes*(step.Room(s.now)+step.Room(s.last)+step.Room(s.once)+step.Room(s.held)+step.Room(s.gradients)+
		step.Room(s.rms)+step.Room(s.rank)) +
		8*step.Room(s.seen)
}
