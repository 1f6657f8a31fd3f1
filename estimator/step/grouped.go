package step

import "github.com/vramplan/vramplan/estimator/release"

// ExpertsProduct is torch.nn.functional.grouped_mm(x, w.transpose(-2, -1), offs): every expert's rows of x times its
// matrix of a weight that has them all, where w has a row for each output of each of count experts. Nothing casts its
// arguments but the model itself, which brings x into the type of w; groups is the table of where each expert's rows
// end. How the products are split over the rows depends on the data, and what cuBLAS takes for one of them is left out.
// Source: aten/src/ATen/native/cuda/GroupedBlas.cpp, tools/autograd/derivatives.yaml (_grouped_mm), torch 2.15;
// transformers/integrations/moe.py (_grouped_mm), 5.23.
func (t *Tape) ExpertsProduct(x T, w Weight, count int64, groups T, l Label) T {
	return t.ExpertsProductOf(x, t.Parameter(w), w, count, groups, l)
}

// copiesExperts is grouped products that copy the transposed weights of all experts.
var copiesExperts = release.Declare("copies-experts", release.Change{
	Library: "transformers", From: "5.10.0", To: "5.10.1",
	What: "transformers 5.10.0 copies the transposed weights of all experts before each grouped product, and " +
		"backward keeps the copies",
	Source: "integrations/moe.py (_grouped_linear), 5.9.0, 5.10.0 and 5.10.1",
	Shown:  "traces of Mixtral with transformers 5.10.0",
})

// ExpertsProductOf is ExpertsProduct of what stands in for w.
func (t *Tape) ExpertsProductOf(x, weight T, w Weight, count int64, groups T, l Label) T {
	if t.Recipe.Software.Has(copiesExperts) {
		weight = t.laidOut(weight)
		defer t.Drop(weight)
	}
	return t.expertsProduct(x, weight, w.Cols, w.Rows/count, groups, l)
}

// laidOut is w.transpose(-2, -1).contiguous(): its gradient, transposed, is copied to lie as w does.
// Source: torch/csrc/autograd/functions/accumulate_grad.h (clone_obey_contract), torch 2.15.
func (t *Tape) laidOut(w T) T {
	y := t.fresh(w.numel, w.dtype, LabelContiguous)
	return t.op(w).alloc(0, w.bytes(), LabelWeightGradient).send(0, 0).out(y, 0)
}

// FillInPlace is x.masked_fill_(mask, 0). It takes over x.
func (t *Tape) FillInPlace(x, mask T) T {
	return t.op(x).save(mask).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(x, 0)
}

// TransposedExpertsProduct is ExpertsProduct where w has a row for each input of each expert.
func (t *Tape) TransposedExpertsProduct(x T, w Weight, count int64, groups T, l Label) T {
	return t.expertsProduct(x, t.Parameter(w), w.Rows/count, w.Cols, groups, l)
}

func (t *Tape) expertsProduct(x, weight T, in, out int64, groups T, l Label) T {
	input := t.Cast(x, weight.dtype, LabelCast)
	defer t.Drop(input)
	y := t.fresh(input.numel/in*out, input.dtype, l)
	if t.Recipe.ComputeCapability < ampere {
		return t.unfusedExperts(y, input, weight, groups)
	}
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

// unfusedExperts is what is called where cards have no such kernel: a function of transformers' own, which keeps
// the groups on its context and forms both gradients, whether they are wanted or not.
// Source: transformers/integrations/moe.py (_grouped_mm_fallback, _grouped_mm_fallback_bwd), 5.23.
func (t *Tape) unfusedExperts(y, input, weight, groups T) T {
	o := t.op(input, weight)
	if o.i == None {
		return y
	}
	o.keep(groups)
	o.save(input, weight).alloc(0, input.bytes(), LabelInputGradient).
		alloc(1, weight.bytes(), LabelWeightGradient)
	if o.needs(0) {
		o.send(0, 0)
	} else {
		o.free(0)
	}
	if o.needs(1) {
		o.sendView(1, 1)
	} else {
		o.free(1)
	}
	return o.out(y, 0)
}

// AddInto is x += b, both of one size and type. It takes over x.
func (t *Tape) AddInto(x, b T) T {
	o := t.op(x, b)
	for k := range 2 {
		if o.needs(k) {
			o.pass(0, k)
		}
	}
	return o.out(x, 0)
}

// Chunk2 is x.chunk(2, dim=-1): two views, whose gradients are put side by side.
func (t *Tape) Chunk2(x T) (first, second T) { return t.Split2(x, x.numel/2) }

// SumOfChosen is x.view(tokens, k, d).sum(dim=1). The gradient is written out for each of the k, in the type of x.
func (t *Tape) SumOfChosen(x T, k int64, l Label) T {
	to := x.dtype
	if t.autocast {
		to = F32
	}
	y := t.fresh(x.numel/k, to, l)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Counts is a table of whole numbers of 32 bits, one for each of count experts.
func (t *Tape) Counts(count int64) T { return t.fresh(count*4, Bool, LabelRouting) }

// CumulativeCounts is torch.cumsum of such a table, and what CUB's scan asks for up to 1,024 of them: 1,023 bytes with
// CUDA 13, 767 before.
func (t *Tape) CumulativeCounts(count int64) T {
	y, scratch := t.Counts(count), int64(767)
	if t.Recipe.Software.Has(padsScans) {
		scratch = 1023
	}
	t.Drop(t.fresh(scratch, Bool, LabelRouting))
	return y
}
