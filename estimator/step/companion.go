package step

// Companion is a model that stands beside the trained one, whose parameters lie behind that one's and are stored in a
// type of their own.
type Companion struct {
	Network
	Stored DType
	// First is the number of the first of its parameters.
	First      int32
	Parameters []Parameter
}

// Beside puts the parameters of a companion behind those of the trained model: passes read them, and nobody trains
// them.
func (t *Tape) Beside(parameters []Parameter) {
	for i := range parameters {
		p := &parameters[i]
		t.params = append(t.params, paramState{numel: p.Numel, dtype: p.Dtype, frozen: true, grad: None})
		t.cast = append(t.cast, None)
		t.castEdge = append(t.castEdge, noEdge)
	}
}

// HoldUntilUpdate takes over an output that the loop refers to until the optimizer has stepped; with accumulation until
// the end of this backward, since the next micro-step has an output of its own.
func (t *Tape) HoldUntilUpdate(o Output) {
	all := append([]T{o.Logits}, o.rest...)
	if t.Recipe.Accumulation > 1 {
		t.graphHolds = append(t.graphHolds, all...)
		return
	}
	t.untilUpdate = append(t.untilUpdate, all...)
}

// keepUntilUpdate ends the micro-step with what is held so, which goes as the gradients do.
func (t *Tape) keepUntilUpdate() {
	for _, x := range t.untilUpdate {
		if x.storage == None {
			continue
		}
		if st := &t.storages[x.storage]; st.refs == 1 && st.slot != None {
			st.refs = 0
			t.Event(x.storage, Keep)
			continue
		}
		t.Drop(x)
	}
	t.untilUpdate = nil
}

// Lasts keeps so many bytes from the first micro-step on, as a variable that is only ever reassigned.
func (t *Tape) Lasts(bytes int64, c Component, l Label) { t.slot(AllocOnce, bytes, c, l) }

// smallBytes and largeBytes are requests that the two parts of the allocator serve.
const smallBytes, largeBytes = 512, 4 << 20

// ReleaseCached is torch.cuda.empty_cache(), in both parts of the allocator.
func (t *Tape) ReleaseCached() {
	t.slot(ReleaseCached, smallBytes, Temporaries, LabelNone)
	t.slot(ReleaseCached, largeBytes, Temporaries, LabelNone)
}
