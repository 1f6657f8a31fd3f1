package step

import "github.com/vramplan/vramplan/estimator/release"

// CrossEntropy is F.cross_entropy(logits, targets) over a vocabulary. The log-softmax keeps its
// result in the type of the logits; the negative log-likelihood runs in float32 under autocast and so
// keeps a float32 copy of it.
// Sources: aten/src/ATen/native/LossNLL.cpp (cross_entropy_loss_prob_target), autocast_mode.h
// (log_softmax is in the list that an explicit dtype overrides, nll_loss in the float32 list), torch 2.9.
func (t *Tape) CrossEntropy(logits, targets T) T {
	if t.Recipe.Loss.Kind != LossStandard {
		return t.otherLoss(logits, targets)
	}
	return t.crossEntropy(logits, targets)
}

func (t *Tape) crossEntropy(logits, targets T) T {
	return t.ofLoss().crossEntropy(t, logits, targets)
}

// ofLoss is how the loss runs, which may be compiled by itself.
func (t *Tape) ofLoss() execution {
	if t.Recipe.CompileLoss {
		return inductorOfLoss{}
	}
	return t.exec
}

func (eager) crossEntropy(t *Tape, logits, targets T) T {
	logp := t.wide(logits.numel, logits.dtype, LabelLogProbabilities)
	logp = t.wideGradient(t.op(logits).keepSoftmax(logits, logp), logits).out(logp, 0)
	input := logp
	if t.autocast && logp.dtype != F32 {
		input = t.wide(logp.numel, F32, LabelLogitsFloat)
		input = t.wideGradient(t.op(logp), logp).out(input, 0)
	} else {
		t.Hold(input)
	}
	loss := t.fresh(1, input.dtype, LabelLoss)
	weight := t.fresh(1, input.dtype, LabelLoss)
	loss = t.wideGradient(t.op(input).save(input, targets, weight), input).out(loss, 0)
	t.Drop(weight, input, logp)
	return loss
}

// wide is a tensor as wide as the vocabulary.
func (t *Tape) wide(numel int64, d DType, l Label) T {
	x := T{storage: t.Alloc(numel*d.Size(), LogitsAndLoss, l), edge: noEdge, form: plain(d), numel: numel}
	t.typed(x)
	return x
}

func (t *Tape) wideGradient(o op, x T) op {
	return o.act(act{verb: actAllocLogits, bytes: x.bytes(), label: LabelLogitsGradient}).send(0, 0)
}

// FloatLogits is logits.float().
func (t *Tape) FloatLogits(x T) T {
	if x.dtype == F32 {
		return t.Hold(x)
	}
	y := t.wide(x.numel, F32, LabelLogitsFloat)
	return t.wideGradient(t.op(x), x).out(y, 0)
}

func (eager) floatLogits(t *Tape, logits T) T { return t.FloatLogits(logits) }

// shiftsLogits copies the float32 logits without their last row for the loss.
var shiftsLogits = release.Declare("shifts-logits", release.Change{
	Library: "transformers", To: "4.49",
	What:   "transformers before 4.49 copies the float32 logits once more to shift them",
	Source: "loss/loss_utils.py (ForCausalLMLoss), 4.48.1 and 4.49.0", Shown: "published runs",
})

// CausalLMLoss is the loss function of transformers' decoders: the logits in float32, the labels
// shifted by one. Source: transformers/loss/loss_utils.py (ForCausalLMLoss), 4.57.
func (t *Tape) CausalLMLoss(logits, labels T) T {
	if t.Recipe.SmoothsLabels || t.pass.runs && !t.pass.Labelled {
		return NoTensor
	}
	if t.Recipe.LossInModel {
		return t.lossInModel(logits, labels)
	}
	wide := logits
	if t.Recipe.Loss.Kind != LossStandard && !t.Recipe.LossFloat {
		t.Hold(wide)
	} else {
		wide = t.ofLoss().floatLogits(t, logits)
	}
	b := t.Shape.Batch
	padded := t.fresh(labels.numel+b, I64, LabelInput)
	shifted := t.Hold(padded) // one row is contiguous from its second element on
	shifted.numel = labels.numel
	if b > 1 {
		t.Drop(shifted)
		shifted = t.fresh(labels.numel, I64, LabelInput)
	}
	if t.Recipe.Software.Has(shiftsLogits) {
		defer t.Drop(wide)
		wide = t.withoutLast(wide)
	}
	loss := t.CrossEntropy(wide, shifted)
	t.Drop(wide, padded, shifted)
	return loss
}

// lossInModel is the loss that classes of transformers computed themselves, of logits as they are. accelerate then
// makes the logits float32 that a model under autocast returns, which is more than the loss took.
// Sources: transformers/models/gpt2/modeling_gpt2.py (GPT2LMHeadModel.forward) and others', 4.48.1;
// accelerate/utils/operations.py (convert_outputs_to_fp32), 1.2.
func (t *Tape) lossInModel(logits, labels T) T {
	cut := t.withoutLast(logits)
	targets := t.Hold(labels)
	targets.numel -= t.Shape.Batch
	if t.Shape.Batch > 1 {
		t.Drop(targets)
		targets = t.fresh(labels.numel-t.Shape.Batch, I64, LabelInput)
	}
	loss := t.CrossEntropy(cut, targets)
	t.Drop(cut, targets)
	if t.autocast && !t.Recipe.HoldLogits {
		t.Drop(t.FloatLogits(logits))
	}
	return loss
}

