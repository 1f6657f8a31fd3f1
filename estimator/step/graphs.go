package step

// autograd is whose graph backward runs: the one that operations left behind one by one (recorded), or the one that
// AOTAutograd made of a compiled model (traced).
type autograd interface {
	// reentrant says whether a checkpointed layer is one node, as the recipe may want it.
	reentrant(t *Tape) bool
	// nonReentrant runs a checkpointed layer that is not.
	nonReentrant(t *Tape, x T, forward Layer, besides Besides) T
	// sumsInPlace says whether gradients that meet are always added where the first lies.
	sumsInPlace() bool
	// backward runs all nodes, and returns what lives as long as its caller.
	backward(t *Tape, outputs []T) (tangents []int32)
	// What closures of checkpointed layers hold may go when backward has run, or with the graph, whose loss is gone;
	// the loss that a loop holds takes the former graph with it when it is assigned anew.
	ran(t *Tape)
	gone(t *Tape)
	formerGone(t *Tape)
}

// recorded is autograd's own graph.
type recorded struct{}

func (recorded) reentrant(t *Tape) bool { return t.Recipe.Reentrant }

func (recorded) nonReentrant(t *Tape, x T, forward Layer, besides Besides) T {
	y := t.nonReentrant(x, forward)
	t.capture(x, besides)
	return y
}

// sumsInPlace: where nobody else refers to it alone.
func (recorded) sumsInPlace() bool { return false }

func (recorded) backward(t *Tape, _ []T) (tangents []int32) {
	t.backwardRange(0, int32(len(t.nodes)))
	return nil
}

func (recorded) ran(*Tape) {}

func (recorded) gone(t *Tape) { t.Drop(t.graphHolds...) }

func (recorded) formerGone(t *Tape) {
	for _, x := range t.graphHolds {
		t.freePrevious(x)
	}
}

// autograd is how the recipe runs backward.
func (r *Recipe) autograd() autograd {
	if r.Compile {
		return traced{}
	}
	return recorded{}
}

// traced is the graph that AOTAutograd makes of a compiled model.
type traced struct{}

// reentrant: torch.compile traces through a checkpoint, whichever of the two it is.
func (traced) reentrant(*Tape) bool { return false }

// nonReentrant: what layers share is an input of the graph's backward.
func (traced) nonReentrant(t *Tape, x T, forward Layer, besides Besides) T {
	t.HoldThroughBackward(besides.Arguments...)
	t.HoldThroughBackward(besides.Captured...)
	return t.nonReentrant(x, forward)
}

func (traced) sumsInPlace() bool { return true }

// backward runs that of a loss which is compiled apart before the model's.
func (traced) backward(t *Tape, outputs []T) (tangents []int32) {
	top := int32(len(t.nodes))
	if t.lossApart {
		t.backwardRange(t.broken, top)
		top = t.broken
	}
	tangents = t.tangents(outputs)
	t.backwardRange(0, top)
	return tangents
}

// tangents are the zeros that a compiled graph's backward gets for outputs that the loss does not depend on through
// the caller: the logits, unless the loss is computed apart, and a key/value cache. They live as long as that graph's
// backward.
// Source: torch/_functorch/_aot_autograd/runtime_wrappers.py (materialised tangents), torch 2.9.
func (t *Tape) tangents(outputs []T) []int32 {
	var zeros []int32
	for i, x := range outputs {
		if i == 0 && !t.lossApart {
			zeros = append(zeros, t.Alloc(x.bytes(), LogitsAndLoss, LabelTangent))
		} else if i > 0 && x.numel > 1 {
			zeros = append(zeros, t.Alloc(x.bytes(), Temporaries, LabelTangent))
		}
	}
	return zeros
}

// ran: a compiled graph lets go of what it saved when its backward has run.
func (traced) ran(t *Tape) { t.Drop(t.graphHolds...) }

func (traced) gone(*Tape) {}

func (traced) formerGone(*Tape) {}
