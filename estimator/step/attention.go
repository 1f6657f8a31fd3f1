package step

import (
	"math"

	"github.com/vramplan/vramplan/estimator/release"
)

// Heads is the geometry of an attention: h query heads and KV key/value heads of Dim elements.
type Heads struct {
	Query, KV, Dim int64
	// Value is the elements of a head of values where they are not Dim; 0 otherwise.
	Value int64
	// Bidirectional says that every token sees all others, so that there is no causal mask.
	Bidirectional bool
	// Drops says that probabilities are dropped out.
	Drops bool
	// Queries and Keys are how many tokens ask and are asked; 0 means all of the sequence.
	Queries, Keys int64
	// Copies is what backward copies first, where that is known.
	Copies BackwardCopies
}

// BackwardCopies says what attention's backward copies before it begins: the gradient that reaches it, and what
// attention returned. Flash says whether it is known of flash attention or of the memory-efficient kernel.
type BackwardCopies struct{ Known, Gradient, Output, Flash bool }

// value is the elements of a head of values.
func (h Heads) value() int64 {
	if h.Value > 0 {
		return h.Value
	}
	return h.Dim
}

// widest is the larger of a head's two sizes, which chooses the kernel.
func (h Heads) widest() int64 { return max(h.Dim, h.value()) }

// Width is h·Dim, the width of the queries.
func (h Heads) Width() int64 { return h.Query * h.Dim }

// KVWidth is KV·Dim, the width of the keys and of the values.
func (h Heads) KVWidth() int64 { return h.KV * h.Dim }

// Split3 is x.split(d, dim=2) into queries, keys and values: views, whose gradients meet in one tensor.
func (t *Tape) Split3(x T) (q, k, v T) {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	part := func(i int) T {
		p := t.Hold(x)
		p.numel = x.numel / 3
		return o.out(p, i)
	}
	return part(0), part(1), part(2)
}

// SDPA is F.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal). Which kernel runs is
// torch's own choice: cuDNN's for half precision on Hopper and Blackwell in later releases, flash for half precision
// without a mask on compute capability 8.0 and later,
// memory-efficient for float32, with a mask or on older GPUs, and the written-out formula where
// grouped heads (enable_gqa) meet neither. Autocast casts the arguments.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.9.
func (t *Tape) SDPA(q, k, v T, h Heads, mask *T, dropout float64) T {
	if t.Recipe.SelectiveAttention && t.grads(q, k, v) && t.layer == None && !t.recompute {
		return t.checkpointAttention(q, k, v, mask, func(q, k, v T) T { return t.sdpa(q, k, v, h, mask, dropout) })
	}
	return t.sdpa(q, k, v, h, mask, dropout)
}

func (t *Tape) sdpa(q, k, v T, h Heads, mask *T, dropout float64) T {
	if mask != nil && mask.dtype != Bool {
		additive := t.autocastTo(*mask, t.Recipe.Compute, LabelAttentionMask)
		defer t.Drop(additive)
		mask = &additive
	}
	q, k, v = t.AutocastQKV(q, k, v)
	if h.Query == 1 { // a single head lies either way
		q.layout = tokensFirst
	}
	y := t.attend(q, k, v, h, mask, dropout)
	t.Drop(q, k, v)
	return y
}

// attend is the kernel that torch chooses.
func (t *Tape) attend(q, k, v T, h Heads, mask *T, dropout float64) T {
	q, k, v = t.realize(q), t.realize(k), t.realize(v)
	if t.Recipe.Evaluation {
		dropout = 0
	}
	switch {
	case dropout == 0 && t.usesCuDNN(h, mask != nil && mask.RequiresGrad()):
		return t.cudnn(q, k, v, h, mask)
	case t.PadsHeads(h, mask != nil):
		return t.paddedFlash(q, k, v, h, dropout)
	case t.usesFlash(h, mask != nil):
		return t.flash(q, k, v, h, dropout, false)
	case !t.writtenOut(h, mask != nil):
		return t.efficient(q, k, v, h, mask, dropout)
	}
	return t.mathAttention(q, k, v, h, mask, dropout)
}

