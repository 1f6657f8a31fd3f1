package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// DTensor is tensor parallelism as torchtitan writes it with torch.distributed.tensor: GPUs share the matrices of every
// layer, the embedding and the head, tokens are dealt out between the blocks (sequence parallel), and the loss is
// computed on the part of the vocabulary that a GPU has (loss parallel). The parameters that the model declares are
// this GPU's; what is done with them besides is the embedded strategy's. Source:
// torchtitan/models/llama3/infra/parallelize.py (apply_tp), 0.2.0; torch/distributed/tensor/parallel, 2.9.
type DTensor struct {
	step.Strategy
	// GPUs share each layer.
	GPUs int64
	// WholeLogits gathers the logits for the loss, which every GPU then computes on all of the vocabulary.
	WholeLogits bool
	// Later says that the embedded strategy accumulates whole gradients before it copies this GPU's rows out.
	Later bool
}

// Hooks are those of the embedded strategy and what is done where modules are cut.
func (d DTensor) Hooks(t *step.Tape) step.Hooks { return &dtensor{around{d.Strategy.Hooks(t), t}, d} }

// Align copies this GPU's rows out of the gradient of the embedding, which nobody has copied so far where nothing is
// dealt out besides.
func (d DTensor) Align(r *step.Rank, heap alloc.Heap) []int32 {
	if _, dealt := d.Strategy.(step.OneGPU); !dealt {
		return nil
	}
	return ownRows(r, heap)
}

// ownRows are this GPU's, copied out of the gradient of the embedding.
func ownRows(r *step.Rank, heap alloc.Heap) []int32 {
	for i := range r.Parts.List {
		if p := &r.Parts.List[i]; p.Section == step.InputSection {
			return []int32{heap.Alloc(p.Bytes())}
		}
	}
	return nil
}

// Elements are all rows of the embedding until then.
func (d DTensor) Elements(p *step.Parameter) int64 {
	if _, dealt := d.Strategy.(step.OneGPU); dealt && p.Section == step.InputSection {
		return p.Numel * d.GPUs
	}
	return p.Numel
}

// Rows is a strategy under which a GPU has some of the rows of the embedding, whose gradient has all of them until the
// optimizer asks for its own. Source: torch/distributed/tensor/_dispatch.py (redistribute_local_args), torch 2.15.
type Rows struct {
	step.OneGPU
	// All are the elements of the embedding of all GPUs.
	All int64
}

// Align copies this GPU's rows out of the gradient of the embedding.
func (Rows) Align(r *step.Rank, heap alloc.Heap) []int32 { return ownRows(r, heap) }

// Elements are those of all rows until then.
func (s Rows) Elements(p *step.Parameter) int64 {
	if p.Section == step.InputSection {
		return s.All
	}
	return p.Numel
}

type dtensor struct {
	around
	cut DTensor
}

// GradientReady copies this GPU's rows out of the gradient of the embedding, which has all, before they are dealt out
// further. Source: torch/distributed/fsdp/_fully_shard/_fsdp_param.py (_get_grad_inner_tensor), torch 2.9.
func (h *dtensor) GradientReady(p, s int32) {
	t := h.tape
	_, alone := h.cut.Strategy.(step.OneGPU)
	if !alone && !h.cut.Later && t.Parameters[p].Section == step.InputSection {
		rows := t.Alloc(t.Parameters[p].Bytes(), step.Gradients, step.LabelGradient)
		t.Release(s)
		s = rows
	}
	h.Hooks.GradientReady(p, s)
}

// Enter gathers the tokens.
func (h *dtensor) Enter(x step.T) step.T { return h.tape.GatherTokens(x, h.cut.GPUs, true) }

// EnterLocal gathers the tokens.
func (h *dtensor) EnterLocal(x step.T) step.T { return h.tape.GatherTokens(x, h.cut.GPUs, false) }

// Leave sums over the GPUs and deals the tokens out.
func (h *dtensor) Leave(y step.T) step.T { return h.tape.ScatterTokens(y, h.cut.GPUs) }

// EmbedRows looks ids up in this GPU's rows.
func (h *dtensor) EmbedRows(ids step.T, w step.Weight) step.T {
	return h.Leave(h.tape.EmbedRows(ids, w, w.Rows*h.cut.GPUs))
}

// Logits are this GPU's, or all.
func (h *dtensor) Logits(x step.T) step.T {
	if !h.cut.WholeLogits {
		return x
	}
	y := h.tape.GatherVocabulary(x, h.cut.GPUs, x.Numel()*h.cut.GPUs)
	h.tape.Drop(x)
	return y
}

// CutLoss is computed on this GPU's part of the vocabulary.
func (h *dtensor) CutLoss(logits, targets step.T) step.T {
	if h.cut.WholeLogits {
		return h.tape.CrossEntropy(logits, targets)
	}
	return h.tape.LossParallel(logits, targets)
}
