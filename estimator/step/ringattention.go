package step

// Ring is how GPUs share a sequence: each has two pieces of it, one from the front and one from the back, so that
// causal attention is as much work for all.
type Ring struct {
	// GPUs share each sequence, and this one has pieces Rank and 2 GPUs - 1 - Rank.
	GPUs, Rank int64
	// Passes hands keys and values from GPU to GPU; otherwise all are gathered at once.
	Passes bool
}

// Rings are what hooks do besides where GPUs share each sequence.
type Rings interface {
	// Attend is causal attention over the whole sequence of the queries that this GPU has.
	Attend(q, k, v T, h Heads) T
}

// CausalSDPA is SDPA of all tokens up to each one, which a strategy may have dealt out over GPUs.
func (t *Tape) CausalSDPA(q, k, v T, h Heads) T {
	if r, ok := hooksAs[Rings](t.hooks); ok {
		return r.Attend(q, k, v, h)
	}
	return t.SDPA(q, k, v, h, nil, 0)
}

// RingAttention is flash attention, or where a head of values has another size the memory-efficient kernel, with the
// keys and values of one GPU after another, whose outputs are merged in float32 by their log-sum-exps. Keys and values
// have a head for every query head. Source: torch/distributed/tensor/experimental/_attention.py
// (_templated_ring_attention, _SDPAMerger), torch 2.9.
func (t *Tape) RingAttention(q, k, v T, h Heads, ring Ring) T {
	c := ringed{h: h, ring: ring, numel: q.numel, values: q.numel / h.Dim * h.value(), half: q.dtype,
		flash: t.usesFlash(h, false)}
	f := &ringForward{t: t, ringed: c}
	y, lse, state, seed := f.run(q)
	o := t.op(q, k, v).save(q, k, v, y, lse)
	if c.flash {
		o = o.save(state, seed)
	}
	if o.i != None {
		b := &ringBackward{op: o, t: t, ringed: c, merged: y.layout == headsFirst}
		b.run()
	}
	y = o.out(y, 0)
	t.Drop(lse, seed, state)
	return y
}

// lowerHalf says that of the i-th GPU's keys, counted backwards, this one's second piece of queries sees all; otherwise
// all queries see the first piece of them.
func (r Ring) lowerHalf(i int64) bool { return i > r.Rank }

// ringed is what goes around.
type ringed struct {
	h      Heads
	ring   Ring
	numel  int64 // of the queries, and of the keys
	values int64 // of the values, and of the output
	half   DType
	flash  bool // the kernel
}

// ringForward is the forward as it runs.
type ringForward struct {
	t *Tape
	ringed

	out, lse T // merged so far, in float32
}

func (f *ringForward) run(q T) (y, lse, state, seed T) {
	t := f.t
	gone := T{storage: None}
	keys, values := t.fresh(f.numel, f.half, LabelContiguous), t.fresh(f.values, f.half, LabelContiguous)
	each := f.numel + f.values
	sent, coming, using, last, lastLSE := gone, gone, gone, gone, gone
	state, seed = gone, gone
	for i := range f.ring.GPUs {
		came := coming
		if i > 0 { // a collective's input is let go of when it is waited for
			t.Drop(sent)
			sent = gone
		}
		if i < f.ring.GPUs-1 {
			both := t.collective(each, f.half)
			switch {
			case f.ring.Passes:
				sent, coming = both, t.collective(each, f.half)
			case i == 0:
				sent, coming = both, t.collective(each*f.ring.GPUs, f.half)
			default:
				t.Drop(both)
			}
		}
		if i > 0 {
			t.Drop(keys, values)
			keys, values = gone, gone
			if f.ring.Passes {
				t.Drop(using)
				using = came
			}
		}
		out, stats, newState, newSeed := f.block(q, i)
		t.Drop(last, lastLSE, seed, state)
		last, lastLSE, state, seed = out, t.Hold(stats), newState, newSeed
		f.merge(out, stats, i)
	}
	y = t.Cast(f.out, f.half, LabelAttentionOutput)
	y.layout = f.out.layout
	t.Drop(f.out)
	if !f.ring.Passes {
		using = coming
	}
	t.Drop(using, last, lastLSE)
	return y.Detached(), f.lse, state, seed
}

