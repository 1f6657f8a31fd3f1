package objective

import "github.com/vramplan/vramplan/estimator/step"

// wide is a tensor as wide as the vocabulary.
func wide(t *step.Tape, numel int64, d step.DType, l step.Label) step.T {
	return t.Made(numel, d, l, true)
}

// row is a tensor of one value for each token, or fewer.
func row(t *step.Tape, numel int64) step.T { return t.Made(numel, step.F32, step.LabelLoss, true) }

// selectiveLogSoftmax is the log-probability of each label: gather, and of float32 logits a logsumexp for every
// sequence, which saves the logits and copies nothing. Of half-precision logits every sequence has a log_softmax of its
// own, which is kept. Source: trl/trainer/utils.py (selective_log_softmax), 0.26 and 1.16;
// aten/src/ATen/native/ReduceOps.cpp (logsumexp_out_impl), torch/csrc/autograd/FunctionsManual.cpp (logsumexp_backward,
// gather_backward), torch 2.9.
func selectiveLogSoftmax(t *step.Tape, logits, labels step.T, sequences int64) step.T {
	if logits.Dtype() != step.F32 {
		return eachLogSoftmax(t, logits, labels, sequences)
	}
	tokens, bytes := labels.Numel(), logits.Numel()*4
	selected := row(t, tokens)
	gather := t.Replay([]step.T{logits}, []step.T{logits, labels})
	gather.AllocWide(0, bytes, step.LabelLogitsGradient)
	gather.Send(0, 0, false, false)
	selected = selected.Attached(gather.End(1))

	unbind := t.Replay([]step.T{logits}, nil)
	unbind.Collect(bytes)
	parts := unbind.End(1)
	sums := make([]step.T, 0, sequences)
	for range sequences {
		part := logits.Attached(parts)
		sums = append(sums, logSumExp(t, part, logits.Numel()/sequences, tokens/sequences))
	}
	stacked := join(t, sums, tokens)
	logps := subtract(t, selected, stacked)
	t.Drop(selected, stacked)
	return logps
}

// kernelLogps is selective_log_softmax as a kernel of trl's computes it, which keeps the logits and two numbers of each
// token, and lays the gradient out whole. Source: trl/kernels/logprob_entropy.py (_LogProbEntropyFunction), 1.16.
func kernelLogps(t *step.Tape, logits, labels step.T) step.T {
	tokens := labels.Numel()
	logps := row(t, tokens)
	entropy, logZ, expected := row(t, tokens), row(t, tokens), row(t, tokens)
	r := t.Replay([]step.T{logits}, []step.T{logits, labels, logZ, expected})
	r.AllocWide(0, logits.Numel()*logits.Dtype().Size(), step.LabelLogitsGradient)
	r.Send(0, 0, false, false)
	for _, x := range []step.T{expected, logZ, entropy} {
		t.Drop(x)
	}
	return logps.Attached(r.End(1))
}

// logSumExp is torch.logsumexp over the vocabulary of a part of the logits, so many elements for so many tokens.
func logSumExp(t *step.Tape, part step.T, numel, tokens int64) step.T {
	most := row(t, tokens)
	shifted := wide(t, numel, step.F32, step.LabelLogProbabilities)
	y := row(t, tokens)
	t.Drop(shifted, most)
	r := t.Replay([]step.T{part}, []step.T{part, y})
	for register := range 3 { // grad * (self - result).exp()
		r.AllocWide(register, numel*4, step.LabelLogitsGradient)
	}
	r.Free(1)
	r.Free(0)
	r.Send(2, 0, false, false)
	return y.Attached(r.End(1))
}

