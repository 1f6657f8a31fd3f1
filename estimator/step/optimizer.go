package step

// Optimizer is which optimizer updates the parameters, and how it is implemented.
type Optimizer uint8

// The optimizers.
const (
	AdamWForeach Optimizer = iota // PyTorch's default on a GPU
	AdamWFused
	AdamWLoop
	SGD
	SGDMomentum
	SGDFused
	SGDMomentumFused
	// AdamW8bit is bitsandbytes': moments in one byte with a float32 scale for every block of 256. AdamW32bit keeps them in
	// float32 whatever the parameters are in; a paged one keeps those of large tensors in managed memory.
	AdamW8bit
	AdamW32bit
	PagedAdamW8bit
	PagedAdamW32bit
	// AdamW8bitAO and AdamW4bitAO are torchao's.
	AdamW8bitAO
	AdamW4bitAO
	// Lion is lion-pytorch's, Lion32bit and Lion8bit are bitsandbytes'.
	Lion
	Lion32bit
	Lion8bit
	// Muon updates the matrices of the layers, and AdamW the rest.
	Muon
	// GaLoreAdamW projects the gradients of the layers' matrices.
	GaLoreAdamW
	// AdafactorHF is transformers' Adafactor without first moment, AdafactorTorch torch.optim's.
	AdafactorHF
	AdafactorTorch
)

// fused says that one kernel updates all parameters.
func (o Optimizer) fused() bool { return o == AdamWFused || o == SGDFused || o == SGDMomentumFused }

// optimizerStep clips and updates.
// Sources: torch/optim/adam.py, torch/optim/sgd.py, torch/amp/grad_scaler.py, torch 2.9.
func (s *Session) optimizerStep(heap Heap) {
	if s.Recipe.UpdatesInBackward {
		return
	}
	found := s.prepare(heap)
	s.update(heap)
	if found != noHandle {
		heap.Free(found)
	}
}

// prepare unscales the gradients, which leaves found_inf, and clips their norm.
func (s *Session) prepare(heap Heap) (found int32) {
	found = noHandle
	if s.Recipe.GradScaler {
		found = unscale(heap)
	}
	if s.Clip {
		s.clip(heap)
	}
	return found
}

// unscale is GradScaler.unscale_: a few scalars, of which found_inf stays until the update.
func unscale(heap Heap) (found int32) {
	wide := heap.Alloc(8)
	inverse := heap.Alloc(8)
	heap.Free(wide)
	inverse32 := heap.Alloc(4)
	heap.Free(inverse)
	zero := heap.Alloc(4)
	found = heap.Alloc(4)
	heap.Free(heap.Alloc(4))
	heap.Free(inverse32)
	heap.Free(zero)
	return found
}

// update runs the optimizer on all parameters that are trained.
func (s *Session) update(heap Heap) {
	u := &s.updater
	u.heap, u.recipe, u.first, u.rank = heap, &s.Recipe, !s.started, s.Rank
	s.started = true
	wide := s.masterGradients(heap)
	sum := noHandle
	if s.Recipe.GradScaler && s.Optimizer.fused() { // fused kernels look at found_inf themselves
		sum = heap.Alloc(4)
	}
	u.run(s.Optimizer, s.updated())
	for _, h := range wide {
		heap.Free(h)
	}
	if sum != noHandle {
		heap.Free(sum)
	}
}

// updater is an optimizer at work on a heap.
type updater struct {
	heap   Heap
	recipe *Recipe
	// first says that the state does not exist yet.
	first bool
	held  []int32 // temporaries
	rms   []int32 // by parameter: what Adafactor keeps of the last step
	// rank is GaLore's.
	rank int64
	// inner and outer are the parameters that Muon and GaLore treat in their own way, and the others.
	inner, outer []*Parameter
}

// keep allocates state, which stays.
func (u *updater) keep(bytes int64) {
	if h, ok := u.heap.(recordingHeap); ok {
		h.keep(bytes)
		return
	}
	if u.first {
		u.heap.Alloc(bytes)
	}
}

// flash allocates and frees bytes at once.
func (u *updater) flash(bytes int64) { u.heap.Free(u.heap.Alloc(bytes)) }

// reassign puts the handle h into a variable, whose former tensor goes.
func (u *updater) reassign(variable *int32, h int32) {
	if *variable != noHandle {
		u.heap.Free(*variable)
	}
	*variable = h
}

// del ends a variable.
func (u *updater) del(variable *int32) { u.reassign(variable, noHandle) }

// reduce allocates what a reduction returns, and for a moment what it computes with.
func (u *updater) reduce(bytes int64, over layout, rows, cols int64) int32 {
	h := u.heap.Alloc(bytes)
	if scratch, semaphores := u.recipe.reduction(over, rows, cols); scratch > 0 {
		a, b := u.heap.Alloc(scratch), u.heap.Alloc(semaphores)
		u.heap.Free(b)
		u.heap.Free(a)
	}
	return h
}

// run updates the parameters ps, which are trained.
func (u *updater) run(o Optimizer, ps []*Parameter) {
	switch o {
	case AdamWForeach, AdamWFused, AdamWLoop:
		u.adamW(o, ps)
	case SGDMomentum, SGDMomentumFused:
		for _, p := range ps {
			u.keep(u.moment(p))
		}
	case AdamW8bit, AdamW32bit, PagedAdamW8bit, PagedAdamW32bit, Lion32bit, Lion8bit:
		u.bitsAndBytes(o, ps)
	case AdamW8bitAO, AdamW4bitAO:
		u.torchAO(o, ps)
	case Lion:
		u.lion(ps)
	case Muon:
		u.muon(ps)
	case GaLoreAdamW:
		u.galore(ps)
	case AdafactorHF:
		u.adafactorHF(ps)
	case AdafactorTorch:
		u.adafactorTorch(ps)
	}
}