// paddedFlash pads the heads of q, k and v, and returns a view that leaves the padding out.
// Source: aten/src/ATen/native/transformers/attention.cpp (pad_last_dim), torch 2.9.
func (t *Tape) paddedFlash(q, k, v T, h Heads, dropout float64) T {
	wide := h
	wide.Dim = roundUp(h.Dim, flashAlignment)
	pad := func(x T) T {
		y := t.fresh(x.numel/h.Dim*wide.Dim, x.dtype, LabelContiguous)
		return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	}
	qp, kp, vp := pad(q), pad(k), pad(v)
	y := t.flash(qp, kp, vp, wide, dropout, true)
	t.Drop(qp, kp, vp)
	cut := y
	cut.numel = q.numel
	return t.op(y).alloc(0, y.bytes(), LabelInputGradient).send(0, 0).out(cut, 0)
}

// TokensFirst is y.transpose(1, 2).contiguous() of what SDPA returned. That is a copy where a view leaves padding
// out, behind the written-out formula, and behind flash attention of queries with the heads outermost, whose layout
// its output has; otherwise the kernels put tokens first themselves. It takes over y.
func (t *Tape) TokensFirst(y T, h Heads, mask bool) T {
	if t.tokensFirst(y, h, mask) {
		return y
	}
	out := t.Contiguous(y)
	t.Drop(y)
	return out
}

// tokensFirst says whether the kernel put the tokens first in what attention returned.
func (t *Tape) tokensFirst(y T, h Heads, mask bool) bool {
	return !t.PadsHeads(h, mask) && (!t.writtenOut(h, mask) || h.Query == 1) && y.layout != headsFirst
}

// flash is FlashAttention-2 as torch carries it. Besides its output it keeps the
// log-sum-exp of every row and the state of the random numbers; backward needs a float32
// accumulator for dq, a row sum, and dk, dv for every query head where heads are grouped.
// Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd, mha_bwd), torch 2.9.
func (t *Tape) flash(q, k, v T, h Heads, dropout float64, padded bool) T {
	var y, lse, seed, state T
	chooses := t.Recipe.SelectiveOps && t.choosing() != nil
	if chooses && t.transplant {
		y, lse, state, seed = t.takeBack(), t.takeBack(), t.takeBack(), t.takeBack()
	} else {
		y, lse, state, seed = t.flashResults(q, h, dropout)
	}
	if chooses {
		t.keep(y, lse, state, seed)
	}
	o := t.op(q, k, v).save(q, k, v, y, lse, state, seed)
	if o.i != None {
		n, _ := t.lengths(h)
		rows, headRounded := t.Shape.Batch*h.Query*roundUp(n, 128), t.flashHead(h)
		// gradient and output come as views that have to be laid out densely
		gradient := padded && h.Query > 1 || y.layout == tokensOutermost
		output := gradient || y.layout == headsFirst
		if h.Copies.Known && h.Copies.Flash {
			gradient, output = h.Copies.Gradient, h.Copies.Output
		}
		if gradient {
			o.alloc(7, y.bytes(), LabelContiguous)
		}
		if output {
			o.alloc(8, y.bytes(), LabelContiguous)
		}
		o.alloc(0, q.bytes(), LabelInputGradient).
			alloc(1, k.bytes(), LabelInputGradient).
			alloc(2, v.bytes(), LabelInputGradient).
			alloc(3, rows*4, LabelAttentionScratch).
			alloc(4, rows*headRounded*4, LabelAttentionScratch)
		if h.KV < h.Query {
			o.alloc(5, q.bytes(), LabelAttentionScratch).alloc(6, q.bytes(), LabelAttentionScratch).free(6).free(5)
		}
		o.free(4).free(3)
		if output {
			o.free(8)
		}
		if gradient {
			o.free(7)
		}
		o.send(0, 0).send(1, 1).send(2, 2)
	}
	y = o.out(y, 0)
	t.Drop(lse, seed, state)
	return y
}

// roundsFlashHeads lets FlashAttention round heads wider than 128 to a multiple of 64, instead of 32.
var roundsFlashHeads = release.Declare("rounds-flash-heads", release.Change{
	Library: "torch", After: "2.10", From: "2.15",
	What: "FlashAttention in torch 2.15 rounds heads wider than 128 to a multiple of 64",
	Source: "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (head_size_rounded), " +
		"2.9.1 and 2.15.0", Shown: "traces of Llama with heads of 160",
})

