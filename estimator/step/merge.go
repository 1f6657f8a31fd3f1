package step

import "github.com/vramplan/vramplan/estimator/release"

// How pictures come to stand in a sequence: the features of their patches are scattered over the tokens that stand for
// them.

// CountMasked is x[mask].numel(), with which models check that there is a token for every feature. places is how many
// entries the mask has, of dims dimensions and expanded over the last of them, and chosen how many of them are true.
// Nothing of it stays. Source: aten/src/ATen/native/cuda/Nonzero.cu (nonzero_cuda_out_impl), torch 2.9.
func (t *Tape) CountMasked(x T, chosen, dims int64) {
	indices := t.indicesOf(x.numel, chosen, dims, true)
	t.Drop(t.fresh(chosen, x.dtype, LabelEmbedding))
	t.Drop(indices)
}

// indicesOf is mask.nonzero() of places entries; expanded says that the mask is laid out first.
func (t *Tape) indicesOf(places, chosen, dims int64, expanded bool) T {
	mask := NoTensor
	if expanded {
		mask = t.fresh(places, Bool, LabelInput)
	}
	count := t.fresh(1, F32, LabelInput) // 32 bits
	t.Drop(t.fresh(t.countScratch(places), Bool, LabelReduction))
	indices := t.fresh(chosen*dims, I64, LabelInput)
	t.Drop(t.fresh(t.selectScratch(places), Bool, LabelReduction))
	t.Drop(count, mask)
	return indices
}

// MaskedScatter is x.masked_scatter(mask, source) with a mask that is expanded over the last of dims dimensions, of
// which tokens is the tensor behind. It takes over the entries of source in their order, and so counts those that are
// true. Source: aten/src/ATen/native/cuda/IndexKernel.cpp (masked_scatter__cuda),
// torch/csrc/autograd/FunctionsManual.cpp (masked_scatter_backward), torch 2.9.
func (t *Tape) MaskedScatter(x, tokens, source T, dims int64) T {
	y := t.fresh(x.numel, x.dtype, LabelEmbedding)
	before := t.fresh(x.numel, I64, LabelInput)
	mask := t.fresh(x.numel, Bool, LabelInput)
	t.Drop(t.fresh(t.maskScanScratch(x.numel), Bool, LabelReduction))
	t.Drop(mask, before)
	o := t.op(x, source).save(tokens)
	const ofX, laidOut, count, indices, ofSource = 0, 1, 2, 3, 4
	if o.needs(0) {
		o.alloc(ofX, x.bytes(), LabelInputGradient)
	}
	if o.needs(1) {
		o.alloc(laidOut, x.numel, LabelElementwise).alloc(count, 4, LabelElementwise).scratch(t.countScratch(x.numel),
			LabelReduction).
			alloc(indices, source.numel*dims*I64.Size(), LabelElementwise).scratch(t.selectScratch(x.numel),
			LabelReduction).
			free(count).free(laidOut).alloc(ofSource, source.bytes(), LabelInputGradient).free(indices)
	}
	if o.needs(0) {
		o.send(ofX, 0)
	}
	if o.needs(1) {
		o.send(ofSource, 1)
	}
	return o.out(y, 0)
}

