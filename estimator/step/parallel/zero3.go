package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// ZeRO3 is DeepSpeed's stage 3: every GPU holds a part of each parameter, which is put together when a module needs it,
// and let go of unless it is needed again soon. Gradients go through one bucket into one buffer of this GPU's parts.
// Sources: deepspeed/runtime/zero/stage3.py, partition_parameters.py, partitioned_param_coordinator.py, DeepSpeed
// 0.19.8.
type ZeRO3 struct {
	step.OneGPU
	World int64
	// Bucket is reduce_bucket_size, Prefetch stage3_prefetch_bucket_size, Persistence
	// stage3_param_persistence_threshold, Live stage3_max_live_parameters, Reuse stage3_max_reuse_distance, Group
	// sub_group_size, all in elements.
	Bucket, Prefetch, Persistence, Live, Reuse, Group int64
	// BesidePrefetch and BesidePersistence are those of the engine of a model that stands beside the trained one.
	BesidePrefetch, BesidePersistence int64
	// Overlaps and Contiguous are as in ZeRO.
	Overlaps, Contiguous bool
	// Sums is the type in which gradients are summed and kept, that of the engine's precision whatever the parameters
	// have. Source: runtime/engine.py (communication_data_type, get_data_types).
	Sums step.DType
	// Grouped is as in ZeRO.
	Grouped bool
	// Keeps is a linear layer that saves its gathered weight for backward, PyTorch's own.
	Keeps bool
	// Accumulates is as in ZeRO.
	Accumulates bool
	// OffloadsOptimizer and OffloadsParameters keep these in the CPU's memory.
	OffloadsOptimizer, OffloadsParameters bool
}

// part is how many elements of p a GPU holds.
func (z ZeRO3) part(p *step.Parameter) int64 { return step.CeilDiv(p.Numel, z.World) }

// persists says that p is whole on every GPU for good.
func (z ZeRO3) persists(p *step.Parameter) bool { return p.Numel < z.Persistence }

// subGroups are the elements of this GPU's parts in each group that is updated at once, with what each is made of.
func (z ZeRO3) subGroups(whole step.Parameters) (groups [][]int64, d step.DType) {
	all := whole.InOrder(nil)
	for kind := range 2 {
		var parts []int64
		size := int64(0)
		for _, p := range all {
			if !p.Trained() || (z.Grouped && !p.Matrix()) != (kind == 1) {
				continue
			}
			d = p.Dtype
			parts = append(parts, z.part(p))
			if size += z.part(p); size >= z.Group {
				groups, parts, size = append(groups, parts), nil, 0
			}
		}
		if len(parts) > 0 {
			groups = append(groups, parts)
		}
	}
	return groups, d
}

func sum(parts []int64) (total int64) {
	for _, n := range parts {
		total += n
	}
	return total
}

// Parts are a flat tensor of what is trained, and the parts of what is not.
func (z ZeRO3) Parts(whole step.Parameters, list *[]step.Parameter) step.Parameters {
	out := (*list)[:0]
	for _, p := range whole.InOrder(nil) {
		if p.Trained() || z.OffloadsParameters && !p.Buffer {
			continue
		}
		q := *p
		q.Expert, q.Ahead = 0, 0
		if !p.Buffer {
			q.Numel = z.part(p)
		}
		out = append(out, q)
	}
	groups, d := z.subGroups(whole)
	for _, parts := range groups {
		if !z.OffloadsParameters {
			out = append(out, step.Parameter{Numel: sum(parts), Dtype: d, Frozen: true})
		}
	}
	*list = out
	return step.Parameters{List: out}
}

// lasting calls f with everything else that lasts: parameters that are whole for good, masters, the bucket and the
// buffer of gradients.
func (z ZeRO3) lasting(whole step.Parameters, f func(bytes int64, c step.Component)) {
	groups, _ := z.subGroups(whole)
	if !z.OffloadsOptimizer {
		all := int64(0)
		for _, parts := range groups {
			f(4*sum(parts), step.OptimizerState)
			all += sum(parts)
		}
		f(z.Bucket*z.Sums.Size(), step.Communication)
		f(all*z.Sums.Size(), step.Gradients)
	} else {
		f(z.Bucket*z.Sums.Size(), step.Communication)
	}
	for _, p := range whole.InOrder(nil) {
		if !p.Buffer && z.persists(p) {
			f(z.part(p)*z.World*p.Dtype.Size(), step.Weights)
		}
	}
}

