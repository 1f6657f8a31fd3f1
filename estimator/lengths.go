package estimator

import "github.com/vramplan/vramplan/estimator/invalid"

// context fills in the lengths of the sequences and holds them against learned positions.
func (r *work) context(t *Training, errs *invalid.List) {
	a := &r.arch
	given := t.SequenceLength
	if given == 0 {
		given = a.MaxPositions
	}
	r.shape.Tokens = given
	if a.FixedTokens > 0 { // the inputs decide it, and what is given is the length of the decoder's sequences
		r.shape.Tokens = a.FixedTokens
	}
	if a.TargetTokens() {
		if r.shape.Target = t.TargetSequenceLength; r.shape.Target == 0 {
			r.shape.Target = given
		}
		given = r.shape.Target
	}
	if a.LearnedPositions && a.MaxPositions > 0 && given > a.MaxPositions {
		errs.Add("/training/sequence_length", "conflict",
			"sequence_length is %d and the model has %d learned positions", given, a.MaxPositions)
	}
}
