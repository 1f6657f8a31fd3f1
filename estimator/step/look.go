package step

// Gone is what a recording panics with where its Look says that nobody waits for it. The tape serves no other recording
// then.
type Gone struct{}

// slotsBetweenLooks is how many allocations are recorded at most between two looks: about a millisecond's.
const slotsBetweenLooks = 1 << 12

// look is called wherever a layer begins, in forward and in backward, and within layers of many experts.
func (t *Tape) look() {
	if t.Look != nil && !t.Look() {
		panic(Gone{})
	}
}
