package step

// Weight is a parameter of the model: where it stands in the list of parameters,
// and its shape. A zero Weight, with Index -1, is a parameter that does not exist.
type Weight struct {
	Index      int32
	Rows, Cols int64
	Embeds     Embeds
}

// Embeds says what may happen to the output of a weight that is an embedding.
type Embeds uint8

const (
	// OfInput is the model's input embedding, to whose output noise may be added (Recipe.AddsNoise).
	OfInput Embeds = iota + 1
	// OfInputHooked is one whose output may be made to require a gradient, too (Recipe.InputGradients).
	OfInputHooked
)

// NoWeight is the bias of a layer that has none.
var NoWeight = Weight{Index: -1}

// Exists says whether the model has this parameter.
func (w Weight) Exists() bool { return w.Index >= 0 }

// Parameter is the parameter as a tensor, in the type in which it is stored.
func (t *Tape) Parameter(w Weight) T {
	if t.uses != nil {
		t.uses.Use(w.Index)
		t.used = append(t.used, w.Index)
	}
	p := &t.params[w.Index]
	e := paramEdge(w.Index)
	if p.frozen {
		e = noEdge
	}
	return T{storage: None, edge: e, form: plain(p.dtype), numel: p.numel}
}

// weight is the parameter in the type in which products are computed. Under autocast
// that is a half-precision copy, made once and kept until autocast is left: the cache
// holds copies of leaves that require a gradient.
// Source: aten/src/ATen/autocast_mode.cpp (cached_cast), torch 2.9.
func (t *Tape) weight(w Weight) T {
	p := t.Parameter(w)
	if !t.autocast || p.dtype == t.Recipe.Compute {
		return p
	}
	if s := t.cast[w.Index]; s != None {
		t.retain(s)
		return T{storage: s, edge: t.castEdge[w.Index], form: plain(t.Recipe.Compute), numel: p.numel}
	}
	y := T{storage: t.Alloc(p.numel*t.Recipe.Compute.Size(), PrecisionCopies, LabelWeightCopy), edge: noEdge,
		form: plain(t.Recipe.Compute), numel: p.numel}
	y = t.op(p).alloc(0, p.bytes(), LabelWeightGradient).send(0, 0).out(y, 0)
	if t.params[w.Index].frozen || p.dtype != F32 || !t.exec.cachesCasts() { // not cached, and made anew at every use
		return y
	}
	t.retain(y.storage)
	t.cast[w.Index], t.castEdge[w.Index] = y.storage, y.edge
	t.cached = append(t.cached, w.Index)
	return y
}

// EnterAutocast begins `with torch.autocast(...)` where the recipe uses it.
func (t *Tape) EnterAutocast() { t.autocast, t.exec = t.Recipe.Autocast, t.Recipe.execution() }

// WithoutAutocast runs f in torch.autocast(enabled=False), inside which the cached half copies stay.
func (t *Tape) WithoutAutocast(f func()) {
	autocast, exec := t.autocast, t.exec
	t.autocast, t.exec = false, eager{}
	f()
	t.autocast, t.exec = autocast, exec
}

// ExitAutocast leaves it: the cached half copies lose their owner.
func (t *Tape) ExitAutocast() {
	t.autocast, t.exec = false, eager{}
	for _, p := range t.cached {
		t.Release(t.cast[p])
		t.cast[p] = None
	}
	t.cached = t.cached[:0]
	for k := range t.detached {
		t.Release(t.detached[k].cast.storage)
	}
	t.detached = t.detached[:0]
}

// Linear is nn.Linear: x (N, in) times w (out, in) transposed, plus a bias. It keeps its
// input and the weight in the type in which it computes. Under autocast the arguments
// are cast from the last to the first: bias, weight, input.
func (t *Tape) Linear(x T, w, b Weight, l Label) T { return t.linear(x, w, b, true, l) }

// LinearMatrix is nn.Linear on a matrix, which has not to be folded into one first.
func (t *Tape) LinearMatrix(x T, w, b Weight, l Label) T { return t.linear(x, w, b, false, l) }

func (t *Tape) linear(x T, w, b Weight, folds bool, l Label) T {
	x = t.productInput(x)
	defer t.Drop(x)
	var bias T
	if b.Exists() {
		bias = t.weight(b)
	}
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	return t.product(input, weight, bias, b.Exists(), folds, w.Cols, w.Rows, l)
}

// Conv1D is transformers' Conv1D: torch.addmm(bias, x, w) with w of shape (in, out).
func (t *Tape) Conv1D(x T, w, b Weight, l Label) T {
	x = t.productInput(x)
	defer t.Drop(x)
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	bias := t.weight(b)
	return t.product(input, weight, bias, true, true, w.Rows, w.Cols, l)
}

