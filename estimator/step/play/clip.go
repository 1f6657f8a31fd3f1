package play

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// normChunk is how many elements one block of a foreach kernel covers.
// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh (kChunkSize), torch 2.9.
const normChunk = 65536

// packsNorms lays the norms of the chunks of all gradients out behind one another, with a table of where each
// gradient's begin, instead of in rows as long as the longest.
var packsNorms = release.Declare("packs-norms", release.Change{
	Library: "torch", After: "2.14", From: "2.15",
	What: "the norms of gradients in torch 2.15 are laid out behind one another, with a table of " +
		"their beginnings",
	Source: "aten/src/ATen/native/cuda/ForeachReduceOp.cu, 2.9.1 and 2.15.0", Shown: "traces of all families",
})

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
		packs := s.Recipe.Software.Has(packsNorms)
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