// block is attention with the keys of the i-th GPU, counted backwards.
func (f *ringForward) block(q T, i int64) (out, lse, state, seed T) {
	h, t := f.h, f.t
	h.Queries, h.Keys = f.lengths(i)
	part := q
	part.numel = q.numel / t.Shape.Tokens * h.Queries
	if f.flash {
		return t.flashResults(part, h, 0)
	}
	gone := T{storage: None}
	out = t.fresh(part.numel/h.Dim*h.value(), q.dtype, LabelAttentionOutput)
	lse = t.fresh(t.Shape.Batch*h.Query*roundUp(h.Queries, 32), F32, LabelAttentionStatistics)
	if q.dtype.Half() && h.widest() > maxRegisterHead {
		t.Drop(t.fresh(out.numel, F32, LabelAttentionScratch))
	}
	return out, lse, gone, gone
}

func (f *ringForward) lengths(i int64) (queries, keys int64) {
	return f.ring.lengths(i, f.t.Shape.Tokens)
}

// lengths are those of the queries and the keys of a block.
func (r Ring) lengths(i, tokens int64) (queries, keys int64) {
	switch {
	case i == 0:
		return tokens, tokens
	case r.lowerHalf(i):
		return tokens / 2, tokens
	}
	return tokens, tokens / 2
}

// merge takes what a block made to what there is.
func (f *ringForward) merge(block, stats T, i int64) {
	t := f.t
	out := t.fresh(block.numel, F32, LabelAttentionScratch)
	out.layout = block.layout
	if i == 0 {
		f.out, f.lse = out, stats
		return
	}
	rows, n := stats.numel, out.numel
	fresh := func(n int64) T { return t.fresh(n, F32, LabelAttentionScratch) }
	difference := fresh(rows)
	weight := fresh(rows)
	t.Drop(difference)
	change := fresh(n)
	weighed := fresh(n)
	t.Drop(weight, change)
	merged := fresh(n)
	merged.layout = f.out.layout
	t.Drop(weighed)
	difference = fresh(rows)
	log := fresh(rows)
	t.Drop(difference)
	mergedLSE := fresh(rows)
	t.Drop(log)
	if !f.ring.lowerHalf(i) {
		t.Drop(f.lse, f.out, stats, out)
		f.out, f.lse = merged, mergedLSE
		return
	}
	all := t.fresh(f.lse.numel, F32, LabelAttentionStatistics)
	t.Drop(f.lse)
	whole := fresh(f.out.numel)
	whole.layout = headsFirst
	t.Drop(f.out, mergedLSE, merged, stats, out)
	f.out, f.lse = whole, all
}

// ringBackward writes the backward down.
type ringBackward struct {
	op
	t *Tape
	ringed
	merged bool // the output is not laid out as the queries are
	used   [maxRegs - 2]bool
}

const noRegister = -1

// take allocates a register.
func (b *ringBackward) take(bytes int64, l Label) int {
	for r := range b.used {
		if !b.used[r] {
			b.used[r] = true
			b.alloc(r, bytes, l)
			return r
		}
	}
	panic("ring attention: more tensors at once than registers")
}

// drop frees registers, in order; those that hold nothing are passed over.
func (b *ringBackward) drop(rs ...int) {
	for _, r := range rs {
		if r != noRegister {
			b.used[r] = false
			b.free(r)
		}
	}
}

