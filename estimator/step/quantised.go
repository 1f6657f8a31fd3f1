package step

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Quantisation is how bitsandbytes or GPTQ stores the weight of a frozen linear layer.
type Quantisation uint8

// The quantisations. NF4Double quantises the scales of NF4 once more; Int8 is LLM.int8(); GPTQ packs 4 or 8 bits
// a weight.
const (
	NotQuantised Quantisation = iota
	NF4
	NF4Double
	Int8
	GPTQ4
	GPTQ8
)

// gptqGroup is how many rows of a GPTQ weight share their scales: the group size of most checkpoints.
const gptqGroup = 128

// What bitsandbytes shares out: 64 weights have a scale, 256 scales a scale of their own.
// Source: bitsandbytes/functional.py (quantize_4bit), 0.48.
const (
	nf4Block      = 64
	nf4ScaleBlock = 256
	nf4Code       = 16 * 4
	DynamicCode   = 256 * 4
)

// scales is how many scales n weights in NF4 have.
func scales(n int64) int64 { return CeilDiv(n, nf4Block) }

// perByte is how many packed weights a byte holds.
func (p *Parameter) perByte() int64 {
	if p.Quantised == Int8 || p.Quantised == GPTQ8 {
		return 1
	}
	return 2
}

// groups is how many groups of weights share a scale under GPTQ.
func (p *Parameter) groups() int64 { return CeilDiv(p.Cols, gptqGroup) * p.Rows }

// Packed is how many bytes of a quantised parameter can be dealt out to GPUs: its packed weights, and GPTQ's packed
// zero points.
func (p *Parameter) Packed() int64 {
	bytes := CeilDiv(p.Numel, p.perByte())
	if p.Quantised == GPTQ4 || p.Quantised == GPTQ8 {
		bytes += CeilDiv(p.groups(), p.perByte())
	}
	return bytes
}

// Scales lists what a quantised parameter keeps on every GPU: scales, and what they are quantised with in turn, GPTQ's
// in half precision and the group of each row.
func (p *Parameter) Scales(f func(bytes int64)) {
	switch p.Quantised {
	case NF4:
		f(4 * scales(p.Numel))
		f(nf4Code)
	case NF4Double:
		f(nf4Code)
		f(4) // the mean of the scales
		f(4 * CeilDiv(scales(p.Numel), nf4ScaleBlock))
		f(scales(p.Numel))
		f(DynamicCode)
	case Int8:
		f(4 * p.Rows)
	case GPTQ4, GPTQ8:
		f(2 * p.groups())
		f(4 * p.Cols)
	}
}

// Tensors lists what p keeps on the GPU.
func (p *Parameter) Tensors(f func(bytes int64)) {
	switch {
	case p.DealtOut:
		if p.PackedPart > 0 {
			f(p.PackedPart)
		}
		p.Scales(f)
	case p.Quantised == NF4, p.Quantised == Int8: // whose scales come first
		first := true
		p.Scales(func(bytes int64) {
			f(bytes)
			if first {
				f(p.Packed())
			}
			first = false
		})
	case p.Quantised == NF4Double:
		f(p.Packed())
		p.Scales(f)
	case p.Quantised == GPTQ4, p.Quantised == GPTQ8:
		f(CeilDiv(p.Numel, p.perByte()))
		f(CeilDiv(p.groups(), p.perByte()))
		p.Scales(f)
	default:
		f(p.Bytes())
	}
}

// Nested says whether a weight's scales are quantised, for which the library keeps a table.
func (p Parameters) Nested() bool {
	for i := range p.List {
		if p.List[i].Quantised == NF4Double {
			return true
		}
	}
	return false
}

// pack moves a weight to the GPU as it was loaded and quantises it there; first says that it is the first one.
// A GPTQ weight comes packed.
// Sources: bitsandbytes/nn/modules.py (Params4bit._quantize, Int8Params.cuda), functional.py (quantize_4bit,
// get_4bit_type), 0.48.
func (p *Parameter) pack(heap alloc.Heap, first bool) {
	if p.Quantised == GPTQ4 || p.Quantised == GPTQ8 {
		p.Tensors(func(bytes int64) { heap.Alloc(bytes) })
		return
	}
	half := heap.Alloc(p.Bytes())
	if p.Quantised == Int8 {
		p.Tensors(func(bytes int64) { heap.Alloc(bytes) })
		heap.Free(half)
		return
	}
	scale := heap.Alloc(4 * scales(p.Numel))
	heap.Alloc(CeilDiv(p.Numel, 2))
	heap.Alloc(nf4Code)
	code := heap.Alloc(nf4Code)
	largest := heap.Alloc(4)
	heap.Free(code)
	heap.Free(largest)
	if p.Quantised == NF4Double {
		heap.Alloc(4)
		centred := heap.Alloc(4 * scales(p.Numel))
		if first { // the table that every weight copies
			heap.Alloc(DynamicCode)
		}
		heap.Alloc(4 * CeilDiv(scales(p.Numel), nf4ScaleBlock))
		heap.Alloc(scales(p.Numel))
		heap.Alloc(DynamicCode)
		heap.Free(centred)
		heap.Free(scale)
	}
	heap.Free(half)
}

// KeepsPackedInputs leaves the input of every layer in nf4 on the operation's context until the graph goes.
var KeepsPackedInputs = release.Declare("keeps-packed-inputs", release.Change{
	Library: "bitsandbytes", To: "0.43",
	What:   "bitsandbytes before 0.43 keeps the input of every layer in nf4 until the graph goes",
	Source: "bitsandbytes/autograd/_functions.py (MatMul4Bit.forward, ctx.tensors), 0.42 and 0.48",
	Shown:  "published runs",
})

