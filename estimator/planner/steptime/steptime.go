package steptime

import (
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// The step-time model. One optimizer step of a pair (b, a) takes
//
//	a · t_micro(b) + t_optimizer
//
// where t_micro adds up matrix products (slower by what tiles and waves of thread
// blocks leave idle), attention, bytes moved by everything between them and by
// the weights and gradients, which every micro-step reads and writes again, and
// is never less than the time in which the host can launch the kernels. It is a
// roofline, not a measurement: answers are ratios with a range, and carry
// basis "model". A pair of runs, timed on the user's card, beats it.
//
// What several GPUs tell each other comes on top (links.go).

// Assumption is one reading of what no data sheet says. Ratios are computed under
// each and the range is what they span.
type Assumption struct {
	// Gemm is the share of the peak rate that a large matrix product reaches.
	// NVIDIA's matrix multiplication guide shows 60–85 % of peak for large GEMMs.
	Gemm float64
	// waves is how much of the idle share of the last wave of 128×128 tiles is
	// lost: all of it with one tile shape and one block a multiprocessor, none with
	// the best tile and split-K that cuBLAS could pick.
	waves float64
	// bandwidth is the share of the peak bandwidth that streaming kernels reach.
	bandwidth float64
	// Launch is what one kernel costs the host in eager PyTorch, in seconds.
	Launch float64
	// recompute multiplies the forward work that checkpointing repeats. Korthikanti
	// et al. 2022 (arXiv 2205.05198, table 4) measure 39 % for full recomputation of
	// a 22B model where the work alone says 33 %: a factor of 1.17.
	recompute float64
	// link is the share of a link's bandwidth that NCCL's collectives reach, and overlap how much of them computing
	// hides where there is enough of it (links.go).
	link, overlap float64
}

var (
	// Expected is the reading that times are given by.
	Expected = Assumption{Gemm: 0.75, waves: 0.5, bandwidth: 0.85, Launch: 8e-6, recompute: 1.17, link: 0.6, overlap: 1}
	// CheapSmall is the reading in which small micro-batches cost least: slow
	// arithmetic hides what is fixed; DearSmall the opposite.
	CheapSmall = Assumption{Gemm: 0.60, waves: 0, bandwidth: 0.92, Launch: 4e-6, recompute: 1, link: 0.85, overlap: 1}
	DearSmall  = Assumption{Gemm: 0.85, waves: 1, bandwidth: 0.75, Launch: 11e-6, recompute: 1.3, link: 0.3}
)

// tile is the side of the output tile that one thread block computes in cuBLAS's
// usual half-precision kernels (NVIDIA, Matrix Multiplication Background, ch. 3).
const tile = 128

// Workload is one candidate as the time model sees it.
type Workload struct {
	Shape        traits.Shape
	Training     estimator.Training
	Micro, Accum float64
	Sequence     float64
	Parameters   float64
	Trainable    float64
	GPUs         float64 // data-parallel
	// Tensor GPUs share each layer, Context each sequence, Experts the experts of a layer, and Stages are a pipeline; 0
	// is 1. Uneven is how much more than its share the fullest stage has.
	Tensor, Context, Experts, Stages, Uneven float64
	// PerHost is how many GPUs a host has, and Network what each has of its network, each way, in bytes a second; 0 is
	// what is usual.
	PerHost, Network float64
}

// Half says whether the job computes in half precision.
func (w Workload) Half() bool {
	return w.Training.Precision != estimator.PrecisionFP32 && w.Training.Precision != estimator.PrecisionTF32
}

// Amp says whether it does so under autocast.
func (w Workload) Amp() bool {
	switch w.Training.Precision {
	case estimator.PrecisionBF16, estimator.PrecisionFP16, estimator.PrecisionFP32, estimator.PrecisionTF32:
		return false
	}
	return true
}

// Tokens of one optimizer step on one data-parallel GPU.
func (w Workload) Tokens() float64 { return w.Micro * w.Accum * w.Sequence }

// PerToken is the time of a step under one assumption, divided by its tokens.
func (w Workload) PerToken(c Card, a Assumption) float64 {
	seconds, _ := w.Step(c, a)
	return seconds / w.Tokens()
}

// Step is the time of a step under one assumption, and how much of it waits for other GPUs.
func (w Workload) Step(c Card, a Assumption) (seconds, waits float64) {
	micro := w.microStep(c, a)
	slots := w.Accum
	if p := w.Stages; p > 1 {
		// The pipeline fills and drains once a step, with interleaving in
		// virtual_pipeline smaller slots (Narayanan et al. 2021, arXiv 2104.04473).
		v := math.Max(1, float64(w.Training.Distributed.VirtualPipeline))
		slots = (w.Accum + (p-1)/v) / p * w.over(w.Uneven)
	}
	x := w.exchange(c, a, micro)
	computes := w.Accum*micro/w.over(w.Stages) + w.optimizerStep(c, a)
	seconds = slots*(micro+x.each) + x.once + w.optimizerStep(c, a)
	return seconds, seconds - computes
}

// matrix is a weight. It takes part in one product forward, and in two backward:
// for the gradient of its input and for its own.
type matrix struct{ in, out float64 }

// microStep is the forward and backward pass of one micro-batch, in seconds.
func (w Workload) microStep(c Card, a Assumption) float64 {
	var (
		s        = w.Shape
		m        = w.Micro * w.Sequence / w.over(w.Context)
		part     = w.over(w.Tensor)
		h        = float64(s.Hidden)
		q        = float64(s.Heads*s.HeadDim) / part
		kv       = float64(s.KVHeads*s.HeadDim) / part
		f        = float64(s.FFN) / part
		up       = f
		layers   = float64(s.Layers)
		elements = 4.0 // bytes
	)
	if w.Half() {
		elements = 2
	}
	if s.Gated {
		up = 2 * f
	}
	bandwidth := c.bandwidth * a.bandwidth

	gemm := func(x matrix, backward bool) float64 {
		rate := c.flops * a.Gemm
		bytes := (m*x.in + x.in*x.out + m*x.out) * elements
		once := func(quantization float64) float64 {
			return math.Max(2*m*x.in*x.out/rate*quantization, bytes/bandwidth)
		}
		if !backward {
			return once(waveLoss(m, x.out, c.sms, a.waves))
		}
		t := once(waveLoss(m, x.in, c.sms, a.waves))
		if w.Training.LoRA == nil {
			t += once(1) // the weight's gradient: its tiles do not depend on the micro-batch
		}
		return t
	}
	var forward, backward float64
	for _, x := range []matrix{{h, q + 2*kv}, {q, h}, {h, up}, {f, h}} {
		forward += layers * gemm(x, false)
		backward += layers * gemm(x, true)
	}
	attentionForward, attentionBackward := w.attention(c, a, m)
	forward += layers * attentionForward
	backward += layers * attentionBackward

	// Norms, activations, residual sums, casts: about 30 bytes a token and unit of
	// width forward in eager mode, twice that backward; the compiler fuses about
	// half of it away.
	between := (30*h/part + 3*elements*up) * m / bandwidth
	if t := w.Training.Compile; t != nil && t.Model {
		between /= 2
	}
	forward += layers * between
	backward += layers * 2 * between

	again := 0.0
	switch traits.CheckpointingMode(w.Training) {
	case "full":
		again = forward * a.recompute
	case "selective":
		again = layers * attentionForward * a.recompute
	case "selective-op":
		again = forward / 2 * a.recompute // every second matrix product is kept
	}

	passes := 2.0 // through the frozen weights
	if again > 0 {
		passes = 3
	}
	busy := forward + backward + again + w.loss(m, gemm, bandwidth) + (w.weightTraffic()+passes*w.unpacked())/bandwidth
	return math.Max(busy, w.launches(again/math.Max(forward, 1e-12))*a.Launch)
}

// waveLoss is how much longer a product with an m×n result takes because its
// tiles do not fill whole waves of the multiprocessors.
func waveLoss(m, n, sms, share float64) float64 {
	if sms <= 0 {
		return 1
	}
	waves := math.Ceil(m/tile) * math.Ceil(n/tile) / sms
	full := m * n / (tile * tile) / sms
	return 1 + share*(math.Ceil(waves)/math.Max(full, 1e-9)-1)
}

// attention is the forward and backward time of one layer's attention.
func (w Workload) attention(c Card, a Assumption, m float64) (forward, backward float64) {
	flops := 4 * m * w.Sequence * float64(w.Shape.Heads*w.Shape.HeadDim) / w.over(w.Tensor)
	// Flash kernels reach about two thirds of a matrix product's rate, skip the half
	// that causality masks, and run backward in 2.5 times the forward work
	// (Dao 2023, arXiv 2307.08691).
	if w.Training.Attention != "eager" {
		if w.Shape.Causal {
			flops /= 2
		}
		t := flops / (c.flops * a.Gemm * 2 / 3)
		return t, 2.5 * t
	}
	// Written out, the whole square is computed, and its scores travel: products,
	// mask, softmax in float32 and casts move about 20 bytes each forward.
	scores := m * w.Sequence * float64(w.Shape.Heads) / w.over(w.Tensor)
	t := flops/(c.flops*a.Gemm) + 20*scores/(c.bandwidth*a.bandwidth)
	return t, 2 * t
}

// loss is the time of the output layer and the loss, both passes.
func (w Workload) loss(m float64, gemm func(matrix, bool) float64, bandwidth float64) float64 {
	v := float64(w.Shape.Vocabulary) / w.over(w.Tensor)
	if v <= 0 {
		return 0
	}
	head := matrix{float64(w.Shape.Hidden), v}
	// Bytes that a token and vocabulary entry moves: in eager mode logits, their
	// log-softmax, a float32 copy and the gradients of each are written and read.
	moved, products := 30.0, 1.0
	if l := w.Training.Loss; l != nil {
		switch l.Kind {
		case "fused":
			moved = 24
		case "chunked":
			moved, products = 24, 1.1 // smaller products, one after the other
		case "fused-linear":
			moved, products = 12, 4.0/3 // no logits kept: their product is computed again
		}
	}
	if t := w.Training.Compile; t != nil && (t.Model || t.Loss) {
		moved = math.Min(moved, 14)
	}
	return products*(gemm(head, false)+gemm(head, true)) + moved*v*m/bandwidth
}

// weightTraffic is what one micro-step moves whatever its size: the casts of the
// weights under autocast, and gradients that are written, converted and added.
func (w Workload) weightTraffic() float64 {
	at := w.Trainable - w.expertParameters()*(1-1/w.over(w.Experts)) // those that this GPU computes with
	switch {
	case w.Amp():
		// Cast 4+2; gradient 2, to float32 2+4, added 4+4+4.
		return 26 * at / w.over(w.Tensor)
	case w.Half():
		return 8 * at / w.over(w.Tensor)
	}
	return 16 * at / w.over(w.Tensor)
}

// expertParameters are those of the experts that tokens choose, where they train.
func (w Workload) expertParameters() float64 {
	return math.Min(float64(w.Shape.ExpertParameters), w.Trainable)
}

// packedBytes is what a weight of a quantised base takes.
var packedBytes = map[string]float64{"nf4": 0.5, "gptq-int4": 0.5, "int8": 1, "gptq-int8": 1}

// unpacked is what one pass moves to turn a quantised base back into half precision: the packed weights read, the
// others written, for the products to read. Source: bitsandbytes/autograd/_functions.py, MatMul4Bit, 0.48.
func (w Workload) unpacked() float64 {
	l := w.Training.LoRA
	if l == nil || packedBytes[l.BasePrecision] == 0 {
		return 0
	}
	return (packedBytes[l.BasePrecision] + 2) * (w.Parameters - w.Trainable)
}

// launches is the number of kernels of a micro-step. nanoGPT's 12 layers take
// about 1,520 in eager mode under autocast and 520 compiled.
func (w Workload) launches(recomputed float64) float64 {
	perLayer := 125.0
	if t := w.Training.Compile; t != nil && t.Model {
		perLayer = 42
	}
	return float64(w.Shape.Layers)*perLayer*(1+recomputed/3) + 20
}

// optimizerStep is the time of one optimizer step; foreach and the loop run one kernel for each operation of the
// optimizer.
func (w Workload) optimizerStep(c Card, a Assumption) float64 {
	o := traits.OptimizerOf(w.Training)
	bytes := traits.RowOf(w.Training).MovedBytes
	kernels := 20.0
	switch o.Implementation {
	case "foreach", "":
		bytes *= 2.5
	case "for-loop":
		bytes *= 2.5
		kernels = 12 * 9 * float64(w.Shape.Layers) // about twelve kernels for each of nine tensors a layer
	}
	share := 1 / (w.over(w.Tensor) * w.over(w.Stages))
	if d := w.Training.Distributed; d != nil && d.Data != "" && d.Data != "ddp" {
		dealt := w.GPUs
		if d.ShardGroup > 0 {
			dealt = math.Min(dealt, float64(d.ShardGroup))
		}
		share /= dealt * w.over(w.Context)
	}
	return math.Max(bytes*w.Trainable*share/(c.bandwidth*a.bandwidth), kernels*a.Launch)
}
