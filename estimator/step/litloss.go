package step

// ListedLoss is litgpt's loss in fine-tuning with adapters: the model returns a list of the logits of so many tokens of
// every sequence each, which Fabric makes float32, and the loss is taken of each of them, of the last one without its
// last token. A variable of the loop holds the list until the next micro-step has made its own. It takes over x, the
// input of the head that waits.
// Sources: litgpt/model.py (GPT.forward, lm_head_chunk_size), litgpt/utils.py (chunked_cross_entropy), 0.5;
// lightning/fabric/wrappers.py (convert_output), 2.6.
func (t *Tape) ListedLoss(x, labels T) T {
	batch, tokens := t.Shape.Batch, t.Shape.Tokens
	step := max(min(t.Recipe.Loss.ChunkRows, tokens), 1)
	if t.Recipe.Loss.ChunkRows == 0 {
		step = CeilDiv(tokens, max(t.Recipe.Loss.Chunks, 1))
	}
	var lengths, widths []int64
	for at := int64(0); at < tokens; at += step {
		lengths = append(lengths, min(step, tokens-at))
		widths = append(widths, x.numel/tokens*min(step, tokens-at))
	}
	parts := t.splitInto(x, widths)
	narrow := make([]T, len(parts))
	for i, part := range parts {
		narrow[i] = t.runHead(part, t.head.run)
	}
	for i := range parts {
		t.Drop(parts[i])
	}
	t.Drop(x)
	wide := make([]T, len(parts))
	for i := range parts {
		wide[i] = t.FloatLogits(narrow[i])
	}
	for i := len(narrow) - 1; i >= 0; i-- {
		t.Drop(narrow[i])
	}
	if t.Recipe.HoldLogits {
		for i := range wide {
			t.freePrevious(t.Hold(wide[i]))
		}
	}
	last := len(wide) - 1
	lengths[last]--
	if lengths[last] == 0 {
		t.Drop(wide[last])
		lengths, wide = lengths[:last], wide[:last]
	} else {
		wide[last] = t.withoutLastToken(wide[last], batch, lengths[last])
	}
	targets := make([]T, len(wide))
	for i, n := range lengths {
		targets[i] = t.Hold(labels)
		targets[i].numel = batch * n
		if batch > 1 {
			t.Drop(targets[i])
			targets[i] = t.fresh(batch*n, I64, LabelLoss)
		}
	}
	losses := make([]T, len(wide))
	for i := range wide {
		losses[i] = t.unreducedLoss(wide[i], targets[i])
	}
	mean := t.meanOfLosses(losses, batch*(tokens-1))
	for i := len(wide) - 1; i >= 0; i-- {
		t.Drop(wide[i])
	}
	for i := range targets {
		t.Drop(targets[i])
	}
	for i := len(losses) - 1; i >= 0; i-- {
		t.Drop(losses[i])
	}
	return mean
}

// splitInto is x.split(…) into any number of parts, whose gradients are put together in one tensor.
func (t *Tape) splitInto(x T, numels []int64) []T {
	split := t.op(x).collect(x.bytes()).out(x, 0).edge
	parts := make([]T, len(numels))
	for i, n := range numels {
		parts[i] = t.Hold(x)
		parts[i].numel, parts[i].edge = n, split
	}
	return parts
}

// passed is y, which hands its gradient to all of xs as it is.
func (t *Tape) passed(y T, xs ...T) T {
	o := t.op(xs...)
	for i := range xs {
		o.pass(0, i)
	}
	return o.out(y, 0)
}

// SplitLoss is litgpt's loss over logits that are there at once and that Fabric makes float32, 128 rows at a time. A
// variable of the loop holds them. It takes over logits.
func (t *Tape) SplitLoss(logits, labels T) T {
	batch, tokens := t.Shape.Batch, t.Shape.Tokens
	wide := t.FloatLogits(logits)
	t.Drop(logits)
	if t.Recipe.HoldLogits {
		t.freePrevious(t.Hold(wide))
	}
	shifted := t.withoutLastToken(wide, batch, tokens-1)
	const rows = 128
	n := batch * (tokens - 1)
	var widths []int64
	for at := int64(0); at < n; at += rows {
		widths = append(widths, shifted.numel/max(n, 1)*min(rows, n-at))
	}
	parts := t.splitInto(shifted, widths)
	target := t.Hold(labels)
	if batch > 1 {
		t.Drop(target)
		target = t.fresh(n, I64, LabelLoss)
	}
	losses := make([]T, len(parts))
	for i := range parts {
		part := target
		part.numel = min(rows, n-int64(i)*rows)
		losses[i] = t.unreducedLoss(parts[i], part)
	}
	mean := t.meanOfLosses(losses, n)
	for i := len(losses) - 1; i >= 0; i-- {
		t.Drop(parts[i], losses[i])
	}
	t.Drop(target, shifted)
	return mean
}

// withoutLastToken is x[..., :-1, :].reshape(-1, V), a view of one sequence and a copy of several. It takes over x,
// which a list or a variable holds all the same: the copy is made beside it.
func (t *Tape) withoutLastToken(x T, batch, tokens int64) T {
	cut := t.Slice(x, x.numel/(batch*(tokens+1))*batch*tokens)
	if batch == 1 {
		t.Drop(x)
		return cut
	}
	y := t.wide(cut.numel, cut.dtype, LabelLogitsFloat)
	y = t.op(cut).pass(0, 0).out(y, 0)
	t.Drop(cut, x)
	return y
}

// unreducedLoss is F.cross_entropy(logits, targets, reduction="none").
func (t *Tape) unreducedLoss(logits, targets T) T {
	logp := t.wide(logits.numel, logits.dtype, LabelLogProbabilities)
	logp = t.wideGradient(t.op(logits).keepSoftmax(logits, logp), logits).out(logp, 0)
	loss := t.fresh(targets.numel, logits.dtype, LabelLoss)
	weight := t.fresh(1, logits.dtype, LabelLoss)
	loss = t.wideGradient(t.op(logp).save(logp, targets, weight), logp).out(loss, 0)
	t.Drop(weight, logp)
	return loss
}

// meanOfLosses is torch.cat(losses).sum() / the number of targets that count.
func (t *Tape) meanOfLosses(losses []T, n int64) T {
	mask := t.fresh(n, Bool, LabelLoss)
	count := t.reduced(1, I64, OverAll, n, 1)
	t.Drop(mask)
	all := t.fresh(n, F32, LabelLoss)
	sum := t.reduced(1, F32, OverAll, n, 1)
	t.Drop(all)
	const most = 128 // a node has so many inputs; the gradient of a sum is a view in any case
	for len(losses) > most {
		joined := losses[0]
		joined = t.passed(joined, losses[:most]...)
		losses = append([]T{joined}, losses[most:]...)
	}
	sum = t.passed(sum, losses...)
	one := t.fresh(1, I64, LabelLoss)
	divisor := t.fresh(1, I64, LabelLoss)
	t.Drop(one)
	mean := t.fresh(1, F32, LabelLoss)
	mean = t.op(sum).save(divisor).alloc(0, 4, LabelLoss).send(0, 0).out(mean, 0)
	t.Drop(sum, divisor, count)
	return mean
}
