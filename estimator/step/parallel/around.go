package parallel

import "github.com/vramplan/vramplan/estimator/step"

// around are hooks that add to those of another strategy, which stay what they are besides.
type around struct {
	step.Hooks
	tape *step.Tape
}

// Within are the others.
func (a around) Within() step.Hooks { return a.Hooks }
