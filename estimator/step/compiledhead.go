package step

// CompiledHead is words·norm(act(dense·x)) + bias as one compiled part; bias may not exist.
func (t *Tape) CompiledHead(x T, dense, gain, words, bias Weight) T {
	h := compiledHead{rows: x.numel / dense.Cols, dense: dense, gain: gain, words: words, bias: bias, input: x}
	d := t.partType()
	first := t.castWeight(dense)
	input := t.Cast(x, d, LabelCast)
	out := t.fresh(h.rows*dense.Rows, d, LabelLinear)
	t.workspace()
	mean, rstd := t.statistics(h.rows)
	normed := t.fresh(out.numel, d, LabelNormOutput)
	table := t.castWeight(words)
	var added T
	if bias.Exists() {
		added = t.castWeight(bias)
	} else {
		added = T{storage: None}
	}
	logits := t.wide(h.rows*words.Rows, d, LabelLogits)
	if bias.Exists() {
		t.workspaceLt()
	}
	t.Drop(added)
	ins := [5]T{x, t.Parameter(dense), t.Parameter(gain), t.Parameter(words), {edge: noEdge}}
	if bias.Exists() {
		ins[4] = t.Parameter(bias)
	}
	o := t.op(ins[0], ins[1], ins[2], ins[3], ins[4]).save(first, input, out, mean, rstd, normed, table)
	if t.autocast && d != t.Recipe.Stored {
		h.backwardCast(o, out.bytes())
	} else {
		h.backward(o, out.bytes())
	}
	logits = o.out(logits, 0)
	t.Drop(first, input, out, mean, rstd, normed, table)
	return logits
}

type compiledHead struct {
	rows                     int64
	dense, gain, words, bias Weight
	input                    T
}

// What the saved tensors and the registers of a compiled head's backward are.
const (
	headDense uint8 = iota
	headInput
	headOut
	headMean
	headRstd
	headNormed
	headTable
)

const (
	headNormedGrad = iota
	headTableGrad
	headPartial
	headBiasGrad
	headTableStored
	headOutGrad
	headGainGrad
	headDenseGrad
	headInputHalf
	headInputGrad
	headDenseStored
)

// gradient is the bytes of the gradient of w in the type d.
func (h *compiledHead) gradient(w Weight, d DType) int64 { return w.Rows * w.Cols * d.Size() }

// biasSum sums the gradient of the logits over the tokens.
func (h *compiledHead) biasSum(o op) op {
	if !h.bias.Exists() {
		return o
	}
	return o.partials(headPartial, h.rows, h.bias.Rows).
		alloc(headBiasGrad, h.gradient(h.bias, o.t.Recipe.Stored), LabelWeightGradient).free(headPartial)
}

// gainSum is the gradient of the norm's gain.
func (h *compiledHead) gainSum(o op) op {
	return o.alloc(headGainGrad, h.gradient(h.gain, o.t.Recipe.Stored), LabelWeightGradient)
}

// backwardCast is the backward under autocast. The halved gradient of the input goes where that of the norm's output
// was, unless the sums over the tokens are small enough to be fused.
func (h *compiledHead) backwardCast(o op, hidden int64) {
	half, stored := o.t.partType(), o.t.Recipe.Stored
	split := o.t.Recipe.outerSplits(h.rows, h.gain.Rows) > 1
	o.alloc(headNormedGrad, hidden, LabelInputGradient).workspace().forget(headTable).
		alloc(headTableGrad, h.gradient(h.words, half), LabelWeightGradient).forget(headNormed)
	h.biasSum(o)
	inputHalf := headNormedGrad
	if split {
		o.alloc(headTableStored, h.gradient(h.words, stored), LabelWeightGradient).free(headTableGrad).
			alloc(headOutGrad, hidden, LabelInputGradient).partials(headPartial, h.rows, h.gain.Rows).forget(headMean,
			headOut, headRstd)
		h.gainSum(o).free(headPartial).
			alloc(headDenseGrad, h.gradient(h.dense, half),
				LabelWeightGradient).forget(headInput).free(headOutGrad).forget(headDense)
	} else {
		inputHalf = headInputHalf
		o.alloc(headOutGrad, hidden, LabelInputGradient)
		h.gainSum(o).free(headNormedGrad).forget(headMean, headOut, headRstd).
			alloc(headTableStored, h.gradient(h.words, stored), LabelWeightGradient).free(headTableGrad).
			alloc(headDenseGrad, h.gradient(h.dense, half), LabelWeightGradient).forget(headInput).
			alloc(headInputHalf, hidden, LabelInputGradient).free(headOutGrad).forget(headDense).
			alloc(headDenseStored, h.gradient(h.dense, stored), LabelWeightGradient).free(headDenseGrad)
	}
	o.alloc(headInputGrad, h.input.bytes(), LabelInputGradient).free(inputHalf)
	if split {
		o.alloc(headDenseStored, h.gradient(h.dense, stored), LabelWeightGradient).free(headDenseGrad)
	}
	h.hand(o, headInputGrad, headDenseStored, headTableStored)
}

// backward is the same in one precision. In float32 the gradient of the first layer's output goes where that of the
// norm's was; in half precision it goes where that output was, and the input's takes the other place.
func (h *compiledHead) backward(o op, hidden int64) {
	d := o.t.Recipe.Stored
	h.biasSum(o)
	o.alloc(headNormedGrad, hidden, LabelInputGradient).workspace().partials(headPartial, h.rows, h.gain.Rows)
	h.gainSum(o).free(headPartial).forget(headMean, headRstd)
	inputGrad := headNormedGrad
	if d == F32 {
		inputGrad = headInputGrad
		o.forget(headOut).alloc(headDenseGrad, h.gradient(h.dense, d), LabelWeightGradient).forget(headInput).
			alloc(headInputGrad, hidden, LabelInputGradient).free(headNormedGrad)
	} else {
		o.alloc(headDenseGrad, h.gradient(h.dense, d), LabelWeightGradient).forget(headInput, headOut)
	}
	o.alloc(headTableGrad, h.gradient(h.words, d), LabelWeightGradient).forget(headNormed)
	h.hand(o, inputGrad, headDenseGrad, headTableGrad)
}

// hand gives the gradients to the inputs.
func (h *compiledHead) hand(o op, input, dense, table int) {
	o.send(input, 0).send(dense, 1).send(headGainGrad, 2).send(table, 3)
	if h.bias.Exists() {
		o.send(headBiasGrad, 4)
	}
}
