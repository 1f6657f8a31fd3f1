package replay

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// A strategy that rehearses acts in a micro-step by what it saw in the one before. So many optimizer steps are recorded
// at most, and so many micro-steps of each, until it sees nothing new: the longest way that was found takes three
// forwards, one of which is noted by the hooks only to be found unlike what follows it.
const (
	rehearsedSteps  = 4
	rehearsedMicros = 3
)

// Rehearsed is the last recording of a micro-step, and of what comes between two optimizer steps: record and between
// make one from what the hooks remember of the recording before.
func Rehearsed(w *Workspace, rc step.Recipe, record func(step.Rehearsed) *step.Program,
	between func(step.Rehearsed) *play.Evaluation) (*step.Program, *play.Evaluation) {
	if !rc.Spread().Rehearses() {
		return record(nil), between(nil)
	}
	_, prepares := rc.Objective.(step.Prepares)
	var remembered step.Rehearsed
	for range rehearsedSteps {
		former := remembered
		if prepares {
			between(remembered)
			remembered = w.Evaluated.Rehearsed
		}
		for range min(rc.Accumulation, rehearsedMicros) {
			record(remembered)
			remembered = w.Tape.Rehearsed
		}
		if former != nil && remembered.Equal(former) {
			break
		}
	}
	if !prepares { // a pass of its own sees what training was seen to do
		program := record(remembered)
		return program, between(remembered)
	}
	evaluation := between(remembered)
	if rc.Accumulation > 1 {
		return record(remembered), evaluation
	}
	return record(w.Evaluated.Rehearsed), evaluation
}
