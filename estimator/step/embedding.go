package step

import "github.com/vramplan/vramplan/estimator/release"

// Embedding is nn.Embedding: rows of w for n ids. It keeps the ids.
func (t *Tape) Embedding(ids T, w Weight, l Label) T {
	return t.exec.lookup(t, t.Parameter(w), ids, w, l)
}

func (eager) lookup(t *Tape, p, ids T, w Weight, l Label) T {
	y := t.fresh(ids.numel*w.Cols, p.dtype, l)
	o := t.op(p).save(ids)
	o.embeddingGradient(ids.numel, w.Rows, w.Cols, p.dtype)
	y = o.send(0, 0).out(y, 0)
	if w.Embeds == OfInputHooked && t.Recipe.InputGradients {
		y = t.usedBy(w, t.requireGrad(y))
	}
	return t.noised(w, y, l)
}

// noised is the output of an embedding with NEFTune's noise, which a hook adds in training. It takes over y.
// Source: transformers/integrations/neftune.py (neftune_post_forward_hook), 5.23.
func (t *Tape) noised(w Weight, y T, l Label) T {
	if w.Embeds == 0 || !t.Recipe.AddsNoise || t.Recipe.Evaluation {
		return y
	}
	noise := t.fresh(y.numel, y.dtype, l)
	sum := t.Add(y, noise, l)
	t.Drop(y, noise)
	return sum
}

// usedBy says that hooks which act on every parameter count the gradient of x, which an operation on w made, among the
// uses of w. Source: deepspeed/runtime/zero/parameter_offload.py (_pre_backward_module_hook), 0.19.8.
func (t *Tape) usedBy(w Weight, x T) T {
	if t.uses != nil && x.edge >= 0 {
		t.nodes[x.edge.node()].hooked = true
		t.uses.Saves(x.edge.node(), []int32{w.Index})
	}
	return x
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
						alloc(10, partial*8, LabelEmbeddingSort)
	if o.t.accumulatesAtomically(n, rows) {
		o.alloc(3, partial*8, LabelEmbeddingSort) // the row of each part
		if d.Half() {
			o.scratch(rows*cols*4, LabelEmbeddingSort)
		}
		o.free(3)
	} else {
		o.scratch(partial*cols*4, LabelEmbeddingSort)
	}
	for _, r := range [...]int{10, 9, 8, 7, 5, 4, 2, 1} {
		o.free(r)
	}
}

// accumulatesAtomically adds up the gradient of an embedding with few rows without partial sums in memory.
var accumulatesAtomically = release.Declare("accumulates-atomically", release.Change{
	Library: "torch", After: "2.10", From: "2.12",
	What: "the gradient of an embedding with few rows that occur often is accumulated " +
		"atomically in torch 2.12, " +
		"without partial sums in memory",
	Source: "aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu (compute_grad_weight_atomic_accumulate, " +
		"a kernel of libtorch_cuda), 2.9.1 and 2.15.0",
	Shown: "traces of T5, whose position bias has 32 rows",
})

// accumulatesAtomically says whether the sums of the parts of n rows are added to the gradient's rows one by one: of
// few rows that occur often, in float32. Read off PyTorch 2.15 (compute_grad_weight_atomic_accumulate) for n from 3,073
// to 1,000,000 on 108 and 132 multiprocessors, where it begins and ends at exactly these two limits.
func (t *Tape) accumulatesAtomically(n, rows int64) bool {
	const occurrences, rowsPerMultiprocessor = 30, 4
	return t.Recipe.Software.Has(accumulatesAtomically) && n >= occurrences*rows &&
		rows < rowsPerMultiprocessor*t.Recipe.Multiprocessors
}

// sortsFewerBits sorts the ids of an embedding's gradient by as many bits as the largest has, instead of all 64.
var sortsFewerBits = release.Declare("sorts-fewer-bits", release.Change{
	Library: "torch", After: "2.12", From: "2.14",
	What:   "the gradient of an embedding in torch 2.14 sorts the ids by as many bits as the largest one has",
	Source: "aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), 2.9.1 and 2.15.0",
	Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
})

// embeddingSortScratch is what sorting n ids below rows takes: of all 64 bits, or of those that
// the number of rows has.
func (t *Tape) embeddingSortScratch(n, rows int64) int64 {
	if t.Recipe.Software.Has(sortsFewerBits) {
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

// padsScans is the CUB of CUDA 13, whose scans ask for more.
var padsScans = release.Declare("pads-scans", release.Change{
	Library: "torch", After: "2.10", From: "2.12",
	What:   "the CUB of CUDA 13, with which torch from 2.12 is built, takes more for a scan",
	Source: "cub/device/device_scan.cuh, CUDA 12.8 and 13.2",
	Shown:  "traces of Cohere, nanoGPT and T5 with more than 3,072 tokens",
})

// scanScratch is what CUB's scan of n 64-bit values asks for: 16 bytes for each tile and for 32 more; same source and
// range. CUB of CUDA 13 has smaller tiles for Ampere's largest chip and 256 bytes more; read off PyTorch 2.15 for n
// from 3,073 to 400,000, exact there with any tile from 1,316 to 1,388.
func (t *Tape) scanScratch(n int64) int64 {
	tile, more := int64(320), int64(255)
	pads := t.Recipe.Software.Has(padsScans)
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
