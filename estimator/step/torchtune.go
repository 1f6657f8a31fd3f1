package step

// TorchtuneRMSNorm is torchtune's RMSNorm: F.rms_norm of x made float32, which is one kernel where x and the gain have
// that type, and otherwise its formula, whose gain is in the type of the model.
// Sources: torchtune/modules/rms_norm.py, 0.6.1; aten/src/ATen/native/layer_norm.cpp (rms_norm_composite), torch 2.9.
func (t *Tape) TorchtuneRMSNorm(x T, w Weight) T {
	gain := t.Parameter(w)
	if x.dtype == F32 && gain.dtype == F32 {
		return t.NativeRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	mean := t.MeanRows(square, w.Rows, LabelNormStatistics)
	rstd := t.Rsqrt(mean, LabelNormStatistics)
	t.Drop(mean, square)
	normed := t.Mul(x32, rstd, true, LabelNormScaled)
	scaled := t.Mul(normed, gain, false, LabelNormOutput)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled, normed, rstd, x32)
	return y
}

// TurnPairs is torchtune's rotary position embedding of neighbouring pairs in heads of dim elements, in float32 and
// back. The table is looked up by position where sequences are packed, and what is looked up is kept.
// Source: torchtune/modules/position_embeddings.py (RotaryPositionalEmbeddings.forward), 0.6.1.
func (t *Tape) TurnPairs(x T, dim int64, packed bool) T {
	table := NoTensor
	if packed {
		table = t.fresh(t.Shape.N()*dim, F32, LabelRotary)
	}
	wide := t.Float(x, LabelRotary)
	half := wide.numel / 2
	term := func() T {
		part := t.Slice(wide, half)
		y := t.fresh(half, F32, LabelRotary)
		o := t.op(part)
		if packed {
			o.save(table)
		}
		y = o.alloc(0, y.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
		t.Drop(part)
		return y
	}
	a, b := term(), term()
	first := t.Subtract(a, b, LabelRotary)
	t.Drop(a, b)
	a, b = term(), term()
	second := t.Add(a, b, LabelRotary)
	t.Drop(a, b)
	joined := t.fresh(wide.numel, F32, LabelRotary)
	joined = t.op(first, second).pass(0, 0).pass(0, 1).out(joined, 0)
	t.Drop(second, first)
	y := t.Cast(joined, x.dtype, LabelRotary)
	t.Drop(wide, joined, table)
	return y
}

// ChunkedOutput runs the head over the chunks of every sequence, whose logits are in a list. A chunk of several
// sequences is copied for the product. It takes over x.
// Source: torchtune/modules/transformer.py (TransformerDecoder.chunked_output), 0.6.1.
func (t *Tape) ChunkedOutput(x T, head func(*Tape, T) T) []T {
	tokens := t.Shape.Tokens
	rows := t.Recipe.Loss.chunkRows(tokens)
	var widths []int64
	for at := int64(0); at < tokens; at += rows {
		widths = append(widths, x.numel/tokens*min(rows, tokens-at))
	}
	parts := t.splitInto(x, widths)
	logits := make([]T, len(parts))
	for i, part := range parts {
		dense := t.Hold(part)
		if t.Shape.Batch > 1 {
			t.Drop(dense)
			dense = t.Contiguous(part)
		}
		logits[i] = t.runHead(dense, func(x T) T { return head(t, x) })
		t.Drop(dense)
	}
	for _, part := range parts {
		t.Drop(part)
	}
	t.Drop(x)
	return logits
}

// ChunkedOutputLoss adds up F.cross_entropy(chunk.float(), labels, reduction="sum"), which may be compiled, over a list
// of logits, and divides by how many labels there are. It takes over logits.
// Source: torchtune/modules/loss/ce_chunked_output_loss.py (CEWithChunkedOutputLoss), 0.6.1.
func (t *Tape) ChunkedOutputLoss(logits []T, labels T) T {
	count := t.fresh(1, I64, LabelLoss)
	targets := make([]T, len(logits))
	var all int64
	for _, x := range logits {
		all += x.numel
	}
	vocabulary := all / max(labels.numel, 1)
	for i, x := range logits {
		targets[i] = t.Hold(labels)
		targets[i].numel = x.numel / vocabulary
		if t.Shape.Batch > 1 {
			t.Drop(targets[i])
			targets[i] = t.fresh(targets[i].numel, I64, LabelLoss)
		}
	}
	var total T
	for i, x := range logits {
		wide := t.Hold(x)
		if !t.Recipe.CompileLoss {
			t.Drop(wide)
			wide = t.FloatLogits(x)
		}
		loss := t.crossEntropy(wide, targets[i])
		t.Drop(wide)
		if i == 0 {
			total = t.AddScalar(loss, LabelLoss)
		} else { // in place
			sum := t.Hold(total)
			sum = t.op(total, loss).pass(0, 0).pass(0, 1).out(sum, 0)
			t.Drop(total)
			total = sum
		}
		t.Drop(loss)
	}
	mean := t.MulScalar(total, LabelLoss)
	t.Drop(total)
	for i := range logits {
		t.Drop(logits[i], targets[i])
	}
	scaled := t.MulScalar(mean, LabelLoss)
	t.Drop(mean, count)
	return scaled
}

// PackedAttention is flex_attention with a mask of blocks, compiled by itself: a kernel that keeps its arguments, its
// result and one float32 statistic a row and head. Keys and values have a head for every query head.
// Sources: torchtune/modules/attention_utils.py (packed_block_causal_mask, compile_friendly_flex_attention), 0.6.1;
// torch/_inductor/kernel/flex/flex_attention.py (flex_attention, flex_attention_backward), torch 2.9.
func (t *Tape) PackedAttention(q, k, v T, h Heads) T {
	rows := q.numel / h.Dim
	statistics, most := t.fresh(rows, F32, LabelAttentionStatistics), t.fresh(rows, F32, LabelAttentionStatistics)
	y := t.fresh(q.numel, q.dtype, LabelAttentionOutput)
	t.Drop(most)
	const sums, products = 4, 5
	o := t.op(q, k, v).save(q, k, v, y, statistics).alloc(products, y.bytes(), LabelAttentionScratch).
		alloc(sums, rows*F32.Size(), LabelAttentionScratch).free(products)
	for i, x := range []T{q, k, v} {
		o.alloc(i, x.bytes(), LabelInputGradient)
	}
	y = o.free(sums).send(0, 0).send(1, 1).send(2, 2).out(y, 0)
	t.Drop(statistics)
	return y
}
