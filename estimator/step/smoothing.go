package step

// smoothedLoss is the Trainer's LabelSmoother on what the model returned without labels: the logits shifted, the
// negative of their log-softmax, which stays beside it until the function returns, and two numbers of each token.
// Backward adds the gradient of the sum over the vocabulary, a view, to that of what was gathered.
// Source: transformers/trainer_pt_utils.py (LabelSmoother), trainer.py (compute_loss), 4.57.6 and 5.23.0.
func (t *Tape) smoothedLoss(logits T) T {
	var cut T
	if t.Shape.Batch > 1 {
		cut = t.withoutLast(logits)
	} else { // one row is contiguous up to its last element but one
		cut = t.Slice(logits, logits.numel/t.Shape.Tokens*(t.Shape.Tokens-1))
	}
	rows := t.Shape.Batch * (t.Shape.Tokens - 1)
	shifted := t.fresh(rows, I64, LabelInput)

	logp := t.wide(cut.numel, cut.dtype, LabelLogProbabilities)
	logp = t.wideGradient(t.op(cut).keepSoftmax(cut, logp), cut).out(logp, 0)
	negative := t.wide(cut.numel, cut.dtype, LabelLogProbabilities)
	negative = t.wideGradient(t.op(logp), logp).out(negative, 0)
	t.Drop(logp)

	padding := t.fresh(rows, Bool, LabelInput)
	labels := t.fresh(rows, I64, LabelInput)
	t.Drop(shifted)
	gathered := t.fresh(rows, negative.dtype, LabelLoss)
	summed := t.fresh(rows, F32, LabelLoss)
	loss := t.fresh(1, F32, LabelLoss)
	const placed, added = 0, 1
	whole := func(r int) act {
		return act{verb: actAllocLogits, route: route{reg: uint8(r)}, bytes: negative.bytes(),
			label: LabelLogitsGradient}
	}
	loss = t.op(negative).save(labels, padding).act(whole(placed)).act(whole(added)).free(placed).send(added, 0).
		out(loss, 0)
	t.Drop(gathered, summed, labels, padding, negative, cut)
	return loss
}
