package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// normChunk is how many elements one block of a foreach kernel covers.
// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh (kChunkSize), torch 2.9.
const normChunk = 65536

// clip is clip_grad_norm_: a norm for each gradient, with the norms of their chunks type by type, and the norm of
// those, in the widest type that there is.
// Source: torch/nn/utils/clip_grad.py (_get_total_norm, _clip_grads_with_norm_), torch 2.9.
func (s *Session) clip(heap alloc.Heap) {
	if len(s.trainable()) == 0 {
		return
	}
	s.updater.Held = s.updater.Held[:0]
	size, elements := int64(0), func(p *step.Parameter) int64 { return p.Numel }
	if a, ok := s.strategy.(step.Aligning); ok {
		elements = a.Elements
	}
	optim.ByType(s.trainable(), func(d step.DType) {
		count, largest, chunks := int64(0), int64(0), int64(0)
		for _, p := range s.trainable() {
			if p.Dtype == d {
				count++
				largest = max(largest, elements(p))
				chunks += step.CeilDiv(elements(p), normChunk)
			}
		}
		packs := s.Recipe.Software.PacksNorms
		begins, partials := int32(0), count*step.CeilDiv(largest, normChunk)
		if packs {
			begins, partials = heap.Alloc((count+1)*8), chunks
		}
		partial := heap.Alloc(partials * 4)
		for range count {
			s.updater.Held = append(s.updater.Held, heap.Alloc(d.Size()))
		}
		heap.Free(partial)
		if packs {
			heap.Free(begins)
		}
		size = max(size, d.Size())
	})
	stacked := heap.Alloc(int64(len(s.trainable())) * size)
	total := heap.Alloc(size)
	heap.Free(stacked)
	for _, h := range s.updater.Held {
		heap.Free(h)
	}
	s.strategy.Clip(heap, total, size)
}