// LinearPacked is bitsandbytes' Linear4bit and, without nested scales, GPTQ's TritonV2QuantLinear: w is dequantised for
// the product and again in backward, so that nothing but w is kept. Input and bias go to the type that w is dequantised
// to, and the output back to the input's. Sources: bitsandbytes/nn/modules.py (Linear4bit.forward),
// autograd/_functions.py (MatMul4Bit), 0.48; gptqmodel/nn_modules/qlinear/tritonv2.py, triton_utils/dequant.py
// (QuantLinearFunction), which was not traced.
func (t *Tape) LinearPacked(x T, w, b Weight, nested bool) T {
	weight := t.Parameter(w)
	input := t.Cast(x, weight.dtype, LabelCast)
	bias := T{storage: None}
	if b.Exists() && x.dtype != weight.dtype { // the module stores its bias in the input's type
		bias = t.fresh(w.Rows, weight.dtype, LabelWeightCopy)
	}
	rows := input.numel / w.Cols
	scale := T{storage: None}
	if nested {
		scale = t.fresh(scales(weight.numel), F32, LabelDequantised)
	}
	stored := weight.dtype
	if t.Recipe.PacksHalf {
		stored = F16
	}
	whole := t.fresh(weight.numel, stored, LabelDequantised)
	t.Drop(scale)
	if stored != weight.dtype {
		dequantised := whole
		whole = t.fresh(weight.numel, weight.dtype, LabelDequantised)
		t.Drop(dequantised)
	}
	y := t.fresh(rows*w.Rows, weight.dtype, LabelLinear)
	t.productSpace(b.Exists())
	t.Drop(whole)
	o := t.op(input)
	if t.Recipe.Software.Has(KeepsPackedInputs) {
		o.keep(input)
	}
	if nested {
		o.alloc(1, 4*scales(weight.numel), LabelDequantised)
	}
	const scaleRegister, storedRegister = 1, 3
	if stored != weight.dtype {
		o.alloc(storedRegister, weight.numel*stored.Size(), LabelDequantised)
	}
	if nested && stored != weight.dtype {
		o.free(scaleRegister)
	}
	o.alloc(2, weight.bytes(), LabelDequantised)
	switch {
	case stored != weight.dtype:
		o.free(storedRegister)
	case nested:
		o.free(scaleRegister)
	}
	y = o.alloc(0, input.bytes(), LabelInputGradient).workspace().free(2).send(0, 0).out(y, 0)
	out := t.Cast(y, x.dtype, LabelLinear)
	t.Drop(y, bias, input)
	return out
}

// Linear8bit is bitsandbytes' Linear8bitLt for inputs without outliers: the input is quantised row by row from
// float16, the product is int32 and then float16. The operation's context keeps the input until the graph goes,
// though it has no use for it; backward dequantises w to the input's type.
// Sources: bitsandbytes/autograd/_functions.py (MatMul8bitLt), backends/cuda/ops.py (int8_vectorwise_quant,
// int8_mm_dequant), 0.48.
func (t *Tape) Linear8bit(x T, w Weight) T {
	half := t.Cast(x, F16, LabelCast)
	rows := x.numel / w.Cols
	scale, quantised := t.fresh(rows, F32, LabelQuantised), t.fresh(x.numel, Bool, LabelQuantised)
	absolute := t.fresh(x.numel, F16, LabelQuantised)
	outliers := t.fresh(x.numel, Bool, LabelQuantised)
	t.Drop(absolute)
	t.anyElement(x.numel)
	zero := t.fresh(1, Bool, LabelQuantised)
	t.Drop(half, outliers, zero)
	product := t.fresh(rows*w.Rows, F32, LabelQuantised)
	y := t.fresh(rows*w.Rows, F16, LabelLinear)
	out := t.Cast(y, x.dtype, LabelLinear)
	t.Drop(y, product, quantised, scale)
	o := t.op(x).keep(x)
	o.alloc(1, w.Rows*w.Cols*x.dtype.Size(), LabelDequantised).scratch(4*w.Rows, LabelDequantised).
		alloc(0, x.bytes(), LabelInputGradient).workspace().free(1).sendView(0, 0)
	return o.out(out, 0)
}

// anyElement is x.any() for n elements: blocks of 512 threads, each of which looks at 16 values or more, leave
// a byte each. Source: aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig), torch 2.9.
func (t *Tape) anyElement(n int64) {
	const threads, minValues, maxValues = 512, 16, 256
	y := t.fresh(1, Bool, LabelQuantised)
	if values := CeilDiv(n, threads); values >= maxValues {
		target := t.Recipe.Multiprocessors * (t.Recipe.ThreadsPerMultiprocessor / threads)
		blocks := t.fresh(max(min(target, CeilDiv(values, minValues)), CeilDiv(values, maxValues)), Bool,
			LabelReduction)
		semaphore := t.fresh(1, F32, LabelReduction)
		t.Drop(blocks, semaphore)
	}
	t.Drop(y)
}

// keep holds x until the graph goes: an attribute of the operation's context is no saved tensor.
func (o op) keep(x T) op {
	if o.i != None {
		o.t.kept = append(o.t.kept, o.t.Hold(x))
	}
	return o
}

// endGraph lets go of what operations keep from index from on.
func (t *Tape) endGraph(from int) {
	for _, x := range t.kept[from:] {
		t.Drop(x)
	}
	t.kept = t.kept[:from]
}
