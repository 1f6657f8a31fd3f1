package step

// again is what the backward of a compiled block reads: saved, or made again.
type again struct {
	attended
	x, projected, rstd, normed, gate, up, active int
}

// recall lists what is made again before the backward of the MLP, on what was saved.
func (b *block) recall(saved []int) again {
	d, p, s := b.compute, again{x: saved[0]}, saved[1:]
	switch b.keeps {
	case blockKeepsAll:
		p.attended = attended{rstd: s[0], normed: s[1], query: s[2], key: s[3], value: s[4], out: s[5],
			statistics: s[6], state: s[7], seed: s[8]}
		p.projected, p.rstd, p.normed, p.gate, p.up, p.active = s[9], s[10], s[11], s[12], s[13], s[14]
		return p
	case blockKeepsProducts:
		p.attended = attended{query: s[0], value: s[1], out: s[2], statistics: s[3], state: s[4], seed: s[5]}
	case blockKeepsInput:
		p.attended = b.attend(true, false)
	}
	p.projected = b.product(b.residual, d, LabelLinear)
	p.rstd, p.normed = b.norm(true)
	if b.keeps == blockKeepsInput {
		p.gate = b.product(b.inner(), d, LabelLinear)
	} else {
		p.gate = s[6]
	}
	p.up = b.product(b.inner(), d, LabelLinear)
	return p
}

// The places of the parameters' gradients.
const (
	gradAttentionNorm = iota
	gradQuery
	gradKey
	gradValue
	gradOut
	gradMLPNorm
	gradGate
	gradUp
	gradDown
)

// weightGradient is the product that gives the gradient of w.
func (b *block) weightGradient(place int, w Weight) {
	b.gradients[place] = b.product(w.Rows*w.Cols, b.compute, LabelWeightGradient)
}

// mlpGradient lists the backward of the MLP down to the gradients of its norm's output, by way of up and of gate.
func (b *block) mlpGradient(p *again) (byUp, byGate int) {
	d, wide := b.compute, b.inner()
	inner := func() int { return b.product(wide, d, LabelInputGradient) }
	var gate, up int
	if b.keeps == blockKeepsAll { // the gradient of one of them lies where up was
		b.weightGradient(gradDown, b.Down)
		b.done(p.active)
		active := inner()
		up, gate = b.buffer(wide, d, LabelInputGradient), p.up
		b.rewrites(wide, d)
		b.done(active, p.gate)
	} else {
		active := inner()
		p.active = b.buffer(wide, d, LabelActivation)
		up = b.also(wide, d, LabelInputGradient)
		gate = b.also(wide, d, LabelInputGradient)
		b.done(p.up, active, p.gate)
		b.weightGradient(gradDown, b.Down)
		b.done(p.active)
	}
	b.weightGradient(gradUp, b.Up)
	byUp = b.product(b.residual, d, LabelInputGradient)
	b.done(up)
	b.weightGradient(gradGate, b.Gate)
	b.done(p.normed)
	byGate = b.product(b.residual, d, LabelInputGradient)
	b.done(gate)
	return byUp, byGate
}

// gradient lists the kernels of the backward on what was saved, and returns the place of the input's gradient.
func (b *block) gradient(saved []int) int {
	d, p := b.compute, b.recall(saved)
	byUp, byGate := b.mlpGradient(&p)
	b.kernel()
	if b.keeps == blockKeepsProducts {
		p.attended.rstd = b.also(b.rows, F32, LabelNormStatistics)
	}
	hidden := b.also(b.residual, d, LabelInputGradient)
	if b.keeps == blockKeepsProducts {
		p.attended.normed = b.also(b.residual, d, LabelNormOutput)
	}
	out := b.product(b.queries, d, LabelInputGradient)
	if b.keeps == blockKeepsProducts {
		b.attendAgain(&p)
	}
	dq, dk, dv := b.attentionKernel(&p, out)
	values := dv
	if b.shares() {
		values = b.buffer(b.keys, d, LabelInputGradient)
		b.done(dv)
	}
	byValue := b.product(b.residual, d, LabelInputGradient)
	keys := b.turnedBack(dk, b.keys)
	byKey := b.product(b.residual, d, LabelInputGradient)
	queries := b.turnedBack(dq, b.queries)
	byQuery := b.product(b.residual, d, LabelInputGradient)

	b.kernel()
	lower, upper := b.partialSums(), b.partialSums()
	b.done(byUp, byGate, p.projected, p.rstd)
	b.gradients[gradMLPNorm] = b.gain(b.MLPNorm, lower)
	b.weightGradient(gradOut, b.Out)
	b.done(p.out)
	b.weightGradient(gradValue, b.Value)
	b.done(values)
	b.weightGradient(gradKey, b.Key)
	b.done(keys)
	b.weightGradient(gradQuery, b.Query)
	b.done(queries, p.attended.normed)
	b.kernel()
	b.done(byValue, byKey, byQuery, p.x, p.attended.rstd) // the input's gradient lies where that of hidden was
	b.gradients[gradAttentionNorm] = b.gain(b.AttentionNorm, upper)
	return hidden
}

