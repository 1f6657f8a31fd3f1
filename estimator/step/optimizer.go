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
	// AdamW8bit is bitsandbytes': moments in one byte with a float32 scale for every block of 256.
	AdamW8bit
)

// What bitsandbytes quantises: tensors from 4,096 elements on, in blocks of 256, by tables of 256 float32 values.
// Source: bitsandbytes/optim/optimizer.py (Optimizer2State, min_8bit_size, block-wise), 0.4x.
const (
	quantisedFrom  = 4096
	quantisedBlock = 256
	quantisedTable = 256 * 4
)

// eightBit lists what AdamW8bit allocates for a parameter of n elements, in order.
func eightBit(n int64, alloc func(bytes int64)) {
	if n < quantisedFrom {
		alloc(4 * n)
		alloc(4 * n)
		return
	}
	alloc(n)
	alloc(n)
	alloc(4 * ceilDiv(n, quantisedBlock))
	alloc(4 * ceilDiv(n, quantisedBlock))
}

// states is how many tensors of a parameter's size the optimizer keeps for it.
func (o Optimizer) states() int64 {
	switch o {
	case AdamWForeach, AdamWFused, AdamWLoop:
		return 2
	case SGDMomentum:
		return 1
	}
	return 0
}

// normChunk is how many elements one block of a foreach kernel covers.
// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh (kChunkSize), torch 2.9.
const normChunk = 65536

// optimizerStep clips, updates and sets the gradients to None.
// Sources: torch/nn/utils/clip_grad.py, torch/optim/adam.py, torch/optim/sgd.py, torch/amp/grad_scaler.py, torch 2.9.
func (s *Session) optimizerStep() {
	var found int32
	if s.GradScaler {
		found = s.unscale()
	}
	if s.Clip {
		s.clip()
	}
	sum := noHandle
	if s.GradScaler && s.Optimizer == AdamWFused { // fused kernels look at found_inf themselves
		sum = s.heap.Alloc(4)
	}
	s.update()
	if sum != noHandle {
		s.heap.Free(sum)
	}
	if s.GradScaler {
		s.heap.Free(found)
	}
	for _, g := range s.gradients {
		s.heap.Free(g)
	}
	s.gradients = s.gradients[:0]
}

// unscale is GradScaler.unscale_: a few scalars, of which found_inf stays until the update.
func (s *Session) unscale() (found int32) {
	wide := s.heap.Alloc(8)
	inverse := s.heap.Alloc(8)
	s.heap.Free(wide)
	inverse32 := s.heap.Alloc(4)
	s.heap.Free(inverse)
	zero := s.heap.Alloc(4)
	found = s.heap.Alloc(4)
	s.heap.Free(s.heap.Alloc(4))
	s.heap.Free(inverse32)
	s.heap.Free(zero)
	return found
}

func (s *Session) clip() {
	count, largest, size := int64(0), int64(0), int64(4)
	s.Parameters.Each(func(p *Parameter) {
		if p.Trained() {
			count++
			largest = max(largest, p.Numel)
			size = p.Dtype.Size()
		}
	})
	partial := s.heap.Alloc(count * ceilDiv(largest, normChunk) * 4)
	s.state = s.state[:0]
	for range count {
		s.state = append(s.state, s.heap.Alloc(size))
	}
	s.heap.Free(partial)
	stacked := s.heap.Alloc(count * size)
	total := s.heap.Alloc(size)
	s.heap.Free(stacked)
	for _, h := range s.state {
		s.heap.Free(h)
	}
	sum := s.heap.Alloc(size)
	inverse := s.heap.Alloc(size)
	coefficient := s.heap.Alloc(size)
	s.heap.Free(inverse)
	s.heap.Free(sum)
	clamped := s.heap.Alloc(size)
	s.heap.Free(coefficient)
	s.heap.Free(clamped)
	s.heap.Free(total)
}

func (s *Session) update() {
	firstStep := !s.started
	s.started = true
	each := func(f func(bytes int64)) {
		s.Parameters.Each(func(p *Parameter) {
			if p.Trained() {
				f(p.Numel * p.Dtype.Size())
			}
		})
	}
	if firstStep && s.Optimizer == AdamW8bit {
		tables := false
		s.Parameters.Each(func(p *Parameter) {
			if !p.Trained() {
				return
			}
			eightBit(p.Numel, func(bytes int64) { s.heap.Alloc(bytes) })
			if p.Numel >= quantisedFrom && !tables { // one for each sign, shared by all
				tables = true
				s.heap.Alloc(quantisedTable)
				s.heap.Alloc(quantisedTable)
			}
		})
	} else if firstStep {
		each(func(bytes int64) {
			switch s.Optimizer {
			case AdamWFused:
				s.heap.Alloc(4) // the step counter lives on the GPU
				s.heap.Alloc(bytes)
				s.heap.Alloc(bytes)
			case AdamWForeach, AdamWLoop:
				s.heap.Alloc(bytes)
				s.heap.Alloc(bytes)
			case SGDMomentum:
				s.heap.Alloc(bytes)
			}
		})
	}
	switch s.Optimizer {
	case AdamWForeach: // the square roots of all second moments at once
		s.state = s.state[:0]
		each(func(bytes int64) { s.state = append(s.state, s.heap.Alloc(bytes)) })
		for _, h := range s.state {
			s.heap.Free(h)
		}
	case AdamWLoop: // one parameter after the other; the variable denom keeps the last one
		denom := noHandle
		each(func(bytes int64) {
			root := s.heap.Alloc(bytes)
			scaled := s.heap.Alloc(bytes)
			s.heap.Free(root)
			if denom != noHandle {
				s.heap.Free(denom)
			}
			denom = scaled
		})
		if denom != noHandle {
			s.heap.Free(denom)
		}
	}
}
