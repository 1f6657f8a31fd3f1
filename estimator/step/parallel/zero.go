package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// ZeRO is DeepSpeed's stages 1 and 2: the trained parameters are views of one flat tensor a group, of which each GPU
// updates a part. Gradients come together in a bucket and are summed from there; of stage 2 only those of this GPU's
// part stay, of stage 1 all until the last micro-step. Source: deepspeed/runtime/zero/stage_1_and_2.py, DeepSpeed
// 0.19.8.
type ZeRO struct {
	step.OneGPU
	World int64
	// Whole is stage 1: gradients stay whole until they are summed in the last micro-step.
	Whole bool
	// Bucket is reduce_bucket_size, in elements.
	Bucket int64
	// Overlaps is overlap_comm, Contiguous contiguous_gradients, Scatters reduce_scatter.
	Overlaps, Contiguous, Scatters bool
	// Grouped says that matrices and vectors are groups of their own: those with weight decay and those without.
	Grouped bool
	// Accumulates says that there are several micro-steps.
	Accumulates bool
	// OffloadsOptimizer keeps masters, moments and the gradients of this GPU's part in the CPU's memory.
	OffloadsOptimizer bool
}

// Parts are the flat tensors, and what is not trained.
func (z ZeRO) Parts(whole step.Parameters, list *[]step.Parameter) step.Parameters {
	l := z.layout(whole)
	out := (*list)[:0]
	for _, p := range l.all {
		if !p.Trained() {
			out = append(out, *p)
			out[len(out)-1].Expert, out[len(out)-1].Ahead = 0, 0
		}
	}
	for k := range l.groups {
		out = append(out, step.Parameter{Numel: l.groups[k].size, Dtype: l.groups[k].dtype, Frozen: true})
	}
	*list = out
	return step.Parameters{List: out}
}

// Load moves the model, and then makes the flat tensors beside it; the masters follow, and gradients in their type are
// there for a moment.
func (z ZeRO) Load(r *step.Rank, heap alloc.Heap) {
	l := z.layout(r.Whole)
	handles := make([]int32, len(l.all))
	for i, p := range l.all {
		if p.Trained() {
			handles[i] = heap.Alloc(p.Bytes())
		} else {
			p.Tensors(func(bytes int64) { heap.Alloc(bytes) })
		}
	}
	for k := range l.groups {
		g := &l.groups[k]
		releaseCached(heap)
		bytes := g.size * g.dtype.Size()
		aside := !hasRoom(heap, bytes)
		if !aside {
			heap.Alloc(bytes)
		}
		for _, i := range g.params {
			heap.Free(handles[i])
		}
		if aside { // it was made in the CPU's memory
			releaseCached(heap)
			heap.Alloc(bytes)
		}
		part := heap.Alloc(l.part(g) * g.dtype.Size())
		if z.OffloadsOptimizer {
			heap.Free(part)
			continue
		}
		if g.dtype != step.F32 {
			wide := heap.Alloc(l.part(g) * 4)
			heap.Free(part)
			part = wide
		}
		r.Held = append(r.Held, part)
	}
	if z.OffloadsOptimizer {
		r.Held = append(r.Held, heap.Alloc(z.largest(&l)))
	} else {
		var gradients []int32
		for k := range l.groups {
			gradients = append(gradients, heap.Alloc(l.part(&l.groups[k])*4))
		}
		for _, h := range gradients {
			heap.Free(h)
		}
	}
	forgetPeaks(heap)
}

// releaseCached is torch.cuda.empty_cache().
func releaseCached(heap alloc.Heap) {
	if caching, ok := heap.(interface{ ReleaseCached() }); ok {
		caching.ReleaseCached()
	}
}

// hasRoom says whether a heap could take so many bytes.
func hasRoom(heap alloc.Heap, bytes int64) bool {
	h, limited := heap.(interface{ Room(bytes int64) bool })
	return !limited || h.Room(bytes)
}