// attendAgain makes what attention reads from the products that were kept.
func (b *block) attendAgain(p *again) {
	d := b.compute
	wide := b.buffer(b.queries, F32, LabelRotary)
	b.done(p.query)
	turned := b.turned(b.queries, 0)
	b.done(wide)
	p.query = b.buffer(b.queries, d, LabelRotary)
	b.done(turned)
	k := b.product(b.keys, d, LabelLinear)
	wide = b.buffer(b.keys, F32, LabelRotary)
	b.done(k)
	turned = b.turned(b.keys, 0)
	b.done(wide)
	p.key = b.buffer(b.widened, d, LabelExpandedKV)
	b.done(turned)
	if v := p.value; b.shares() {
		p.value = b.buffer(b.widened, d, LabelExpandedKV)
		b.done(v)
	}
}

// attentionKernel is flash attention's backward on the gradient of its output.
// Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_bwd), torch 2.9.
func (b *block) attentionKernel(p *again, out int) (dq, dk, dv int) {
	const tile = 128
	t := b.t
	rows := t.Shape.Batch * b.Heads.Query * roundUp(t.Shape.Tokens, tile)
	b.kernel()
	dq = b.add(b.queries, b.compute, LabelInputGradient, ofOperator)
	dk = b.add(b.widened, b.compute, LabelInputGradient, ofOperator)
	dv = b.add(b.widened, b.compute, LabelInputGradient, ofOperator)
	sums := b.add(rows, F32, LabelAttentionScratch, withinOperator)
	collected := b.add(rows*t.flashHead(b.Heads), F32, LabelAttentionScratch, withinOperator)
	b.done(collected, sums)
	b.done(p.query, p.key, p.value, p.statistics, p.state, p.seed, out)
	return dq, dk, dv
}

// turnedBack lists the rotation of a gradient of n elements backward, in float32.
func (b *block) turnedBack(gradient int, n int64) int {
	if b.TurnsPairs {
		return b.pairsBack(gradient, n)
	}
	wide := b.buffer(n, F32, LabelRotary)
	b.done(gradient)
	turned := b.turned(n, b.table)
	b.done(wide)
	y := b.buffer(n, b.compute, LabelInputGradient)
	b.done(turned)
	return y
}

// partialSums are those of a norm's gradient over the rows.
func (b *block) partialSums() int {
	return b.also(b.t.Recipe.partialElements(b.rows, b.hidden), F32, LabelReduction)
}

// gain is the gradient of a norm's weight, from partial sums.
func (b *block) gain(w Weight, sums int) int {
	g := b.buffer(w.Rows, b.compute, LabelWeightGradient)
	b.done(sums)
	return g
}

// pairsBack is the same of pairs, in one kernel or, where several queries share a head, whose gradients are summed, in
// two with the four products of halves between them.
func (b *block) pairsBack(gradient int, n int64) int {
	if !b.shares() || n == b.queries {
		y := b.buffer(n, b.compute, LabelInputGradient)
		b.done(gradient)
		return y
	}
	var products [4]int
	b.kernel()
	for i := range products {
		products[i] = b.also(n/2, F32, LabelRotary)
	}
	b.done(gradient)
	y := b.buffer(n, b.compute, LabelInputGradient)
	b.done(products[:]...)
	return y
}