// eachLogSoftmax runs log_softmax and gather for each sequence. The loop's variable holds the probabilities of a
// sequence until it has those of the next.
func eachLogSoftmax(t *step.Tape, logits, labels step.T, sequences int64) step.T {
	tokens, numel, size := labels.Numel(), logits.Numel()/sequences, logits.Dtype().Size()
	unbind := t.Replay([]step.T{logits}, nil)
	unbind.Collect(logits.Numel() * size)
	parts := unbind.End(1)
	logps := make([]step.T, 0, sequences)
	former := step.NoTensor
	for range sequences {
		y := wide(t, numel, logits.Dtype(), step.LabelLogProbabilities)
		t.Drop(former)
		soft := t.Replay([]step.T{logits.Attached(parts)}, []step.T{y})
		soft.AllocWide(0, numel*size, step.LabelLogitsGradient)
		soft.Send(0, 0, false, false)
		y = y.Attached(soft.End(1))
		one := row(t, tokens/sequences)
		gather := t.Replay([]step.T{y}, []step.T{y, labels})
		gather.AllocWide(0, numel*size, step.LabelLogitsGradient)
		gather.Send(0, 0, false, false)
		logps = append(logps, one.Attached(gather.End(1)))
		former = y
	}
	joined := join(t, logps, tokens)
	t.Drop(former)
	return joined
}

// join is torch.stack of small tensors, which it takes over: numel elements.
func join(t *step.Tape, parts []step.T, numel int64) step.T {
	y := row(t, numel)
	var last step.T
	for i, part := range parts { // a node has few inputs, so that they hang in a chain
		if i == 0 {
			last = part
			continue
		}
		add := t.Replay([]step.T{last, part}, nil)
		add.Pass(0, 0, false)
		add.Pass(0, 1, false)
		last = last.Attached(add.End(1))
	}
	for _, part := range parts {
		t.Drop(part)
	}
	return y.Attached(last)
}

// subtract is a - b.
func subtract(t *step.Tape, a, b step.T) step.T {
	y := row(t, a.Numel())
	r := t.Replay([]step.T{a, b}, nil)
	r.Alloc(0, b.Numel()*4, step.LabelLoss)
	r.Pass(0, 0, false)
	r.Send(0, 1, false, false)
	return y.Attached(r.End(1))
}

// total is a loss of one value for each of x's tokens, of which it is a sum or a mean.
func total(t *step.Tape, x step.T) step.T {
	y := row(t, 1)
	r := t.Replay([]step.T{x}, nil)
	r.Alloc(0, x.Numel()*4, step.LabelLoss)
	r.Send(0, 0, false, false)
	return y.Attached(r.End(1))
}

// entropyRows is how many tokens trl's entropy_from_logits takes at a time.
const entropyRows = 128

// entropy is the Shannon entropy of each of so many tokens, under no_grad: -(exp(logps) * logps).sum(-1) in chunks.
// Source: trl/trainer/utils.py (entropy_from_logits), 0.26 and 1.16.
func entropy(t *step.Tape, logits step.T, tokens int64) {
	width, d := logits.Numel()/tokens, logits.Dtype()
	chunks := make([]step.T, 0, step.CeilDiv(tokens, entropyRows))
	before := step.NoTensor
	for first := int64(0); first < tokens; first += entropyRows {
		n := min(entropyRows, tokens-first)
		logps := wide(t, n*width, d, step.LabelLogProbabilities)
		t.Drop(before) // the variable's former value
		exp := wide(t, n*width, d, step.LabelLogProbabilities)
		product := wide(t, n*width, d, step.LabelLogProbabilities)
		t.Drop(exp)
		sum := row(t, n)
		t.Drop(product)
		chunks = append(chunks, row(t, n))
		t.Drop(sum)
		before = logps
	}
	all := row(t, tokens)
	t.Drop(before)
	for _, c := range chunks {
		t.Drop(c)
	}
	t.Drop(all)
}

// selectedMean is logits[mask].mean() for a log: a copy of the rows of so many tokens, and where they are.
func selectedMean(t *step.Tape, logits step.T, tokens, width int64) step.T {
	places := t.Input(2*tokens, step.I64)
	copied := wide(t, tokens*width, logits.Dtype(), step.LabelLogits)
	t.Drop(places)
	mean := row(t, 1)
	t.Drop(copied)
	return mean
}