// forgetPeaks lets the peaks of a heap begin again.
func forgetPeaks(heap alloc.Heap) {
	if h, ok := heap.(interface{ ForgetPeaks() }); ok {
		h.ForgetPeaks()
	}
}

// largest is the bytes of the buffer through which gradients go to the CPU: those of the largest parameter.
func (ZeRO) largest(l *zeroLayout) int64 {
	most := int64(0)
	for _, p := range l.all {
		if p.Trained() {
			most = max(most, p.Bytes())
		}
	}
	return most
}

// LoadPeak is while the flat tensors are made beside the model.
func (z ZeRO) LoadPeak(r *step.Rank, _ int64) int64 {
	var c alloc.Tally
	z.Load(&step.Rank{Recipe: r.Recipe, Whole: r.Whole}, &c)
	return c.Most
}

// LoadYields: where the flat tensor does not fit beside the model, it is put together in the CPU's memory.
// Source: stage_1_and_2.py (flatten_on_accelerator).
func (ZeRO) LoadYields() bool { return true }

// Irregular: buckets do not end where layers end.
func (ZeRO) Irregular() bool { return true }

// SumsLast is stage 1 with several micro-steps.
func (z ZeRO) SumsLast() bool { return z.Whole && z.Accumulates }

// Stays are the masters, or the buffer on the way to the CPU.
func (z ZeRO) Stays(r *step.Rank, f func(bytes int64, c step.Component)) {
	l := z.layout(r.Whole)
	if z.OffloadsOptimizer {
		f(z.largest(&l), step.Communication)
		return
	}
	for k := range l.groups {
		f(l.part(&l.groups[k])*4, step.OptimizerState)
	}
}

// Update computes the norm of the gradients of this GPU's part, each in float64 for a moment, and then, group by group,
// brings them to the type of the masters and updates these. Nothing of that is on the GPU where the optimizer is not.
// Source: stage_1_and_2.py (get_grad_norm_direct, step).
func (z ZeRO) Update(r *step.Rank, heap alloc.Heap, u step.Updating) bool {
	l := z.layout(r.Whole)
	if z.OffloadsOptimizer {
		u.Started()
		return true
	}
	flash := func(bytes int64) { heap.Free(heap.Alloc(bytes)) }
	for k := range l.groups {
		l.slices(&l.groups[k], func(p *step.Parameter, n int64) {
			if p != nil {
				flash(8 * n)
			}
		})
	}
	for k := range l.groups {
		g := &l.groups[k]
		parts := 0
		l.slices(g, func(*step.Parameter, int64) { parts++ })
		flat := alloc.None
		if parts > 1 {
			flat = heap.Alloc(l.part(g) * g.dtype.Size())
		}
		wide := alloc.None
		if g.dtype != step.F32 {
			wide = heap.Alloc(l.part(g) * 4)
			if flat != alloc.None {
				heap.Free(flat)
			}
		} else {
			wide = flat
		}
		if k == len(l.groups)-1 {
			numel, d := l.held()
			u.LetGo(numel * d.Size())
		}
		u.Run([]*step.Parameter{{Numel: l.part(g), Rows: l.part(g), Cols: 1, Dtype: step.F32}})
		if wide != alloc.None {
			heap.Free(wide)
		}
	}
	u.Started()
	return true
}

// Hooks are those of the optimizer's wrapper.
func (z ZeRO) Hooks(t *step.Tape) step.Hooks {
	h := &zero{NoHooks: step.NoHooks{Tape: t}, ZeRO: z, part: step.None, grads: make([]int32, len(t.Parameters)),
		cloned: make([]bool, len(t.Parameters)), ranks: make([][]rankSlice, len(t.Parameters))}
	h.place(z.layout(step.Parameters{List: t.Parameters}))
	for i := range h.grads {
		h.grads[i] = step.None
	}
	return h
}
