package step

// Which kernel scaled_dot_product_attention takes on which card, and what it needs there.

// usesFlash says whether torch chooses flash attention. The cards with little shared memory have no backward for some
// of the largest heads. Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (use_flash_attention,
// check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120), torch 2.9.
func (t *Tape) usesFlash(h Heads, mask bool) bool {
	if mask || !t.Recipe.Compute.Half() || t.Recipe.ComputeCapability < ampere || h.value() != h.Dim || h.Dim > 256 {
		return false
	}
	large := h.Dim > 192 && (h.Dim <= 224 || h.Drops)
	return !large || !t.Recipe.littleShared()
}

// Compute capabilities.
const (
	volta  = 70
	turing = 75
	ampere = 80
)

// flashAlignment is the number of elements to a multiple of which flash attention wants heads padded.
const flashAlignment = 8

// PadsHeads says whether flash attention runs on padded copies of queries, keys and values.
func (t *Tape) PadsHeads(h Heads, mask bool) bool {
	return t.Recipe.Attention != AttentionEager && t.usesFlash(h, mask) && h.Dim%flashAlignment != 0
}

// WritesOut says whether attention is the formula, in the model's code or in torch's.
func (t *Tape) WritesOut(h Heads, mask bool) bool {
	return t.Recipe.Attention == AttentionEager || t.writtenOut(h, mask)
}

// littleShared says that a block has at most 99 KiB of shared memory.
// Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
func (r *Recipe) littleShared() bool {
	cc := r.ComputeCapability
	return cc == 86 || cc == 89 || cc/10 == 12
}

// volta says that heads of this size go through the kernel for compute capability 7.0 that does not form row sums
// itself. Source: aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h (kKernelComputesDelta),
// torch 2.9.
func (r *Recipe) volta(h Heads) bool {
	return r.ComputeCapability >= volta && r.ComputeCapability < turing && h.widest() > 128
}

// rowSums are those of dO·O in float32, for a memory-efficient kernel that does not form them itself and wants them
// with the heads outermost. They stay in register 5.
func (o op) rowSums(v T, bytes int64, h Heads) {
	queries, _ := o.t.lengths(h)
	if v.dtype.Half() {
		o.alloc(7, v.numel*4, LabelCast).alloc(8, v.numel*4, LabelCast)
	}
	o.alloc(3, v.numel*4, LabelAttentionScratch)
	if h.Query > 1 && queries > 1 {
		o.alloc(4, bytes, LabelAttentionScratch).alloc(5, bytes, LabelAttentionScratch).free(4)
	} else {
		o.alloc(5, bytes, LabelAttentionScratch)
	}
	o.free(3)
	if v.dtype.Half() {
		o.free(8).free(7)
	}
}

// efficientWorkspace is, for one of heads heads, what the backward of memory-efficient attention sums gradients in:
// float32 tiles of dq with a lock each, and for heads that are too large to be summed in registers tiles of dk and dv
// too, for as many parts of the keys as run at a time. The tile shapes were read off PyTorch 2.9 for heads of 8 to 320
// elements on compute capabilities 7.0 to 12.0;
// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernels/generate_kernels.py lists the kernels.
func (r *Recipe) efficientWorkspace(n, keys, heads int64, h Heads, d DType) int64 {
	const lock, imageHead = 16, 96
	const part, enough = 64, 200 // keys, and heads for one part each
	widest := h.widest()
	tile := func(rows, cols int64) int64 { return CeilDiv(n, rows) * CeilDiv(h.Dim, cols) * (rows*cols*4 + lock) }
	parts := min(CeilDiv(keys, part), max(enough/heads, 1)) * part * (roundUp(h.Dim, 128) + roundUp(h.value(), 128)) * 4
	old, little := r.ComputeCapability < ampere, r.littleShared()
	switch {
	case widest <= 64, !d.Half() && (old || little):
		return tile(64, 64)
	case !d.Half():
		return tile(128, 64)
	case widest > 128:
		return tile(128, 64) + parts
	case old, little && widest <= imageHead && !h.Drops && r.ComputeCapability < 120: // there is a kernel for images
		return tile(128, 64)
	case little:
		return tile(64, 64) + parts
	}
	return tile(128, 128)
}