// flashHead is the width of a head as flash attention computes with it.
// Source: flash_attn/flash_api.cpp (head_size_rounded), torch 2.9 and 2.15.
func (t *Tape) flashHead(h Heads) int64 {
	if h.Dim > 128 && t.Recipe.Software.Has(roundsFlashHeads) {
		return roundUp(h.Dim, 64)
	}
	if h.Dim > 192 {
		return 256
	}
	return roundUp(h.Dim, 32)
}

// flashResults are the output of flash attention, the log-sum-exp of every row, and the state of the random numbers.
func (t *Tape) flashResults(q T, h Heads, dropout float64) (y, lse, state, seed T) {
	b := t.Shape.Batch
	queries, keys := t.lengths(h)
	y = t.fresh(q.numel, q.dtype, LabelAttentionOutput)
	y.layout = q.layout
	lse = t.fresh(b*h.Query*queries, F32, LabelAttentionStatistics)
	if splits := t.flashSplits(h, queries, keys, dropout); splits > 1 {
		lseParts := t.fresh(splits*b*h.Query*queries, F32, LabelAttentionScratch)
		outParts := t.fresh(splits*b*h.Query*queries*t.flashHead(h), F32, LabelAttentionScratch)
		defer t.Drop(lseParts)
		defer t.Drop(outParts)
	}
	if dropout > 0 {
		philox := t.fresh(2, I64, LabelAttentionStatistics)
		seed = t.fresh(1, I64, LabelAttentionStatistics)
		state = t.fresh(2, I64, LabelAttentionStatistics)
		t.Drop(philox)
		return y, lse, state, seed
	}
	state = t.fresh(2, I64, LabelAttentionStatistics)
	seed = t.fresh(1, I64, LabelAttentionStatistics)
	return y, lse, state, seed
}

// flashSplits is over how many blocks flash attention divides the keys so that a few
// short sequences still fill the GPU; each then writes a partial result.
// Source: flash_api.cpp (num_splits_heuristic, set_params_splitkv), torch 2.9.
func (t *Tape) flashSplits(h Heads, queries, keys int64, dropout float64) int64 {
	if dropout > 0 {
		return 1
	}
	blockN := int64(64)
	switch {
	case h.Dim <= 64:
		blockN = 256
	case h.Dim <= 128:
		blockN = 128
	}
	blocksN := CeilDiv(keys, blockN)
	work := float64(t.Shape.Batch * h.Query * CeilDiv(queries, 64))
	sms := t.Recipe.Multiprocessors * 2
	if work >= 0.8*float64(sms) {
		return 1
	}
	limit := min(128, sms, blocksN)
	efficiency := func(splits int64) float64 {
		waves := work * float64(splits) / float64(sms)
		return waves / math.Ceil(waves)
	}
	eligible := func(splits int64) bool {
		return splits == 1 || CeilDiv(blocksN, splits) != CeilDiv(blocksN, splits-1)
	}
	best := 0.0
	for s := int64(1); s <= limit; s++ {
		if eligible(s) {
			best = max(best, efficiency(s))
		}
	}
	for s := int64(1); s <= limit; s++ {
		if eligible(s) && efficiency(s) >= 0.85*best {
			return s
		}
	}
	return 1
}

// seedsEfficient makes memory-efficient attention keep a seed and an offset without dropout, too.
var seedsEfficient = release.Declare("seeds-memory-efficient-attention", release.Change{
	Library: "torch", After: "2.12", From: "2.14",
	What:   "memory-efficient attention of torch 2.14 keeps a seed and an offset without dropout, too",
	Source: "aten/src/ATen/native/transformers/cuda/attention.cu, 2.9.1 and 2.15.0",
	Shown:  "traces of nanoGPT and Llama in fp32",
})

