package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Megatron is Megatron-LM's own DistributedDataParallel: gradients are added into one buffer, which is summed where it
// lies. With the distributed optimizer a GPU has masters and moments of its part of the buffer alone. Sources:
// megatron/core/distributed/param_and_grad_buffer.py, megatron/core/optimizer/distrib_optimizer.py, Megatron-LM 0.14.
type Megatron struct {
	step.OneGPU
	// World is how many GPUs share masters and moments; 1 where each has all.
	World int64
	// Engine says that TransformerEngine's layers run, which keep a workspace for their products.
	Engine bool
	// Widens makes float32 copies of the gradients of this GPU's part for the update.
	Widens bool
	// Former is what releases before the buffer did: all gradients are put into one tensor to be summed, and float32
	// copies of them stay from one update to the next. Source: megatron/model/distributed.py,
	// megatron/optimizer/optimizer.py, Megatron-LM of May 2021.
	Former bool
}

// engineWorkspace is what TransformerEngine's products have for themselves.
// Source: transformer_engine/pytorch/module/base.py (get_cublas_workspace_size_bytes), 2.8.
func engineWorkspace(r *step.Recipe) int64 {
	const hopper = 90
	if r.ComputeCapability >= hopper {
		return 32 << 20
	}
	return 4 << 20
}

// part is how many trained elements the GPU updates.
func (m Megatron) part(r *step.Rank) int64 {
	n := int64(0)
	for _, p := range r.Trained() {
		n += p.Numel
	}
	return step.CeilDiv(n, max(m.World, 1))
}

// Load brings what stays besides the model.
func (m Megatron) Load(r *step.Rank, heap alloc.Heap) {
	m.OneGPU.Load(r, heap)
	m.Stays(r, func(bytes int64, _ step.Component) { r.Held = append(r.Held, heap.Alloc(bytes)) })
}

// LoadPeak is at its end.
func (m Megatron) LoadPeak(r *step.Rank, weights int64) int64 {
	m.Stays(r, func(bytes int64, _ step.Component) { weights += alloc.Rounded(bytes) })
	return weights
}

// Stays are the masters that are dealt out, and the engine's workspace.
func (m Megatron) Stays(r *step.Rank, f func(bytes int64, c step.Component)) {
	if m.World > 1 {
		f(4*m.part(r), step.OptimizerState)
	}
	if m.Former {
		f(4*m.part(r), step.Gradients)
	}
	if m.Engine {
		f(engineWorkspace(r.Recipe), step.Temporaries)
		m.dummies(r, func(bytes int64) { f(bytes, step.Temporaries) })
	}
}

// dummies calls f with the bytes of what TransformerEngine returns to autograd for the gradients of matrices, whose
// real ones it adds into the buffer: a tensor for every shape, which stays.
// Source: transformer_engine/pytorch/module/base.py (get_dummy_wgrad), 2.8.
func (m Megatron) dummies(r *step.Rank, f func(bytes int64)) {
	list := r.Parts.List
	var seen [][2]int64
	for i := r.Parts.LayerStart; i < min(r.Parts.LayerStart+r.Parts.PerLayer, len(list)); i++ {
		shape := [2]int64{list[i].Rows, list[i].Cols}
		if list[i].Trained() && list[i].Cols > 1 && !slices.Contains(seen, shape) {
			seen = append(seen, shape)
			f(list[i].Bytes())
		}
	}
}

// Update is of the part that the GPU has.
func (m Megatron) Update(r *step.Rank, heap alloc.Heap, u step.Updating) bool {
	if m.Former {
		n := int64(0)
		for _, p := range r.Trained() {
			n += p.Bytes()
		}
		heap.Free(heap.Alloc(n))
	}
	if m.World <= 1 {
		return false
	}
	n := m.part(r)
	wide := alloc.None
	if m.Widens {
		wide = heap.Alloc(4 * n)
	}
	u.Run([]*step.Parameter{{Numel: n, Rows: n, Cols: 1, Dtype: step.F32}})
	if wide != alloc.None {
		heap.Free(wide)
	}
	u.Started()
	return true
}
