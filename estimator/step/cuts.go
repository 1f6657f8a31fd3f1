package step

// Cuts are what hooks do besides where a strategy cuts the modules themselves: between a block and the residual stream,
// at the input embedding and in the loss.
type Cuts interface {
	// Enter is all that a block of cut modules needs of x, of which this GPU has a part. The caller lets go of it.
	Enter(x T) T
	// EnterLocal is the same for a module that computes with what this GPU has as with any tensor.
	EnterLocal(x T) T
	// Leave is this GPU's part of the sum of what the GPUs made, y here, which it takes over.
	Leave(y T) T
	// EmbedRows is the embedding of ids where this GPU has some of the rows of w.
	EmbedRows(ids T, w Weight) T
	// Logits takes over this GPU's part of the logits and returns what the loss is computed of.
	Logits(x T) T
	// CutLoss is the loss over the vocabulary.
	CutLoss(logits, targets T) T
}

// Cuts are those of the recipe's strategy, or none.
func (t *Tape) Cuts() Cuts {
	if c, ok := hooksAs[Cuts](t.hooks); ok {
		return c
	}
	return uncut{t}
}

// uncut leaves every module whole.
type uncut struct{ t *Tape }

func (u uncut) Enter(x T) T                 { return u.t.Hold(x) }
func (u uncut) EnterLocal(x T) T            { return u.t.Hold(x) }
func (u uncut) Leave(y T) T                 { return y }
func (u uncut) EmbedRows(ids T, w Weight) T { return u.t.Embedding(ids, w, LabelEmbedding) }
func (u uncut) Logits(x T) T                { return x }
func (u uncut) CutLoss(logits, targets T) T { return u.t.CrossEntropy(logits, targets) }