// efficient is the memory-efficient kernel. It keeps its inputs, its output and the log-sum-exp with
// rows padded to 32; a boolean mask becomes an additive one in the type of the queries, which is kept too.
// Its backward sums dq over blocks of keys in a float32 workspace.
// Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu,
// mem_eff_attention/kernel_backward.h (workspaceSize), torch 2.9.
func (t *Tape) efficient(q, k, v T, h Heads, mask *T, dropout float64) T {
	b := t.Shape.Batch
	n, keys := t.lengths(h)
	out := q.numel / h.Dim * h.value()
	var bias T
	saved := [9]T{q, k, v}
	ns := 3
	cast := NoTensor
	if mask != nil {
		bias, cast = t.exec.attentionBias(t, *mask, q.dtype, h)
		saved[ns] = bias
		ns++
	}
	var y, lse T
	seed, offset := NoTensor, NoTensor
	chooses := t.Recipe.SelectiveOps && t.choosing() != nil
	if chooses && t.transplant {
		y, lse = t.takeBack(), t.takeBack()
	} else {
		if t.Recipe.Software.Has(seedsEfficient) && dropout == 0 { // those of dropout are the host's
			seed, offset = t.fresh(1, I64, LabelAttentionStatistics), t.fresh(1, I64, LabelAttentionStatistics)
		}
		y = t.fresh(out, q.dtype, LabelAttentionOutput)
		lse = T{storage: None, form: plain(F32)}
		if t.grads(q, k, v) { // only for backward
			lse = t.fresh(b*h.Query*roundUp(n, 32), F32, LabelAttentionStatistics)
		}
		if q.dtype.Half() && h.widest() > maxRegisterHead { // the kernel sums the output in memory
			t.Drop(t.fresh(out, F32, LabelAttentionScratch))
		}
	}
	if chooses {
		t.keep(y, lse)
	}
	saved[ns], saved[ns+1] = y, lse
	ns += 2
	if seed.storage != None {
		saved[ns], saved[ns+1] = seed, offset
		ns += 2
	}
	ins, learned := [4]T{q, k, v, bias}, mask != nil && bias.RequiresGrad()
	inputs := 3
	if learned {
		inputs = 4
	}
	o := t.op(ins[:inputs]...).save(saved[:ns]...)
	if o.i != None {
		delta := b * h.Query * n * 4
		workspace := b * h.Query * t.Recipe.efficientWorkspace(n, keys, b*h.Query, h, q.dtype)
		copied := h.Copies.Known && h.Copies.Gradient && !h.Copies.Flash
		if copied {
			o.alloc(12, y.bytes(), LabelContiguous)
		}
		o.alloc(0, q.bytes(), LabelInputGradient).alloc(1, k.bytes(), LabelInputGradient).alloc(2, v.bytes(),
			LabelInputGradient)
		if learned {
			o.alloc(11, b*h.Query*n*roundUp(keys, biasAlignment)*q.dtype.Size(), LabelInputGradient)
		}
		grouped := h.KV < h.Query && k.numel/h.Dim < q.numel/h.Dim
		if grouped { // dk and dv of every query head, which are summed at the end
			o.alloc(9, k.bytes()*h.Query/h.KV, LabelAttentionScratch).alloc(10, v.bytes()*h.Query/h.KV,
				LabelAttentionScratch)
		}
		if q.dtype.Half() && !t.Recipe.volta(h) {
			o.alloc(5, delta, LabelAttentionScratch)
		} else {
			o.rowSums(y, delta, h)
		}
		o.alloc(6, workspace, LabelAttentionScratch).free(5).free(6)
		if grouped {
			o.free(10).free(9)
		}
		if copied {
			o.free(12)
		}
		o.send(0, 0).send(1, 1).send(2, 2)
		if learned {
			o.send(11, 3)
		}
	}
	y = o.out(y, 0)
	t.Drop(lse, seed, offset)
	if mask != nil {
		t.Drop(bias)
	}
	t.Drop(cast)
	return y
}

// maxRegisterHead is the largest head whose output the memory-efficient kernel holds in registers.
// Source: aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_forward.h (kKeepOutputInRF), torch 2.9.
const maxRegisterHead = 128

// additive is a mask as a bias in d: a boolean one is converted.
// Source: aten/src/ATen/native/transformers/attention.cpp (convert_boolean_attn_mask), torch 2.9.
func (t *Tape) additive(mask T, d DType) T {
	if mask.dtype != Bool {
		return t.Hold(mask)
	}
	zero := t.fresh(1, d, LabelAttentionMask)
	inf := t.fresh(1, d, LabelAttentionMask)
	bias := t.fresh(mask.numel, d, LabelAttentionMask)
	t.Drop(zero, inf)
	return bias
}

// maskAlignment is the number of elements to a multiple of which the rows of a mask are padded.
// Source: aten/src/ATen/native/transformers/attention.cpp (mem_eff_alignment), torch 2.9.
const maskAlignment = 8
