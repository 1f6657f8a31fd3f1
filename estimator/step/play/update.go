package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// construct is the optimizer's constructor, which may make its states, or what load_state_dict brings of them from a
// checkpoint: in the order of the groups, as a first update makes them.
// Source: torch/optim/optimizer.py (Optimizer.load_state_dict), torch 2.9 and 2.15.
func (s *Session) construct(heap alloc.Heap) {
	if s.Resumes {
		s.readied(heap).Restore(s.Optimizer, s.updated())
		s.started = true
		return
	}
	if !s.Optimizer.Eager {
		return
	}
	u := s.readied(heap)
	u.States(s.Optimizer, s.updated())
}

// readied is the updater at work on heap.
func (s *Session) readied(heap alloc.Heap) *optim.Updater {
	u := &s.updater
	s.minding.Heap, s.minding.watch = heap, &s.Watch
	u.Heap, u.Recipe, u.First, u.Rank = &s.minding, &s.Recipe, !s.started, s.Rank
	return u
}

// minding is the heap of an update, of which a mixture's takes hundreds of thousands of blocks: it looks as a script
// does that is played.
type minding struct {
	alloc.Heap
	watch *Watch
}

func (m *minding) Alloc(bytes int64) int32 {
	m.watch.mind(1)
	return m.Heap.Alloc(bytes)
}

// optimizerStep clips and updates.
// Sources: torch/optim/adam.py, torch/optim/sgd.py, torch/amp/grad_scaler.py, torch 2.9.
func (s *Session) optimizerStep(heap alloc.Heap) {
	if s.Recipe.UpdatesInBackward {
		return
	}
	found := s.prepare(heap)
	s.update(heap)
	if found != alloc.None {
		heap.Free(found)
	}
}

// updating is what a strategy's own optimizer step needs of s.
func (s *Session) updating(letGo func(int64)) step.Updating {
	return step.Updating{LetGo: letGo,
		Run: func(ps []*step.Parameter) {
			u := s.readied(s.heap)
			u.Run(s.Optimizer, ps)
		},
		Started: func() { s.started = true }}
}

// prepare unscales the gradients, which leaves found_inf, and clips their norm.
func (s *Session) prepare(heap alloc.Heap) (found int32) {
	found = alloc.None
	if s.Recipe.GradScaler {
		found = unscale(heap)
	}
	if s.Clip {
		s.clip(heap)
	}
	return found
}

// unscale is GradScaler.unscale_: a few scalars, of which found_inf stays until the update.
func unscale(heap alloc.Heap) (found int32) {
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

// align copies what the optimizer reads instead of a gradient: one kernel for everything once, and operations each for
// itself, of which one takes the gradient twice; what they need besides is made behind them.
// Source: torch/distributed/tensor/_dispatch.py (redistribute_local_args), torch/optim/adam.py (_multi_tensor_adam),
// torch 2.15.
func (s *Session) align(a step.Aligning, heap alloc.Heap) []int32 {
	copies := a.Align(s.asRank(), heap)
	if s.Optimizer.Fused {
		return copies
	}
	for _, h := range append(copies, a.Align(s.asRank(), heap)...) {
		heap.Free(h)
	}
	return nil
}

// update runs the optimizer on all parameters that are trained.
func (s *Session) update(heap alloc.Heap) {
	u := s.readied(heap)
	s.started = true
	wide := s.masterGradients(heap)
	sum := alloc.None
	if s.Recipe.GradScaler && s.Optimizer.Fused { // fused kernels look at found_inf themselves
		sum = heap.Alloc(4)
	}
	if a, ok := s.strategy.(step.Aligning); ok {
		u.Made = func() { wide = append(wide, s.align(a, heap)...) }
	}
	u.Run(s.Optimizer, s.updated())
	u.Made = nil
	for _, h := range wide {
		heap.Free(h)
	}
	if sum != alloc.None {
		heap.Free(sum)
	}
}