// run is the backward: queries' gradients stay, those of keys and values go around the ring in float32 with them.
// Source: _attention.py (_templated_ring_attention_backward).
func (b *ringBackward) run() {
	half, wide := b.numel*b.half.Size(), b.numel*F32.Size()
	valuesHalf, valuesWide := b.values*b.half.Size(), b.values*F32.Size()
	eachHalf, eachWide := half+valuesHalf, wide+valuesWide
	collective := func(bytes int64) int { return b.take(bytes, LabelCollective) }
	gradient := func(bytes int64) int { return b.take(bytes, LabelInputGradient) }
	gq, gk, gv := gradient(wide), gradient(wide), gradient(valuesWide)
	keys, values := b.take(half, LabelContiguous), b.take(valuesHalf, LabelContiguous)
	both, coming, using := noRegister, noRegister, noRegister // keys and values
	gradients, arrived, former := noRegister, noRegister, noRegister
	stats, dq, dk, dv := noRegister, noRegister, noRegister, noRegister
	for i := range b.ring.GPUs {
		came := coming
		if i < b.ring.GPUs-1 {
			next := collective(eachHalf)
			b.drop(both)
			both = next
			switch {
			case b.ring.Passes:
				coming = collective(eachHalf)
			case i == 0:
				coming = collective(eachHalf * b.ring.GPUs)
			}
		}
		lower := i > 0 && b.ring.lowerHalf(i)
		queries, seen := b.ring.lengths(i, b.t.Shape.Tokens)
		if i > 0 {
			lse := noRegister
			if lower {
				lse = b.take(b.t.Shape.Batch*b.h.Query*queries*F32.Size(), LabelAttentionStatistics)
			}
			b.drop(keys, values, stats)
			keys, values, stats = noRegister, noRegister, lse
			if b.ring.Passes {
				b.drop(using)
				using = came
			}
		}
		q, k, v := b.block(queries, seen)
		b.drop(dq, dk, dv)
		dq, dk, dv = q, k, v
		if i == 0 {
			keep := [2]int{gradient(wide), gradient(valuesWide)} // in order, for the concatenation
			gradients = collective(eachWide)
			b.drop(keep[1], keep[0])
			arrived = collective(eachWide)
			continue
		}
		b.drop(gradients) // which was sent
		b.drop(gk, gv)
		gk, gv = noRegister, noRegister
		b.drop(former)
		former = arrived
		if !lower {
			gk, gv = gradient(wide), gradient(valuesWide)
		}
		gradients = collective(eachWide)
		arrived = collective(eachWide)
		if !lower { // nobody refers to what came in any more
			b.drop(former)
			former = noRegister
			continue
		}
		whole := gradient(wide)
		b.drop(gq)
		gq = whole
	}
	narrow := gradient(half)
	b.drop(gq)
	pair := collective(eachHalf)
	if !b.ring.Passes {
		using = coming
	}
	b.drop(gradients, gk, gv, former, both, dq, dk, dv, arrived, using, stats)
	b.act(act{verb: actSend, route: route{uint8(narrow), 0}})
	b.act(act{verb: actSendAgain, route: route{uint8(pair), 1}, bytes: half})
	b.act(act{verb: actSendMarked, route: route{uint8(pair), 2}, bytes: half})
}

// block is the backward of attention with some of the queries and keys.
func (b *ringBackward) block(queries, keys int64) (dq, dk, dv int) {
	t := b.t
	each, value := b.numel/t.Shape.Tokens*b.half.Size(), b.values/t.Shape.Tokens*b.half.Size()
	if !b.flash {
		h := b.h
		h.Queries, h.Keys = queries, keys
		heads := t.Shape.Batch * h.Query
		dq, dk, dv = b.take(each*queries, LabelInputGradient), b.take(each*keys, LabelInputGradient),
			b.take(value*keys, LabelInputGradient)
		sums := b.take(heads*queries*F32.Size(), LabelAttentionScratch)
		workspace := b.take(heads*t.Recipe.efficientWorkspace(queries, keys, heads, h, b.half), LabelAttentionScratch)
		b.drop(sums, workspace)
		return dq, dk, dv
	}
	copied := noRegister
	if b.merged {
		copied = b.take(each*queries, LabelContiguous)
	}
	dq, dk, dv = b.take(each*queries, LabelInputGradient), b.take(each*keys, LabelInputGradient),
		b.take(each*keys, LabelInputGradient)
	rows := t.Shape.Batch * b.h.Query * roundUp(queries, 128)
	sums := b.take(rows*F32.Size(), LabelAttentionScratch)
	accumulator := b.take(rows*t.flashHead(b.h)*F32.Size(), LabelAttentionScratch)
	b.drop(accumulator, sums, copied)
	return dq, dk, dv
}
