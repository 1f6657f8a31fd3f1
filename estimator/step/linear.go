package step

// Weight is a parameter of the model: where it stands in the list of parameters,
// and its shape. A zero Weight, with Index -1, is a parameter that does not exist.
type Weight struct {
	Index      int32
	Rows, Cols int64
	// Hooked marks an embedding whose output may be made to require a gradient (Recipe.InputGradients).
	Hooked bool
}

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
	if t.params[w.Index].frozen || p.dtype != F32 || t.compiled { // not cached, and made anew at every use
		return y
	}
	t.retain(y.storage)
	t.cast[w.Index], t.castEdge[w.Index] = y.storage, y.edge
	t.cached = append(t.cached, w.Index)
	return y
}

// EnterAutocast begins `with torch.autocast(...)` where the recipe uses it.
func (t *Tape) EnterAutocast() { t.autocast, t.compiled = t.Recipe.Autocast, t.Recipe.Compile }

// ExitAutocast leaves it: the cached half copies lose their owner.
func (t *Tape) ExitAutocast() {
	t.autocast, t.compiled = false, false
	for _, p := range t.cached {
		t.Release(t.cast[p])
		t.cast[p] = None
	}
	t.cached = t.cached[:0]
	t.Release(t.leafCast.storage)
	t.leafCast.storage = None
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
		t.productSpace(hasBias && !t.compiled)
		if kept {
			t.keep(y)
		}
	}
	inGrad, weightGrad := rows*in*input.dtype.Size(), in*out*input.dtype.Size()
	if t.compiled {
		y = t.compiledProduct(y, input, weight, bias, inGrad, weightGrad)
	} else if hasBias {
		o := t.op(bias, input, weight)
		o.keepOperands(1, 2, input, weight)
		if o.needs(1) {
			o.alloc(1, inGrad, LabelInputGradient).workspace()
		}
		if o.needs(2) {
			o.alloc(2, weightGrad, LabelWeightGradient).workspace()
		}
		if o.needs(0) {
			// of a sum that keeps the rows' dimension
			o.validate().sumRows(0, input.dtype, rows, out, LabelWeightGradient).sendView(0, 0)
		}
		// Behind the product stand a view that folds the input and, younger, one that transposes the weight: the
		// younger hands on its gradient first. With autocast the cast of the input is the youngest.
		order := [...]int{1, 2}
		if folds && !t.autocast {
			order = [...]int{2, 1}
		}
		for _, k := range order {
			if o.needs(k) {
				o.sendFolded(k, folds || k == 2)
			}
		}
		y = o.out(y, 0)
	} else {
		o := t.op(input, weight)
		o.keepOperands(0, 1, input, weight)
		if o.needs(1) {
			o.alloc(1, weightGrad, LabelWeightGradient).workspace()
		}
		if o.needs(0) {
			o.alloc(0, inGrad, LabelInputGradient).workspace().sendFolded(0, folds)
		}
		if o.needs(1) {
			o.sendView(1, 1)
		}
		y = o.out(y, 0)
	}
	t.Drop(input)
	t.Drop(weight)
	if hasBias {
		t.Drop(bias)
	}
	return y
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

// Embedding is nn.Embedding: rows of w for n ids. It keeps the ids.
func (t *Tape) Embedding(ids T, w Weight, l Label) T {
	p := t.Parameter(w)
	if t.compiled {
		return t.gather(p, ids, ids.numel*w.Cols, l)
	}
	y := t.fresh(ids.numel*w.Cols, p.dtype, l)
	o := t.op(p).save(ids)
	o.embeddingGradient(ids.numel, w.Rows, w.Cols, p.dtype)
	y = o.send(0, 0).out(y, 0)
	if w.Hooked && t.Recipe.InputGradients {
		return t.requireGrad(y)
	}
	return y
}

