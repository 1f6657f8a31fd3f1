package step

// Gone is what a recording panics with where its Look says that nobody waits for it. The tape serves no other recording
// then.
type Gone struct{}

// look is called wherever a layer begins, in forward and in backward.
func (t *Tape) look() {
	if t.Look != nil && !t.Look() {
		panic(Gone{})
	}
}
