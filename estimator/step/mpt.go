package step

// MaskedFill is x.masked_fill(mask, c), which keeps the mask.
func (t *Tape) MaskedFill(x, mask T) T {
	return t.exec.masked(t, x, mask, pointwise{form: plain(x.dtype), label: LabelAttentionScores,
		gradient: LabelAttentionScores})
}

// HeadsProduct is torch.matmul of queries and keys, heads of sequences, with numel elements in its result.
func (t *Tape) HeadsProduct(q, k T, h Heads, numel int64, l Label) T {
	x, y := t.matrices(q, h), t.matrices(k, h)
	product := t.BMM(x, y, numel, l)
	t.Drop(x, y)
	return product
}

// ValuesProduct is torch.matmul of probabilities and values.
func (t *Tape) ValuesProduct(p, v T, h Heads) T {
	values := t.matrices(v, h)
	product := t.BMM(p, values, v.numel, LabelAttentionOutput)
	t.Drop(values)
	return product
}

// AddAlibi is scores + bias, where the bias has one row of its own length for every head and stays without gradient.
func (t *Tape) AddAlibi(scores, bias T) T {
	return t.exec.combined(t, scores, bias, combination{scores.numel, promote(scores.dtype, bias.dtype),
		LabelAttentionScores, addAlibi})
}

func addAlibi(t *Tape, scores, _, y T) T {
	o := t.op(scores)
	if y.dtype == scores.dtype {
		return o.pass(0, 0).out(y, 0)
	}
	return o.alloc(0, scores.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
