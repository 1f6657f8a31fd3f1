package step

import "math"

// What torchtitan's mixtures of experts do with tokens. Which expert gets how many of them depends on the data; they
// are taken evenly divided. Source: torchtitan/models/moe/moe.py, utils.py, kernels.py, 0.2.0.

// RowAlignment is to how many rows the tokens of an expert are filled up, so that products can be grouped.
const RowAlignment = 8

// Divide is x / sum, where sum has one value for each row of x, in the wider type of both.
func (t *Tape) Divide(x, sum T) T {
	wide := x.numel * promote(x.dtype, sum.dtype).Size()
	y := t.fresh(x.numel, promote(x.dtype, sum.dtype), LabelRouting)
	o := t.op(x, sum)
	if o.i == None {
		return y
	}
	const divisor, summed = 5, 1
	quotient := 0
	o.save(sum, x).divisorGradient(wide, wide).alloc(quotient, wide, LabelRouting).validate()
	if x.bytes() != wide {
		quotient = 6
		o.alloc(quotient, x.bytes(), LabelRouting).free(0)
	}
	return o.alloc(summed, sum.bytes(), LabelRouting).free(divisor).send(quotient, 0).send(summed, 1).out(y, 0)
}

// GatherWhole is torch.gather of rows of d elements by an index that is shown to all columns. The gradient is added up
// in zeros as large as x.
func (t *Tape) GatherWhole(x, rows T, d int64) T {
	y := t.fresh(rows.numel*d, x.dtype, LabelExpertInput)
	return t.op(x).save(rows).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// ScatterAdd is x.scatter_add(0, rows, source): a copy of x to which rows are added. The gradient of the rows is
// gathered. It takes over x.
func (t *Tape) ScatterAdd(x, rows, source T) T {
	y := t.fresh(x.numel, x.dtype, LabelExpertOutput)
	o := t.op(x, source).save(rows)
	if o.needs(0) {
		o.pass(0, 0)
	}
	if o.needs(1) {
		o.alloc(1, source.bytes(), LabelInputGradient).send(1, 1)
	}
	y = o.out(y, 0)
	t.Drop(x)
	return y
}

// Permuted rows are those of x in the order of the experts, each expert's filled up to a multiple of RowAlignment.
// It takes over x. counts is how many there are of each, by GPU and expert, and experts how many are here.
func (t *Tape) PermuteRows(x T, d, counts, experts int64) (y, rows, sizes T) {
	sizes, rows, ends := t.permutation(roundUp(x.numel/d+experts*RowAlignment, RowAlignment), counts, experts)
	filler := t.fresh(d, x.dtype, LabelExpertInput)
	below := t.fresh(x.numel+d, x.dtype, LabelExpertInput) // torch.vstack
	t.Drop(filler)
	below = t.op(x).act(act{verb: actPassView}).out(below, 0)
	n := rows.numel
	wide := t.fresh(n, I64, LabelRouting)
	y = t.fresh(n*d, x.dtype, LabelExpertInput)
	t.Drop(wide)
	const converted = 14
	o := t.op(below).save(rows).alloc(0, below.bytes(), LabelInputGradient).
		alloc(converted, n*I64.Size(), LabelRouting).scatterPlaces(n, 1).free(converted).
		scatterSorted(n, below.numel/d)
	y = o.send(0, 0).out(y, 0)
	t.Drop(below, x, ends)
	return y, rows, sizes
}

// permutation is generate_permute_indices: where every row of the filled-up ones comes from, and how many of them each
// expert has.
func (t *Tape) permutation(rows, counts, experts int64) (sizes, indices, ends T) {
	all := func() T { return t.RoutingTensor(counts, I64) }
	each := func() T { return t.RoutingTensor(experts, I64) }
	then := func(x T, next func() T) T {
		y := next()
		t.Drop(x)
		return y
	}
	const scan = 1023
	starts := all()
	t.Drop(t.fresh(scan, Bool, LabelRouting))
	starts = then(starts, all)
	total := each()
	total = then(total, each) // at least RowAlignment
	up := each()
	for range 3 {
		up = then(up, each)
	}
	sizes = then(up, func() T { return t.Counts(experts) })
	wide := each()
	sums := each()
	t.Drop(t.fresh(scan, Bool, LabelRouting))
	t.Drop(wide)
	offsets := each()
	indices = t.Counts(rows)
	indices.numel = rows
	ends = t.Counts(experts)
	t.Drop(starts, total, sums, offsets)
	return sizes, indices, ends
}

// UnpermuteRows puts the rows of x back where they were among so many elements, and leaves out
// what was filled up.
func (t *Tape) UnpermuteRows(x, rows T, d, numel int64) T {
	n := rows.numel
	whole := t.fresh(numel+d, x.dtype, LabelExpertOutput)
	t.Drop(t.fresh(n, I64, LabelRouting))
	const converted = 1
	whole = t.op(x).save(rows).alloc(converted, n*I64.Size(), LabelRouting).alloc(0, x.bytes(), LabelInputGradient).
		free(converted).send(0, 0).out(whole, 0)
	y := t.SliceRows(whole, numel)
	t.Drop(whole)
	return y
}

// RowOffsets are where the rows of each of so many experts end.
func (t *Tape) RowOffsets(experts int64) T {
	y := t.Counts(experts)
	const scan = 767
	t.Drop(t.fresh(scan, Bool, LabelRouting))
	return y
}

// GroupedMM is torch._grouped_mm of x and the transposed matrices of w, count of them, as CUTLASS does it on Hopper:
// beside each product, arguments for every expert and for every multiprocessor. Source:
// aten/src/ATen/native/cuda/GroupMM.cu (bf16bf16_grouped_gemm_impl_sm90_sm100), torch 2.9.
func (t *Tape) GroupedMM(x T, w Weight, count int64, offsets T, l Label) T {
	weight := t.Parameter(w)
	in, out := w.Cols, w.Rows/count
	const each, workspace = 60, 640
	arguments, scratch := count*each, t.Recipe.Multiprocessors*workspace
	y := t.fresh(x.numel/in*out, x.dtype, l)
	given := t.fresh(arguments, Bool, LabelWorkspace)
	t.Drop(t.fresh(scratch, Bool, LabelWorkspace))
	t.Drop(given)
	o := t.op(x, weight)
	o.keepOperands(0, 1, x, weight)
	if o.i != None {
		o.save(offsets)
	}
	const first, second = 2, 3
	product := func(k int, bytes int64, l Label) {
		o.alloc(k, bytes, l).alloc(first, arguments, LabelWorkspace).alloc(second, scratch, LabelWorkspace).
			free(second).free(first)
	}
	if o.needs(1) {
		product(1, weight.bytes(), LabelWeightGradient)
	}
	if o.needs(0) {
		product(0, x.bytes(), LabelInputGradient)
		o.send(0, 0)
	}
	if o.needs(1) {
		o.sendView(1, 1)
	}
	return o.out(y, 0)
}

// SendRows is all_to_all_single_autograd of rows of d elements to the GPUs of their experts: in its place stands a
// buffer of the rows that other GPUs have sent, as many as Recipe.Received says. Source:
// torch/distributed/_functional_collectives.py, torch 2.9.
func (t *Tape) SendRows(x T, d int64) T {
	received := x.numel
	if f := t.Recipe.Received; f > 0 {
		received = int64(math.Ceil(float64(x.numel/d)*f)) * d
	}
	return t.exchange(x, received)
}

// ReturnRows is the way back, of numel elements that this GPU had sent.
func (t *Tape) ReturnRows(x T, numel int64) T { return t.exchange(x, numel) }

func (t *Tape) exchange(x T, numel int64) T {
	y := t.fresh(numel, x.dtype, LabelExpertInput)
	return t.op(x).alloc(0, x.bytes(), LabelCollective).send(0, 0).out(y, 0)
}