// TimesParameter is torch.matmul(x, w) of a parameter with a row for each input and of a transposed view of x: where it
// is of several pictures, it is laid out for a parameter that is trained, and multiplied one by one by another.
// Source: aten/src/ATen/native/LinearAlgebra.cpp (should_fold), torch 2.9.
func (t *Tape) TimesParameter(x T, w Weight, l Label) T {
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	folds := weight.edge != noEdge
	if t.Shape.Batch > 1 && folds {
		defer t.Drop(input)
		input = t.Contiguous(input)
	}
	return t.product(input, weight, NoTensor, false, folds, w.Rows, w.Cols, l)
}

// addsInKernel says whether cuBLASLt adds the bias of a product with a matrix of so many rows and columns, which is no
// vector. Source: aten/src/ATen/native/cuda/Blas.cpp (isInputCompliesAddmmCudaLt), torch 2.15.
func addsInKernel(in, out int64) bool { return in > 1 && out > 1 }

// product is mm or addmm; it takes over input, weight and bias. folds says that views make a matrix of the input.
func (t *Tape) product(input, weight, bias T, hasBias, folds bool, in, out int64, l Label) T {
	rows := input.numel / in
	y := T{storage: None, edge: noEdge, form: plain(input.dtype), numel: rows * out}
	kept := t.Recipe.SelectiveOps && t.keepsProduct(hasBias)
	saves := int32(0) // the weight for the input's gradient, the input for the weight's
	for _, operand := range [...]T{input, weight} {
		if operand.edge != noEdge {
			saves++
		}
	}
	switch {
	case t.lastSaves(saves):
	case kept && t.transplant:
		y = t.takeBack()
	default:
		y = t.fresh(rows*out, input.dtype, l)
		t.productSpace(hasBias && addsInKernel(in, out) && t.exec.productAddsBias())
		if kept {
			t.keep(y)
		}
	}
	y = t.exec.recordProduct(t, product{input, weight, bias, rows, in, out, hasBias, folds}, y)
	t.Drop(input, weight)
	if hasBias {
		t.Drop(bias)
	}
	return y
}

// product is a matrix product of rows of the input; folds says that views make a matrix of it.
type product struct {
	input, weight, bias T
	rows, in, out       int64
	hasBias, folds      bool
}

// inputGradient and weightGradient are the bytes of the gradients.
func (x *product) inputGradient() int64  { return x.rows * x.in * x.input.dtype.Size() }
func (x *product) weightGradient() int64 { return x.in * x.out * x.input.dtype.Size() }

// recordProduct records y: addmm where there is a bias, mm elsewhere.
func (eager) recordProduct(t *Tape, x product, y T) T {
	if x.hasBias {
		return t.recordAddMM(x, y)
	}
	o := t.op(x.input, x.weight)
	o.keepLinear(0, 1, x.input, x.weight)
	if o.needs(1) {
		o.alloc(1, x.weightGradient(), LabelWeightGradient).workspace()
	}
	if o.needs(0) {
		o.alloc(0, x.inputGradient(), LabelInputGradient).workspace().sendFolded(0, x.folds)
	}
	if o.needs(1) {
		o.sendView(1, 1)
	}
	return o.out(y, 0)
}

func (t *Tape) recordAddMM(x product, y T) T {
	o := t.op(x.bias, x.input, x.weight)
	o.keepLinear(1, 2, x.input, x.weight)
	if o.needs(1) {
		o.alloc(1, x.inputGradient(), LabelInputGradient).workspace()
	}
	if o.needs(2) {
		o.alloc(2, x.weightGradient(), LabelWeightGradient).workspace()
	}
	if o.needs(0) {
		// of a sum that keeps the rows' dimension
		o.validate().sumRows(0, x.input.dtype, x.rows, x.out, LabelWeightGradient).sendView(0, 0)
	}
	// Behind the product stand a view that folds the input and, younger, one that transposes the weight: the
	// younger hands on its gradient first. With autocast the cast of the input is the youngest.
	order := [...]int{1, 2}
	if x.folds && !t.autocast {
		order = [...]int{2, 1}
	}
	for _, k := range order {
		if o.needs(k) {
			o.sendFolded(k, x.folds || k == 2)
		}
	}
	return o.out(y, 0)
}

// sendFolded hands register k to input k, through a view where one stands before it.
func (o op) sendFolded(k int, view bool) op {
	if view {
		return o.sendView(k, k)
	}
	return o.send(k, k)
}

// keepOperands saves what a product's backward needs: each operand for the other's gradient.
func (o op) keepOperands(a, b int, x, y T) {
	if o.needs(a) {
		o.save(y)
	}
	if o.needs(b) {
		o.save(x)
	}
}

// keepLinear is keepOperands of a linear layer, with its input a and weight b.
func (o op) keepLinear(a, b int, input, weight T) {
	o.keepOperands(a, b, input, weight)
	if o.t.Recipe.LinearKeepsInput && o.needs(a) && !o.needs(b) {
		o.save(input)
	}
}
