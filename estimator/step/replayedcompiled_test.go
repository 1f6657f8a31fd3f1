package step

import "testing"

// TestApartOfWhatIsComputed: two tensors are apart that are computed from different ones that exist, and each one is
// looked at once, however many ways lead to it.
func TestApartOfWhatIsComputed(t *testing.T) {
	fusedFrom := func(tape *Tape, ins ...T) T {
		list := make([]FusedInput, len(ins))
		for i, x := range ins {
			list[i] = FusedInput{T: x}
		}
		return tape.FuseReplayed(8, F32, LabelElementwise, list, nil)
	}
	made := func(tape *Tape) T { return tape.Made(8, F32, LabelElementwise, false) }
	for _, c := range []struct {
		name string
		pair func(tape *Tape) (a, b T)
		want bool
	}{
		{"of one tensor each", func(tape *Tape) (a, b T) {
			return fusedFrom(tape, made(tape)), fusedFrom(tape, made(tape))
		}, true},
		{"of the same tensor", func(tape *Tape) (a, b T) {
			x := made(tape)
			return fusedFrom(tape, x), fusedFrom(tape, made(tape), x)
		}, false},
		{"of no tensor", func(tape *Tape) (a, b T) {
			a, b = tape.Unmade(8, F32, LabelElementwise), tape.Unmade(8, F32, LabelElementwise)
			for range 200 { // each is computed from the two before, in as many ways as Fibonacci's numbers
				a, b = b, fusedFrom(tape, a, b)
			}
			return a, b
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tape Tape
			tape.Reset(Recipe{Compilation: Compilation{Compile: true}}, Shape{Batch: 1, Tokens: 8}, Parameters{})
			a, b := c.pair(&tape)
			if got := tape.Apart(a, b); got != c.want {
				t.Errorf("apart: %v, want %v", got, c.want)
			}
		})
	}
}
