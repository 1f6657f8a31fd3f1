package replay

// Turn is a share of the processors: whoever answers many at once lends it to an estimate.
type Turn interface {
	// Pace is called about every two milliseconds of the work, from one goroutine at a time, and may wait.
	Pace()
	// Rest gives the turn up while the estimate waits for another one, and Resume waits until there is one again.
	Rest()
	Resume()
	// End is called once, when the answer is there.
	End()
}

// OwnTurn is that of an estimate which nobody paces.
type OwnTurn struct{}

// Pace waits for nobody.
func (OwnTurn) Pace() {}

// Rest gives nothing up.
func (OwnTurn) Rest() {}

// Resume waits for nobody.
func (OwnTurn) Resume() {}

// End ends nothing.
func (OwnTurn) End() {}
