package objective

import "github.com/vramplan/vramplan/estimator/step"

// The tiles of trl's fused head: so many tokens by so many columns of the vocabulary.
// Source: trl/kernels/chunked_logprob.py (TOKEN_CHUNK_SIZE), trl/trainer/utils.py (_CHUNKED_LOGPROB_CHUNK_SIZE), 1.16.
const (
	tileTokens  = 4096
	tileColumns = 32768
)

// labelled are the log-probabilities of so many labelled tokens at the end of each sequence, without logits: the hidden
// states of these tokens are copied, and the head runs on them tile by tile, again in backward. Source:
// trl/trainer/utils.py (add_fused_lm_head), trl/kernels/chunked_logprob.py (ChunkedLogProbFunction), 1.16.
func labelled(p step.Pass, each int64) step.Pass {
	sequences, tokens := p.Shape.Batch, p.Shape.Tokens
	n := sequences * min(each, tokens-1)
	p.Head = func(t *step.Tape, hidden step.T, w, b step.Weight) step.T {
		width := hidden.Numel() / (sequences * tokens)
		size := hidden.Dtype().Size()
		shorter := t.Replay([]step.T{hidden}, nil) // [:, :-1]
		shorter.Alloc(0, hidden.Numel()*size, step.LabelInputGradient)
		shorter.Send(0, 0, false, false)
		edge := shorter.End(1)
		mask, places := t.Input(sequences*(tokens-1), step.Bool), t.Input(2*n, step.I64)
		chosen := t.Made(n*width, hidden.Dtype(), step.LabelContiguous, false)
		index := t.Replay([]step.T{hidden.Attached(edge)}, []step.T{places})
		index.Alloc(0, sequences*(tokens-1)*width*size, step.LabelInputGradient)
		index.Send(0, 0, false, false)
		chosen = chosen.Attached(index.End(1))
		t.Drop(places)
		targets := t.Input(n, step.I64)
		logps := fusedHead(t, chosen, w, b, targets, n)
		t.Drop(chosen, targets)
		all := row(t, sequences*(tokens-1)).Attached(logps)
		t.Drop(logps, mask)
		return all
	}
	return p
}

// Tiles is how many tiles of logits the fused head makes of n tokens.
func Tiles(n, vocabulary int64) int64 {
	return step.CeilDiv(n, tileTokens) * step.CeilDiv(vocabulary, tileColumns)
}

// fusedHead is ChunkedLogProbFunction of n tokens.
func fusedHead(t *step.Tape, hidden step.T, w, b step.Weight, targets step.T, n int64) step.T {
	p := t.Parameter(w)
	compute := hidden.Dtype()
	if t.Recipe.Autocast {
		compute = t.Recipe.Compute
	}
	half := compute.Size()
	var running []step.T
	for range 7 {
		running = append(running, row(t, n))
	}
	tokens := min(n, tileTokens)
	tile := t.Made(tokens*tileColumns, compute, step.LabelLogits, true)
	narrow := func(numel int64, from step.DType, l step.Label) step.T {
		if from == compute {
			return step.NoTensor
		}
		return t.Made(numel, compute, l, false)
	}
	chunk := step.NoTensor
	for first := int64(0); first < n; first += tileTokens {
		next := narrow(min(tileTokens, n-first)*w.Cols, hidden.Dtype(), step.LabelCast)
		t.Drop(chunk)
		chunk = next
		for start := int64(0); start < w.Rows; start += tileColumns {
			part := narrow(min(tileColumns, w.Rows-start)*w.Cols, p.Dtype(), step.LabelWeightCopy)
			t.Product(false)
			t.Drop(part)
		}
	}
	logZ, entropy, y := row(t, n), row(t, n), row(t, n)
	for _, x := range append(running, chunk, tile) {
		t.Drop(x)
	}
	edges := []step.T{hidden, p}
	biased := b.Exists() && t.Parameter(b).RequiresGrad()
	if biased {
		edges = append(edges, t.Parameter(b))
	}
	r := t.Replay(edges, []step.T{hidden, targets, logZ, entropy})
	const gradHidden, gradWeight, buffer, input, weights = 0, 1, 2, 3, 5
	trained := p.RequiresGrad()
	r.Alloc(gradHidden, n*w.Cols*4, step.LabelInputGradient)
	if trained {
		r.Alloc(gradWeight, p.Numel()*4, step.LabelWeightGradient)
	}
	const gradBias, sentBias = 9, 10
	if biased {
		r.Alloc(gradBias, w.Rows*4, step.LabelWeightGradient)
	}
	r.AllocWide(buffer, tokens*tileColumns*half, step.LabelLogitsGradient)
	turns := 0
	inputs := 0
	for first := int64(0); first < n; first += tileTokens {
		if hidden.Dtype() != compute {
			r.Alloc(input+inputs%2, min(tileTokens, n-first)*w.Cols*half, step.LabelCast)
			if inputs > 0 {
				r.Free(input + (inputs+1)%2)
			}
			inputs++
		}
		for start := int64(0); start < w.Rows; start += tileColumns {
			if p.Dtype() == compute {
				r.Product()
				continue
			}
			r.Alloc(weights+turns%2, min(tileColumns, w.Rows-start)*w.Cols*half, step.LabelWeightCopy)
			if turns > 0 { // the variable's former value
				r.Free(weights + (turns+1)%2)
			}
			turns++
			r.Product()
		}
	}
	sentHidden, sentWeight := gradHidden, gradWeight
	if hidden.Dtype() != step.F32 {
		sentHidden = 7
		r.Alloc(sentHidden, n*w.Cols*hidden.Dtype().Size(), step.LabelInputGradient)
	}
	if trained && p.Dtype() != step.F32 {
		sentWeight = 8
		r.Alloc(sentWeight, p.Numel()*p.Dtype().Size(), step.LabelWeightGradient)
	}
	if biased && t.Parameter(b).Dtype() != step.F32 {
		r.Alloc(sentBias, w.Rows*t.Parameter(b).Dtype().Size(), step.LabelWeightGradient)
	}
	if turns > 0 {
		r.Free(weights + (turns+1)%2)
	}
	if inputs > 0 {
		r.Free(input + (inputs+1)%2)
	}
	r.Free(buffer)
	if sentHidden != gradHidden {
		r.Free(gradHidden)
	}
	if trained && sentWeight != gradWeight {
		r.Free(gradWeight)
	}
	r.Send(sentHidden, 0, false, false)
	if trained {
		r.Send(sentWeight, 1, false, false)
	}
	if biased {
		sent := gradBias
		if t.Parameter(b).Dtype() != step.F32 {
			r.Free(gradBias)
			sent = sentBias
		}
		r.Send(sent, 2, false, false)
	}
	t.Drop(logZ, entropy)
	return y.Attached(r.End(1))
}
