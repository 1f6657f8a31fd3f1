package step

import "github.com/vramplan/vramplan/estimator/release"

// prefersCuDNN takes cuDNN's attention on Hopper and on Blackwell in data centres.
var prefersCuDNN = release.Declare("prefers-cudnn-attention", release.Change{
	Library: "torch", After: "2.9", From: "2.11",
	What: "scaled_dot_product_attention of torch 2.11 prefers cuDNN's attention for half precision without " +
		"dropout on Hopper and on Blackwell in data centres (compute capabilities 9.0, 10.0 and 10.3)",
	Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_prefer_cudnn_attention), " +
		"aten/src/ATen/native/cudnn/MHA.cpp, 2.9.1 and 2.15.0 (torch._fused_sdp_choice asked of both)",
	Shown: "traces of Llama, ViT, T5 and Whisper for an H100 and a B200, and steps of torch 2.11 on an H200",
})

// usesCuDNN says whether torch prefers cuDNN's attention to all others, as later releases do on Hopper and on Blackwell
// in data centres: for half precision without dropout, more than one query, heads of whole vectors of up to 128
// elements or of 256, and masks that do not learn. The package flash-attn is a kernel of its own, where torch chooses
// none. Which heads are taken was asked of torch 2.15 with cuDNN 9.26 (torch._fused_sdp_choice) for 8 to 288 elements
// on compute capabilities 8.0 to 12.0.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (check_prefer_cudnn_attention, can_use_cudnn_attention),
// torch 2.15.
func (t *Tape) usesCuDNN(h Heads, learnedMask bool) bool {
	r, value := t.Recipe, h.value()
	if !r.Software.Has(prefersCuDNN) || !r.Compute.Half() || learnedMask || r.Attention != AttentionSDPA {
		return false
	}
	if g := r.ComputeCapability / 10; g != 9 && g != 10 {
		return false
	}
	if queries, _ := t.lengths(h); queries < 2 || h.Drops && !r.Evaluation || h.Dim%8 != 0 || value%8 != 0 {
		return false
	}
	return max(h.Dim, value) <= 128 || h.Dim == 256 && value == 256 || h.Dim == 192 && value == 128
}

// cudnn is cuDNN's attention. It keeps its arguments, with the mask as a bias, its output, the log-sum-exp of every row
// and the state of the random numbers. Backward has one workspace for a float32 accumulator for dq and a row sum, which
// cuDNN's frontend lays out; what the engine behind it asks for besides, 256 bytes on an H200, is taken as nothing.
// Source: aten/src/ATen/native/cudnn/MHA.cpp, torch 2.15; cudnn_frontend/node/scaled_dot_product_flash_attention.h.
func (t *Tape) cudnn(q, k, v T, h Heads, mask *T) T {
	t.Applied.CuDNN = true
	var y, lse, seed, offset T
	queries, _ := t.lengths(h)
	rows := t.Shape.Batch * h.Query * queries
	saved, ns := [8]T{q, k, v}, 3
	if mask != nil { // a boolean one is converted
		bias := t.additive(*mask, q.dtype)
		defer t.Drop(bias)
		saved[ns] = bias
		ns++
	}
	chooses := t.Recipe.SelectiveOps && t.choosing() != nil
	if chooses && t.transplant {
		y, lse, seed, offset = t.takeBack(), t.takeBack(), t.takeBack(), t.takeBack()
	} else {
		seed, offset = t.fresh(1, I64, LabelAttentionStatistics), t.fresh(1, I64, LabelAttentionStatistics)
		y = t.fresh(q.numel/h.Dim*h.value(), q.dtype, LabelAttentionOutput)
		y.layout = q.layout
		lse = T{storage: None, form: plain(F32)}
		if t.grads(q, k, v) { // only for backward
			lse = t.fresh(rows, F32, LabelAttentionStatistics)
		}
	}
	if chooses {
		t.keep(y, lse, seed, offset)
	}
	ns += copy(saved[ns:], []T{y, lse, seed, offset})
	o := t.op(q, k, v).save(saved[:ns]...)
	if o.i != None {
		o.alloc(0, q.bytes(), LabelInputGradient).
			alloc(1, k.bytes(), LabelInputGradient).
			alloc(2, v.bytes(), LabelInputGradient).
			alloc(3, rows*(h.Dim+1)*4, LabelAttentionScratch).free(3)
		o.send(0, 0).send(1, 1).send(2, 2)
	}
	y = o.out(y, 0)
	t.Drop(lse, seed, offset)
	return y
}
