package resolve

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
)

// context fills in the lengths of the sequences and holds them against learned positions.
func (r resolver) context(t *job.Training, errs *invalid.List) {
	a := &r.Arch
	given := t.SequenceLength
	if given == 0 {
		given = a.MaxPositions
	}
	r.Shape.Tokens = given
	if a.FixedTokens > 0 { // the inputs decide it, and what is given is the length of the decoder's sequences
		r.Shape.Tokens = a.FixedTokens
	}
	if a.TargetTokens() {
		if r.Shape.Target = t.TargetSequenceLength; r.Shape.Target == 0 {
			r.Shape.Target = given
		}
		given = r.Shape.Target
	}
	if a.LearnedPositions && a.MaxPositions > 0 && given > a.MaxPositions {
		errs.Add("/training/sequence_length", "conflict",
			"sequence_length is %d and the model has %d learned positions", given, a.MaxPositions)
	}
}