// withoutLast is logits[..., :-1, :].contiguous(), with zeros for the last row of each sequence in its gradient.
func (t *Tape) withoutLast(x T) T {
	n := x.numel / t.Shape.Tokens * (t.Shape.Tokens - 1)
	y := t.wide(n, x.dtype, LabelLogitsFloat)
	return t.wideGradient(t.op(x), x).out(y, 0)
}

// Head is the linear layer onto the vocabulary. Where the loss runs it chunk by chunk, it waits, and there are no
// logits.
func (t *Tape) Head(x T, w, b Weight) T {
	if t.pass.Head != nil {
		t.captureHidden(x)
		return t.pass.Head(t, x, w, b)
	}
	y := t.HeadOf(x, func(x T) T { return t.Linear(x, w, b, LabelLogits) })
	t.head.w, t.head.b = w, b
	return y
}

// RunsHead says whether an objective runs the head itself.
func (t *Tape) RunsHead() bool { return t.pass.Head != nil }

// HeadOf is Head for a head that is more than a linear layer, which run computes.
func (t *Tape) HeadOf(x T, run func(x T) T) T {
	if t.takesHead() {
		t.head = deferred{input: x, run: run}
		return T{storage: None, edge: noEdge, form: plain(F32)}
	}
	t.captureHidden(x)
	x = t.lastTokens(x, t.pass.LastTokens)
	y := t.runHead(x, run)
	t.Drop(x)
	if t.Recipe.LogitsFloat {
		wide := t.FloatLogits(y)
		t.Drop(y)
		return wide
	}
	return y
}

// UpcastsInModel makes logits float32 in the model, before the loss does.
var UpcastsInModel = release.Declare("upcast-in-model", release.Change{
	Library: "transformers", To: "4.46",
	What:   "transformers before 4.46 makes the logits float32 in the model, and keeps no half-precision ones",
	Source: "models/llama/modeling_llama.py (LlamaForCausalLM.forward), 4.45.2 and 4.47.1",
	Shown:  "published runs",
})

// runHead books what is as wide as the vocabulary under logits and loss.
func (t *Tape) runHead(x T, run func(x T) T) T {
	first := len(t.Prog.Slots)
	y := run(x)
	for i := first; i < len(t.Prog.Slots); i++ {
		if s := &t.Prog.Slots[i]; s.Label == LabelLogits || s.Unit < 0 && s.Component == Activations &&
			s.Bytes >= y.bytes() {
			s.Component = LogitsAndLoss
		}
	}
	if t.Recipe.Software.Has(UpcastsInModel) && !t.Recipe.LossInModel && y.dtype != F32 {
		wide := t.FloatLogits(y)
		t.Drop(y)
		return wide
	}
	return y
}

// AttendedLoss is the cross-entropy of the logits but the last of each sequence, of which rows are chosen by the mask
// of the batch, and of the labels that follow, chosen alike.
// Sources: transformers/models/gemma3/modeling_gemma3.py (Gemma3ForConditionalGeneration.forward), 4.57;
// aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), torch 2.9.
func (t *Tape) AttendedLoss(logits, labels T) T {
	n := t.Shape.Batch * (t.Shape.Tokens - 1)
	cut := t.Slice(logits, logits.numel/t.Shape.Tokens*(t.Shape.Tokens-1))
	mask := t.fresh(n, Bool, LabelInput)
	chosen := t.maskedRows(cut, mask, n)
	t.Drop(cut, mask)
	mask = t.fresh(n, Bool, LabelInput)
	indices := t.indicesOf(n, n, 2, false)
	targets := t.fresh(n, I64, LabelInput)
	t.Drop(indices, mask)
	loss := t.CrossEntropy(chosen, targets)
	t.Drop(chosen, targets)
	return loss
}

// maskedRows is x[mask] of all n rows. It keeps the mask, whose places are counted again in backward.
func (t *Tape) maskedRows(x, mask T, n int64) T {
	indices := t.indicesOf(n, n, 2, false)
	y := t.wide(x.numel, x.dtype, LabelLogitsFloat)
	t.Drop(indices)
	const whole, count, places = 0, 4, 5
	o := t.op(x).save(mask).alloc(whole, x.bytes(), LabelLogitsGradient).alloc(count, 4, LabelRouting).
		scratch(t.countScratch(n), LabelReduction).alloc(places, 2*n*I64.Size(), LabelRouting).
		scratch(t.selectScratch(n), LabelReduction).free(count).scatterPlaces(n, 2).free(places)
	return o.scatterSorted(n, n).send(whole, 0).out(y, 0)
}