// JoinPictures is torch.cat(list(x)) of what has a row of features for every picture: a copy, whose gradient is stacked
// again.
func (t *Tape) JoinPictures(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelEmbedding)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// WithoutFirst is x[:, 1:] of rows of width elements: a view, whose gradient is as large as x.
func (t *Tape) WithoutFirst(x T, width int64) T {
	y := t.Hold(x)
	y.numel -= t.Shape.Batch * width
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Reduced is sum() of places truth values as it runs for a message: nothing of it is kept but the result.
func (t *Tape) Reduced(places int64) T {
	sum := t.Input(1, I64)
	t.SumScratch(places)
	return sum
}

// countScratch is what CUB's sum of n truth values asks for: four bytes for each of five blocks a resident one, of
// which there are two a multiprocessor; one byte where a single block sums them. Read off PyTorch 2.9 and 2.15 for n up
// to 12.6 million on compute capabilities 8.0, 8.9 and 9.0.
func (t *Tape) countScratch(n int64) int64 {
	const oneBlock, blocks, resident = 4096, 5, 2
	if n <= oneBlock {
		return 1
	}
	return roundUp(t.Recipe.Multiprocessors*resident*blocks*4, 256) + 255
}

// selectScratch is what CUB's selection of n flagged items asks for: eight bytes for each tile and for 32 more; same
// source and range.
func (t *Tape) selectScratch(n int64) int64 {
	tile := int64(640)
	switch cc := t.Recipe.ComputeCapability; {
	case cc == ampere:
		tile = 2304
	case cc >= 90:
		tile = 4224
	}
	return roundUp(8*(CeilDiv(n, tile)+32), 256) + t.scanAlignment()
}

// maskScanScratch is what CUB's scan of n truth values into 64-bit counts asks for: 16 bytes for each tile and for 32
// more; same source and range.
func (t *Tape) maskScanScratch(n int64) int64 {
	const tile = 896
	return roundUp(16*(CeilDiv(n, tile)+32), 256) + t.scanAlignment()
}

// scanAlignment is what CUB adds to align the parts of its storage.
func (t *Tape) scanAlignment() int64 {
	if t.Recipe.Software.Has(padsScans) {
		return 511
	}
	return 255
}

// GraphSize is how many operations of the graph there are.
func (t *Tape) GraphSize() int32 { return int32(len(t.nodes)) }

// Abandon lets go of what the operations from one number to another saved: of a part of the graph that nobody refers to
// any more, and that no gradient will come back to.
func (t *Tape) Abandon(from, to int32) {
	for i := from; i < to; i++ {
		t.releaseSaved(&t.nodes[i])
	}
}

// MarkUnreached marks the parameters that are trained and that no gradient reached in the recorded micro-step:
// optimizers and the clipping of gradients leave out what has none. Source: torch/optim/adam.py (_init_group),
// torch/nn/utils/clip_grad.py, torch 2.9.
func (t *Tape) MarkUnreached() {
	for i := range t.Parameters {
		p := &t.Parameters[i]
		p.Unreached = p.Trained() && !t.params[i].graded
	}
}

// MaskIndices is mask.nonzero() of n entries that are all true.
func (t *Tape) MaskIndices(n int64) T { return t.indicesOf(n, n, 1, false) }

// ChosenRows is x[mask] with a mask over rows of x that are all chosen: a copy of x, of numel elements.
func (t *Tape) ChosenRows(numel, rows int64, d DType) T {
	indices := t.MaskIndices(rows)
	y := t.fresh(numel, d, LabelInput)
	t.Drop(indices)
	return y
}

// MergeRows is torch.where(mask, zeros with rows put in, x): the rows are picked from features by two indices, put
// where the mask of places entries is true, and x stays elsewhere. Source:
// transformers/models/smolvlm/modeling_smolvlm.py (inputs_merger), 4.57;
// aten/src/ATen/native/TensorAdvancedIndexing.cpp (index_put_), torch 2.9.
func (t *Tape) MergeRows(x, zeros, mask, features T, rows, places int64) T {
	const dims = 2
	pick := func() T {
		at := t.indicesOf(places, rows, dims, false)
		y := t.fresh(rows, I64, LabelInput)
		t.Drop(at)
		return y
	}
	blocks, local := pick(), pick()
	picked := t.fresh(features.numel, features.dtype, LabelEmbedding)
	o := t.op(features).save(blocks, local).alloc(0, features.bytes(), LabelInputGradient).scatterScratch(rows, rows,
		dims)
	picked = o.send(0, 0).out(picked, 0)
	t.Drop(blocks, local)
	t.Drop(t.indicesOf(places, rows, dims, false))
	t.Drop(picked)
	const count, indices, ofRows = 0, 1, 2
	put := t.op(picked).save(mask).alloc(count, 4, LabelElementwise).scratch(t.countScratch(places), LabelReduction).
		alloc(indices, rows*dims*I64.Size(), LabelElementwise).scratch(t.selectScratch(places),
		LabelReduction).free(count).
		alloc(ofRows, picked.bytes(), LabelInputGradient).free(indices).send(ofRows, 0).out(zeros, 0)
	y := t.fresh(x.numel, x.dtype, LabelEmbedding)
	w := t.op(x, put).save(mask)
	for k := range 2 {
		if zero := k + 2; w.needs(k) {
			w.alloc(zero, x.dtype.Size(), LabelElementwise).alloc(k, x.bytes(), LabelInputGradient).free(zero).send(k,
				k)
		}
	}
	return w.out(y, 0)
}

// InputGradient is x, the embeddings of a model's tower, which a hook makes require a gradient where layers are
// checkpointed under LoRA.
// Source: transformers/models/smolvlm/modeling_smolvlm.py (enable_input_require_grads), 4.57.
func (t *Tape) InputGradient(x T) T {
	if !t.Recipe.InputGradients {
		return x
	}
	return t.requireGrad(x)
}

// hooksTowers makes the embeddings of pictures and sounds require a gradient, too, where layers are checkpointed
// under LoRA.
var hooksTowers = release.Declare("hooks-towers", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "transformers 5.10 makes the embeddings of every model inside a model require a gradient under " +
		"checkpointed LoRA: the convolutions of Whisper and of the towers that see, too",
	Source: "modeling_utils.py (enable_input_require_grads), models/whisper/modeling_whisper.py and " +
		"models/clip/modeling_clip.py (_input_embed_layer), 4.57.6 and 5.23.0",
	Shown: "traces of Whisper and CLIP with LoRA and checkpoints",
})

// TowerInput is InputGradient where the hook is put on the embeddings of every model inside the model, not only on
// those of the words.
// Source: transformers/modeling_utils.py (enable_input_require_grads), 4.57.6 and 5.23.0.
func (t *Tape) TowerInput(x T) T {
	if !t.Recipe.Software.Has(hooksTowers) {
		return x
	}
	return t.InputGradient(x)
}

// Indices is mask.nonzero() of n entries, chosen of which are true.
func (t *Tape) Indices(n, chosen int64) T { return t.indicesOf(n, chosen, 1, false) }

// AveragePool is nn.AvgPool2d over squares of patches that lie channels first, of whose result, numel elements, rows
// are views again: the gradient of several pictures, which comes as rows, is laid out first. It keeps its input.
// Source: aten/src/ATen/native/cuda/AveragePool2d.cu (avg_pool2d_backward_out_cuda), torch 2.9.
func (t *Tape) AveragePool(x T, numel int64) T {
	y := t.fresh(numel, x.dtype, LabelElementwise)
	const ofX, gradient = 0, 1
	o := t.op(x).save(x).alloc(ofX, x.bytes(), LabelInputGradient)
	if t.Shape.Batch > 1 {
		o.alloc(gradient, numel*x.dtype.Size(), LabelContiguous).free(gradient)
	}
	return o.send(ofX, 0).out(y, 0)
}
