package step

// ExpertsProduct is torch.nn.functional.grouped_mm(x, w.transpose(-2, -1), offs): every expert's rows of x times its
// matrix of a weight that has them all, where w has a row for each output of each of count experts. Nothing casts its
// arguments but the model itself, which brings x into the type of w; groups is the table of where each expert's rows
// end. How the products are split over the rows depends on the data, and what cuBLAS takes for one of them is left out.
// Source: aten/src/ATen/native/cuda/GroupedBlas.cpp, tools/autograd/derivatives.yaml (_grouped_mm), torch 2.15;
// transformers/integrations/moe.py (_grouped_mm), 5.23.
func (t *Tape) ExpertsProduct(x T, w Weight, count int64, groups T, l Label) T {
	weight := t.Parameter(w)
	input := t.Cast(x, weight.dtype, LabelCast)
	defer t.Drop(input)
	y := t.fresh(input.numel/w.Cols*(w.Rows/count), input.dtype, l)
	o := t.op(input, weight)
	o.keepOperands(0, 1, input, weight)
	if o.i != None {
		o.save(groups)
	}
	if o.needs(1) {
		o.alloc(1, weight.bytes(), LabelWeightGradient)
	}
	if o.needs(0) {
		o.alloc(0, input.bytes(), LabelInputGradient).send(0, 0)
	}
	if o.needs(1) {
		o.sendView(1, 1)
	}
	return o.out(y, 0)
}

// Chunk2 is x.chunk(2, dim=-1): two views, whose gradients are put side by side.
func (t *Tape) Chunk2(x T) (first, second T) { return t.Split2(x, x.numel/2) }

// SumOfChosen is x.view(tokens, k, d).sum(dim=1). The gradient is written out for each of the k.
func (t *Tape) SumOfChosen(x T, k int64, l Label) T {
	to := x.dtype
	if t.autocast {
		to = F32
	}
	y := t.fresh(x.numel/k, to, l)
	o := t.op(x)
	if to != x.dtype {
		o.alloc(1, y.numel*x.dtype.Size(), LabelInputGradient)
	}
	o.alloc(0, x.bytes(), LabelInputGradient)
	if to != x.dtype {
		o.free(1)
	}
	return o.send(0, 0).out(y, 0)
}

// Counts is a table of whole numbers of 32 bits, one for each of count experts.
func (t *Tape) Counts(count int64) T { return t.fresh(count*4, Bool, LabelRouting) }

// CumulativeCounts is torch.cumsum of such a table, and what CUB's scan of CUDA 13.2 asks for up to 1,024 of them.
func (t *Tape) CumulativeCounts(count int64) T {
	y := t.Counts(count)
	t.Drop(t.fresh(1023, Bool, LabelRouting))
	return y
}
