package step

// normChunk is how many elements one block of a foreach kernel covers.
// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh (kChunkSize), torch 2.9.
const normChunk = 65536

// clip is clip_grad_norm_: a norm for each gradient, with the norms of their chunks type by type, and the norm of those, in
// the widest type that there is.
// Source: torch/nn/utils/clip_grad.py (_get_total_norm, _clip_grads_with_norm_), torch 2.9.
func (s *Session) clip(heap Heap) {
	if len(s.trainable()) == 0 {
		return
	}
	s.updater.held = s.updater.held[:0]
	size := int64(0)
	byType(s.trainable(), func(d DType) {
		count, largest := int64(0), int64(0)
		for _, p := range s.trainable() {
			if p.Dtype == d {
				count++
				largest = max(largest, p.Numel)
			}
		}
		partial := heap.Alloc(count * ceilDiv(largest, normChunk) * 4)
		for range count {
			s.updater.held = append(s.updater.held, heap.Alloc(d.Size()))
		}
		heap.Free(partial)
		size = max(size, d.Size())
	})
	stacked := heap.Alloc(int64(len(s.trainable())) * size)
	total := heap.Alloc(size)
	heap.Free(stacked)
	for _, h := range s.updater.held {
		heap.Free(h)
	}
	if s.Recipe.Sharding.on() && !s.Recipe.Sharding.Flat {
		clipParts(heap, total, size)
		return
	}
	sum := heap.Alloc(size)
	inverse := heap.Alloc(size)
	coefficient := heap.Alloc(size)
	heap.Free(inverse)
	heap.Free(sum)
	clamped := heap.Alloc(size)
	heap.Free(coefficient)
	heap.Free(clamped)
	heap.Free(total)
}

// clipParts is what follows where the norm is that of parts: the sum over the GPUs is a tensor of its own, and so is what is
// computed from it. Read off a trace; the arithmetic is that of DTensor.
// Source: torch/nn/utils/clip_grad.py (_clip_grads_with_norm_), torch/distributed/tensor/_redistribute.py, 2.9.
func clipParts(heap Heap, total int32, size int64) {
	summed := heap.Alloc(size)
	root := heap.Alloc(size)
	wide := heap.Alloc(size)
	sum := heap.Alloc(size)
	heap.Free(root)
	heap.Free(wide)
	inverse := heap.Alloc(size)
	heap.Free(sum)
	coefficient := heap.Alloc(size)
	heap.Free(inverse)
	heap.Free(summed)
	clamped := heap.Alloc(size)
	heap.Free(coefficient)
	heap.Free(clamped)
	heap.Free(total)
}