// embeddingGradient is embedding_dense_backward. Up to 3,072 ids one simple kernel adds
// the rows; beyond, the ids are sorted and rows of the same id are summed segment by segment.
// Sources: aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu, torch 2.9;
// the sizes of CUB's temporaries were read off traces (CUDA 12.8).
func (o op) embeddingGradient(n, rows, cols int64, d DType) {
	const (
		simpleKernelIDs = 3072
		rowsPerThread   = 10
	)
	grad := rows * cols * d.Size()
	if n <= simpleKernelIDs {
		o.alloc(0, grad, LabelGradient)
		return
	}
	ids := n * 8
	segments := min(n, rows)
	partial := n/rowsPerThread + segments
	o.alloc(1, ids, LabelEmbeddingSort). // sorted ids
						alloc(2, ids, LabelEmbeddingSort). // their former places
						alloc(3, ids, LabelEmbeddingSort). // 0, 1, 2, …
						scratch(o.t.embeddingSortScratch(n, rows), LabelEmbeddingSort).
						free(3).
						alloc(0, grad, LabelGradient).
						alloc(4, ids, LabelEmbeddingSort). // where each segment starts
						alloc(5, 8, LabelEmbeddingSort).
						alloc(6, ids, LabelEmbeddingSort).
						scratch(o.t.scanScratch(n), LabelEmbeddingSort).
						free(6).
						alloc(7, segments*8, LabelEmbeddingSort).
						alloc(8, segments*8, LabelEmbeddingSort).
						scratch(o.t.scanScratch(segments), LabelEmbeddingSort).
						alloc(9, 8, LabelEmbeddingSort).
						alloc(10, partial*8, LabelEmbeddingSort).
						scratch(partial*cols*4, LabelEmbeddingSort)
	for _, r := range [...]int{10, 9, 8, 7, 5, 4, 2, 1} {
		o.free(r)
	}
}

// embeddingSortScratch is what sorting n ids below rows takes: of all 64 bits, or of those that
// the number of rows has.
func (t *Tape) embeddingSortScratch(n, rows int64) int64 {
	if t.Recipe.Software.SortsFewerBits {
		return t.indexSortScratch(n, rows+1)
	}
	return t.sortScratch(n)
}

// sortScratch is what CUB's radix sort of n 64-bit keys with 64-bit values asks for: two buffers of n,
// counters, and 1 KiB for every tile, whose size is tuned for each architecture. Read off PyTorch 2.9 with CUDA 12.8
// for n from 3,073 to 2^20, exact there.
func (t *Tape) sortScratch(n int64) int64 {
	return 2*roundUp(8*n, 256) + 16895 + 1024*CeilDiv(n, t.sortTile())
}

// sortTile is how many keys a block of CUB's radix sort takes.
func (t *Tape) sortTile() int64 {
	switch cc := t.Recipe.ComputeCapability; {
	case cc < 80:
		return 2816
	case cc >= 90:
		return 4608
	}
	return 3840
}

// scanScratch is what CUB's scan of n 64-bit values asks for: 16 bytes for each tile and for 32 more; same source and
// range. CUB of CUDA 13 has smaller tiles for Ampere's largest chip and 256 bytes more; read off PyTorch 2.15 for n
// from 3,073 to 400,000, exact there with any tile from 1,316 to 1,388.
func (t *Tape) scanScratch(n int64) int64 {
	tile, more := int64(320), int64(255)
	pads := t.Recipe.Software.PadsScans
	if pads {
		more = 511
	}
	switch cc := t.Recipe.ComputeCapability; {
	case cc == 80 && pads:
		tile = 1344
	case cc == 80:
		tile = 1792
	case cc >= 90:
		tile = 4608
	}
	return roundUp(16*(CeilDiv(n, tile)+32), 256) + more
}

// LayerNorm is nn.LayerNorm over rows of d elements; float32 under autocast, which casts the arguments from the last
// to the first. It keeps its input, gain and bias, and two float32 statistics a row.
func (t *Tape) LayerNorm(x T, w, b Weight) T { return t.layerNorm(x, w, b, false) }

