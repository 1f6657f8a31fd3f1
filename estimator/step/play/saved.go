package play

// Saved is where a session stood between two optimizer steps, but for its heap.
type Saved struct {
	now, last, once, gradients, rms, rank []int32
	started, stepped                      bool
}

// Save keeps where s stands in the storage of to.
func (s *Session) Save(to *Saved) {
	to.now, to.last = append(to.now[:0], s.now...), append(to.last[:0], s.last...)
	to.once, to.gradients = append(to.once[:0], s.once...), append(to.gradients[:0], s.gradients...)
	to.rms, to.started = append(to.rms[:0], s.updater.Rms...), s.started
	to.rank, to.stepped = append(to.rank[:0], s.rank.Held...), s.stepped
}

// Restore brings s to where it stood when it was saved, on a heap that has been brought there, too.
func (s *Session) Restore(from *Saved) {
	copy(s.now, from.now)
	copy(s.last, from.last)
	copy(s.once, from.once)
	s.gradients, s.updater.Rms = append(s.gradients[:0], from.gradients...), append(s.updater.Rms[:0], from.rms...)
	s.started = from.started
	s.rank.Held, s.stepped = append(s.rank.Held[:0], from.rank...), from.stepped
	s.evaluating.forget()
	s.played, s.ended = 0, NotEnded
}
