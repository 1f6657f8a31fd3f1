package step

// execution is how the operations of a model run: one after the other, as PyTorch runs them by itself (eager), or in
// the kernels that Inductor makes of a graph of them (inductor). Operations ask it where the two differ, by kind; what
// they do alike is the tape's own.
type execution interface {
	elementwise
	attending
	products
	lookups
	losses
	// norm is n of rows of width elements.
	norm(t *Tape, n *norm, x T, w, b Weight, width int64) T
}

// eager runs every operation as it comes: each writes its result, keeps what its backward reads, and casts and copies
// are operations like others.
type eager struct{}

// inductor is torch.compile around the model. It says of every operation that is asked about what becomes of it.
type inductor struct{}

// elementwise are the operations that Inductor fuses into the kernels that read their results.
type elementwise interface {
	// pointwise is p of x.
	pointwise(t *Tape, x T, p pointwise) T
	// inSteps is an activation of x that written writes out step by step.
	inSteps(t *Tape, x T, written func(*Tape, T) T) T
	// relu is F.relu.
	relu(t *Tape, x T) T
	// add is a + b; unbatched says that b has no batch dimension. addInPlace is a += b, and takes over a.
	add(t *Tape, a, b T, unbatched bool, l Label) T
	addInPlace(t *Tape, a, b T) T
	// mul is a * b of n elements, where rows says that the smaller one has a value for each row.
	mul(t *Tape, a, b T, n int64, rows bool, l Label) T
	// scaleInPlace is x *= c, and takes over x.
	scaleInPlace(t *Tape, x T) T
	// pow is x ** c.
	pow(t *Tape, x T, l Label) T
	// clamp is torch.clamp(x, min, max).
	clamp(t *Tape, x T) T
	// masked is p of x, which keeps the mask.
	masked(t *Tape, x, mask T, p pointwise) T
	// dropout is x without what mask leaves out.
	dropout(t *Tape, x, mask T) T
	// combined is c of a and b.
	combined(t *Tape, a, b T, c combination) T
	// slice is part, a view of x. pick copies numel elements of x by a list of one index.
	slice(t *Tape, x, part T) T
	pick(t *Tape, x T, numel int64, copies bool) T
}

// attending are the steps of an attention that Inductor leaves out or fuses.
type attending interface {
	// rotary turns x by positions with products in d.
	rotary(t *Tape, x, cos, sin T, d DType) T
	// repeatKV shows every key or value to the query heads of its group.
	repeatKV(t *Tape, x T, h Heads) T
	// cacheAppend is x in a cache of type d.
	cacheAppend(t *Tape, x T, d DType) T
	// relaid is a view of x, which it takes over, whose gradient arrives in another layout.
	relaid(t *Tape, x T) T
	// batchable says whether a batched product takes heads that lie so.
	batchable(l headLayout) bool
	// divided is scores over a tensor of one element. whereCausal is torch.where(mask, scores, minimum), which takes
	// over the scores.
	divided(t *Tape, scores T) T
	whereCausal(t *Tape, scores T) (y, minimum T)
	// whereMask is torch.where(mask, bias, c).
	whereMask(t *Tape, mask, bias T, numel int64) T
	// attentionBias is a mask as kernels add it to scores of the type d, and what goes when the call is over.
	attentionBias(t *Tape, mask T, d DType, h Heads) (bias, cast T)
	// alignsMask says whether what is given with or without a mask always suits a kernel.
	alignsMask(mask bool) bool
	// softmax keeps its result or what that is made of. softmaxReads says whether one in float32 reads d as it is.
	softmax(t *Tape, x T, l Label) T
	softmaxReads(d DType) bool
	// findUnreachable looks for rows of probabilities p without anything to attend to.
	findUnreachable(t *Tape, p T, keys int64, d DType)
	// biasedScores is bias.baddbmm(q, k).
	biasedScores(t *Tape, bias, q, k T, numel int64) T
}

// products are what is around matrix products, which nobody fuses.
type products interface {
	// productInput is what a product reads of x, and adapterInput what an adapter of type d does.
	productInput(t *Tape, x T) T
	adapterInput(t *Tape, x T, d DType) T
	// productAddsBias says whether the product's own kernel adds the bias; cachesCasts whether autocast's copies of
	// weights stay.
	productAddsBias() bool
	cachesCasts() bool
	// recordProduct records y, which is x.
	recordProduct(t *Tape, x product, y T) T
}

// lookups read rows of a table p, which is w.
type lookups interface {
	lookup(t *Tape, p, ids T, w Weight, l Label) T
	// expandedLookup is that of ids which are a view that repeats a row.
	expandedLookup(t *Tape, p, ids T, w Weight, l Label) T
	// positionBias is that of the distances between queries and keys.
	positionBias(t *Tape, queries, keys int64, bothDirections bool, w Weight) T
}

// losses are the logits and what is computed of them.
type losses interface {
	crossEntropy(t *Tape, logits, targets T) T
	// floatLogits are the logits as a decoder's loss function reads them.
	floatLogits(t *Tape, logits T) T
	// softCapLogits and scaleLogits take them over.
	softCapLogits(t *Tape, logits T) T
	scaleLogits(t *Tape, logits T) T
}

// pointwise is an operation whose elements each come from one element of its input. It says what the eager kernel
// writes and keeps; a fused one is made again wherever it is read, from whatever it was computed.
type pointwise struct {
	form
	label Label
	keeps keeps
	// gradient names the tensor that backward makes; where it names none, the arriving gradient goes on.
	gradient Label
}

// keeps is what the backward of a pointwise operation reads beside the arriving gradient.
type keeps uint8

const (
	keepsNothing keeps = iota
	keepsInput
	keepsResult
)

func (eager) pointwise(t *Tape, x T, p pointwise) T {
	y := t.fresh(x.numel, p.dtype, p.label)
	y.layout = p.layout
	o := t.op(x)
	switch p.keeps {
	case keepsInput:
		o.save(x)
	case keepsResult:
		o.save(y)
	}
	if p.gradient == LabelNone {
		return o.pass(0, 0).out(y, 0)
	}
	return o.alloc(0, x.bytes(), p.gradient).send(0, 0).out(y, 0)
}

func (eager) masked(t *Tape, x, mask T, p pointwise) T {
	y := t.fresh(x.numel, p.dtype, p.label)
	return t.op(x).save(mask).alloc(0, x.bytes(), p.gradient).send(0, 0).out(y, 0)
}

// combination is an operation on two tensors; written is its eager kernel with y for the result.
type combination struct {
	numel   int64
	dtype   DType
	label   Label
	written func(t *Tape, a, b, y T) T
}

func (eager) combined(t *Tape, a, b T, c combination) T {
	return c.written(t, a, b, t.fresh(c.numel, c.dtype, c.label))
}

// batchable: with the heads outermost.
func (eager) batchable(l headLayout) bool { return l == headsFirst }

// alignsMask: nothing looks whether the kernel can take the heads.
func (eager) alignsMask(bool) bool { return false }

// softmaxReads: the kernel reads float16 as it is. Source: aten/src/ATen/native/SoftMax.cpp (softmax, half_to_float),
// torch 2.9.
func (eager) softmaxReads(d DType) bool { return d == F16 }

func (eager) productAddsBias() bool { return true }
func (eager) cachesCasts() bool     { return true }

// execution is how the recipe runs what is in the model.
func (r *Recipe) execution() execution {
	if r.Compile {
		return inductor{}
	}
	return eager{}
}