// BesideModel are the parts of a model that stands beside, and what is never dealt out of it whole.
// Source: trl/models/utils.py (prepare_deepspeed), 0.26.
func (z ZeRO3) BesideModel(whole step.Parameters, _ step.DType) step.Parameters {
	var list []step.Parameter
	for _, p := range whole.InOrder(nil) {
		q := step.Parameter{Numel: p.Numel, Dtype: p.Dtype, Buffer: p.Buffer, Frozen: true}
		if !p.Buffer {
			q.Numel = z.part(p)
		}
		list = append(list, q)
		if !p.Buffer && p.Numel < z.BesidePersistence {
			q.Numel *= z.World
			list = append(list, q)
		}
	}
	return step.Parameters{List: list}
}

// Load makes each parameter whole, keeps its part, and puts the parts into one tensor; masters, the bucket and the
// buffer of gradients follow.
func (z ZeRO3) Load(r *step.Rank, heap alloc.Heap) {
	var parts []int32
	for _, p := range r.Whole.InOrder(nil) {
		if p.Buffer {
			heap.Alloc(p.Bytes())
			continue
		}
		whole := heap.Alloc(p.Bytes())
		if part := z.part(p) * p.Dtype.Size(); z.OffloadsParameters {
			heap.Free(heap.Alloc(part))
		} else if h := heap.Alloc(part); p.Trained() {
			parts = append(parts, h)
		}
		heap.Free(whole)
	}
	for _, h := range parts {
		heap.Free(h)
	}
	releaseCached(heap)
	groups, d := z.subGroups(r.Whole)
	if !z.OffloadsParameters {
		for _, g := range groups {
			heap.Alloc(sum(g) * d.Size())
		}
	}
	if !z.OffloadsOptimizer {
		for _, g := range groups {
			heap.Free(heap.Alloc(4 * sum(g)))
		}
	}
	z.lasting(r.Whole, func(bytes int64, _ step.Component) { heap.Alloc(bytes) })
	forgetPeaks(heap)
}

// LoadPeak is while masters are made, or while the largest parameter is whole.
func (z ZeRO3) LoadPeak(r *step.Rank, _ int64) int64 {
	var c alloc.Tally
	z.Load(&step.Rank{Recipe: r.Recipe, Whole: r.Whole}, &c)
	return c.Most
}

// LoadYields keeps the peak that of the steps, as ZeRO-1 and 2 do.
func (ZeRO3) LoadYields() bool { return true }

// Irregular: what is released depends on what comes after.
func (ZeRO3) Irregular() bool { return true }

// Rehearses: parameters are fetched and kept by the order of their uses in the step before.
func (ZeRO3) Rehearses() bool { return true }

// Stays are masters, buffers and what is never dealt out.
func (z ZeRO3) Stays(r *step.Rank, f func(bytes int64, c step.Component)) { z.lasting(r.Whole, f) }

// Update computes the norm, each gradient in float64 for a moment, and then updates group by group: gradients are
// flattened and brought to the type of the masters.
// Source: stage3.py (get_grad_norm_direct, step, _prepare_sub_group).
func (z ZeRO3) Update(r *step.Rank, heap alloc.Heap, u step.Updating) bool {
	if z.OffloadsOptimizer {
		u.Started()
		return true
	}
	groups, d := z.subGroups(r.Whole)
	for _, parts := range groups {
		for _, n := range parts {
			heap.Free(heap.Alloc(8 * n))
		}
	}
	for _, parts := range groups {
		n := sum(parts)
		flat := alloc.None
		if len(parts) > 1 {
			flat = heap.Alloc(n * d.Size())
		}
		wide := heap.Alloc(4 * n)
		if flat != alloc.None {
			heap.Free(flat)
		}
		u.Run([]*step.Parameter{{Numel: n, Rows: n, Cols: 1, Dtype: step.F32}})
		heap.Free(wide)
	}
	u.Started()
	return true
}

// Hooks are those of the engine.
func (z ZeRO3) Hooks(t *step.Tape) step.Hooks {
	h := &zero3{NoHooks: step.NoHooks{Tape: t}, ZeRO3: z, grads: make([]int32, len(t.Parameters)),
		saved: map[int32][]int32{}, kept: map[int32][]int32{}, quiet: map[int32]bool{},
		interruption: interruption{open: map[int32]bool{}, stuck: map[int32]bool{}}}
	for i := range h.grads {
		h.grads[i] = step.None
	}
	h.own.deal(0, t.Parameters)
	h.own.prefetch, h.own.persistence = z.Prefetch, z.Persistence
	if known, ok := t.Rehearsed.(remembered); ok {
		h.own.trace, h.beside.trace = known.own, known.beside
	}
	h.now = &h.own
	return h
}