// TransposedLayerNorm is nn.LayerNorm of rows whose elements do not lie side by side: the kernel copies them before it
// starts, in forward and again in backward.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous), torch 2.9.
func (t *Tape) TransposedLayerNorm(x T, w, b Weight) T { return t.layerNorm(x, w, b, true) }

func (t *Tape) layerNorm(x T, w, b Weight, transposed bool) T {
	if t.compiled {
		return t.fusedNorm(x, w, b, false)
	}
	if t.Recipe.Kernels.LayerNorm {
		return t.fusedLayerNorm(x, w, b)
	}
	var bias T
	if b.Exists() {
		bias = t.autocastTo(t.Parameter(b), F32, LabelWeightCopy)
	}
	weight := t.autocastTo(t.Parameter(w), F32, LabelWeightCopy)
	input := t.autocastTo(x, F32, LabelCast)
	rows := input.numel / w.Rows
	dense := NoTensor
	if transposed {
		dense = t.fresh(input.numel, input.dtype, LabelContiguous)
	}
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	t.Drop(dense)
	ins := [3]T{input, weight, bias}
	n := 2
	if b.Exists() {
		n = 3
	}
	o := t.op(ins[:n]...).save(input, mean, rstd).save(ins[1:n]...)
	const copied = 4
	if transposed {
		o.alloc(copied, input.bytes(), LabelContiguous)
	}
	if o.needs(0) {
		o.alloc(0, input.bytes(), LabelInputGradient).send(0, 0)
	}
	for k := 1; k < n; k++ {
		if o.needs(k) {
			o.alloc(k, ins[k].bytes(), LabelWeightGradient).send(k, k)
		}
	}
	o.tallNorm(n, rows, w.Rows, input.dtype)
	if transposed {
		o.free(copied)
	}
	y = o.out(y, 0)
	t.Drop(mean)
	t.Drop(rstd)
	t.Drop(input)
	for _, x := range ins[1:n] {
		t.Drop(x)
	}
	return y
}

// tallNorm is what the gradients of a LayerNorm's gain and bias take when there are very many rows of few
// elements: blocks of 32 rows are summed first, and then their sums.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormBackwardKernelImplInternal), torch 2.9.
func (o op) tallNorm(n int, rows, width int64, d DType) {
	const manyRows, warp, maxBlocks = 64 * 1024, 32, 32 * 1024
	if !o.needs(1) || rows <= manyRows || width/warp >= o.t.Recipe.Multiprocessors/2 {
		return
	}
	blocks := min(CeilDiv(rows, 32), maxBlocks/CeilDiv(width, warp))
	for k := 1; k < n; k++ {
		o.alloc(k+4, blocks*width*d.Size(), LabelReduction)
	}
	for k := 1; k < n; k++ {
		o.sumRows(8, d, blocks, width, LabelReduction).free(8)
	}
	for k := 1; k < n; k++ {
		o.free(k + 4)
	}
}

// RMSNorm is the norm of the Llama family as transformers writes it, in Python: the input
// goes to float32, is scaled by its root mean square, comes back and is multiplied by the weight.
// Source: transformers/models/llama/modeling_llama.py (LlamaRMSNorm), 4.57.
func (t *Tape) RMSNorm(x T, w Weight) T {
	if t.compiled {
		return t.fusedNorm(x, w, NoWeight, true)
	}
	if t.Recipe.Kernels.RMSNorm {
		return t.fusedRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	variance := t.MeanRows(square, w.Rows, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(variance, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd)
	t.Drop(x32)
	back := t.Cast(normalised, x.dtype, LabelNormScaled)
	y := t.Mul(t.Parameter(w), back, false, LabelNormOutput)
	t.Drop(back)
	t.Drop(normalised)
	t.Drop(variance)
	return y
}
