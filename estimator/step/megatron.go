package step

// What Megatron-LM's layers allocate. Their matrices are cut over GPUs; with sequence parallelism a GPU has some of the
// tokens between the blocks. Sums over the GPUs are made where the numbers lie. Sources:
// megatron/core/tensor_parallel/layers.py (ColumnParallelLinear, RowParallelLinear,
// LinearWithGradAccumulationAndAsyncCommunication), mappings.py, megatron/core/transformer/attention.py, mlp.py,
// megatron/core/fusions, of Megatron-LM 0.14; transformer_engine/pytorch/module/layernorm_linear.py, 2.8. None of it
// was traced.

// ParallelLinear is a product with this GPU's part of a matrix. Where tokens are dealt out, gathers is how many GPUs'
// tokens its input is gathered from, and deals to how many its output is dealt; both are 1 otherwise. Only what the GPU
// has of the input is kept, and gathered anew for the weight's gradient.
func (t *Tape) ParallelLinear(x T, w, b Weight, gathers, deals int64, l Label) T {
	weight, d := t.Parameter(w), x.dtype
	ins := []T{x, weight}
	if b.Exists() {
		ins = append(ins, t.Parameter(b))
	}
	rows := x.numel / w.Cols * gathers
	all := NoTensor
	if gathers > 1 {
		all = t.collective(x.numel*gathers, d)
	}
	y := t.fresh(rows*w.Rows, d, l)
	if l == LabelLogits {
		t.Drop(y)
		y = t.wide(rows*w.Rows, d, l)
	}
	t.workspace()
	t.Drop(all)
	if deals > 1 {
		part := t.fresh(y.numel/deals, d, l)
		t.Drop(y)
		y = part
	}
	o := t.op(ins...).save(x, weight)
	const full, gathered, incoming = 4, 5, 6
	if deals > 1 {
		o.alloc(incoming, rows*w.Rows*d.Size(), LabelCollective)
	}
	if gathers > 1 && o.needs(1) {
		o.alloc(gathered, x.bytes()*gathers, LabelCollective)
	}
	if o.needs(0) {
		o.alloc(full, x.bytes()*gathers, LabelInputGradient).workspace()
	}
	if o.needs(1) {
		o.alloc(1, weight.bytes(), LabelWeightGradient).workspace()
	}
	if b.Exists() && o.needs(2) {
		o.alloc(2, ins[2].bytes(), LabelWeightGradient)
	}
	if gathers > 1 && o.needs(1) {
		o.free(gathered)
	}
	if deals > 1 {
		o.free(incoming)
	}
	if o.needs(0) && gathers > 1 {
		o.alloc(0, x.bytes(), LabelInputGradient).free(full).send(0, 0)
	} else if o.needs(0) {
		o.send(full, 0)
	}
	for k := 1; k < len(ins); k++ {
		if o.needs(k) {
			o.send(k, k)
		}
	}
	return o.out(y, 0)
}

// FusedGLU is silu(gate) · up of both side by side, which it keeps. Source:
// megatron/core/fusions/fused_bias_swiglu.py (BiasSwiGLUFunction).
func (t *Tape) FusedGLU(x T) T {
	y := t.fresh(x.numel/2, x.dtype, LabelActivation)
	return t.op(x).save(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// DropoutAdd is residual + dropout(x) in one kernel, which keeps which elements it dropped. Source:
// megatron/core/fusions/fused_bias_dropout.py.
func (t *Tape) DropoutAdd(x, residual T, p float64) T {
	if p == 0 || t.Recipe.Evaluation {
		return t.Add(x, residual, LabelResidual)
	}
	t.Applied.Dropout = true
	mask := t.fresh(x.numel, Bool, LabelDropoutMask)
	y := t.fresh(x.numel, x.dtype, LabelResidual)
	y = t.op(x, residual).save(mask).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).pass(0, 1).out(y, 0)
	t.Drop(mask)
	return y
}

// FusedRotary turns queries or keys in one kernel, which keeps nothing but the table. Source:
// transformer_engine/pytorch/attention/rope.py (FusedRoPEFunc).
func (t *Tape) FusedRotary(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelRotary)
	return t.op(x).alloc(0, x.bytes(), LabelRotary).send(0, 0).out(y, 0)
}

// UnfusedAttention is attention whose scores are written out and go through one kernel for scale, mask and softmax;
// views lay the heads out. Source: megatron/core/transformer/dot_product_attention.py (DotProductAttention.forward).
func (t *Tape) UnfusedAttention(q, k, v T, h Heads, dropout float64) T {
	attend := func(q, k, v T) T {
		scores := t.BMM(q, k, t.Shape.N()*t.Shape.Tokens*h.Query, LabelAttentionScores)
		p := t.fusedSoftmax(scores)
		dropped := t.Dropout(p, dropout)
		t.Drop(p)
		y := t.BMM(dropped, v, q.numel, LabelAttentionOutput)
		t.Drop(dropped)
		out := t.Contiguous(y)
		t.Drop(y)
		return out
	}
	if t.Recipe.SelectiveAttention && t.grads(q, k, v) && t.layer == None && !t.recompute {
		return t.checkpointAttention(q, k, v, nil, attend)
	}
	return attend(q, k, v)
}

// DealTokens is this GPU's tokens of x, copied. In backward the gradients are gathered. Source: mappings.py
// (_ScatterToSequenceParallelRegion), layers of language_model_embedding.py.
func (t *Tape) DealTokens(x T, gpus int64) T {
	y := t.fresh(x.numel/gpus, x.dtype, LabelEmbedding)
	return t.op(x).alloc(0, x.bytes(), LabelCollective).send(0, 0).out(y, 0)
}

// ParallelCrossEntropy is the loss of float32 logits, of which every GPU has some of the columns: all is computed where
// they lie, and they are what is kept; their gradient is written over them. Source:
// megatron/core/tensor_parallel/cross_entropy.py (VocabParallelCrossEntropy).
// The fused loss forms the exponentials in a tensor of their own, as its compiled function does: one published run says
// so. Source: megatron/core/fusions/fused_cross_entropy.py.
func (t *Tape) ParallelCrossEntropy(logits, targets T) T {
	rows := targets.numel
	exponentials := NoTensor
	if t.Recipe.Loss.Kind == LossFused {
		exponentials = t.wide(logits.numel, logits.dtype, LabelLogProbabilities)
	}
	row := func(d DType) T { return t.fresh(rows, d, LabelLoss) }
	largest := row(F32)
	mask, own := row(Bool), row(I64)
	predicted, sum := row(F32), row(F32)
	t.Drop(largest, exponentials)
	loss := row(F32)
	t.Drop(predicted, sum)
	loss = t.op(logits).save(logits, mask, own).sendSaved(0, 0).out(loss, 0)
	t.Drop(mask, own)
	weighed := t.fresh(rows, F32, LabelLoss)
	weighed = t.op(loss).alloc(0, loss.bytes(), LabelLoss).send(0, 0).out(weighed, 0)
	t.Drop(loss)
	mean := t.fresh(1, F32, LabelLoss)
	mean = t.op(weighed).alloc(0, weighed.bytes(), LabelLoss).send(0, 0).out(mean, 0)
	t.Drop(weighed)
	return mean
}
