package step

// LlamaBlock is the parameters of a layer of Meta's Llama: RMSNorm, attention with rotary positions in complex numbers
// and shared keys and values, RMSNorm and a gated MLP.
type LlamaBlock struct {
	AttentionNorm, Query, Key, Value, Out Weight
	MLPNorm, Gate, Up, Down               Weight
	Heads                                 Heads
	// TurnsPairs says that pairs are turned by real numbers, in kernels that Inductor fuses with what is around them,
	// and not by complex ones.
	TurnsPairs bool
}

// blockKeeps is what a compiled block keeps for backward.
type blockKeeps uint8

const (
	blockKeepsAll      blockKeeps = iota
	blockKeepsProducts            // of every second matrix product the result, and those of attention
	blockKeepsInput               // its input alone
)

// CompilesBlocks says whether the recipe compiles blocks of this model, each by itself.
func (t *Tape) CompilesBlocks() bool { return t.Recipe.CompileBlocks }

// keepsOfBlock is what the block that runs keeps under the recipe's checkpointing, where that lies inside of what is
// compiled. Source: torchtitan/models/llama3/infra/parallelize.py (apply_ac before apply_compile), 0.2.0.
func (t *Tape) keepsOfBlock() blockKeeps {
	every := t.Recipe.CheckpointEvery
	switch {
	case t.Recipe.CheckpointsAround:
		return blockKeepsAll
	case t.Recipe.SelectiveOps:
		return blockKeepsProducts
	case every > 0 && t.layersRun%every == 0:
		return blockKeepsInput
	}
	return blockKeepsAll
}

// block is a compiled block while it is recorded: sizes in elements.
type block struct {
	*LlamaBlock
	graph
	keeps                            blockKeeps
	compute                          DType
	rows, hidden, ffn                int64
	residual, queries, keys, widened int64 // widened are the keys or values as every query head sees them
	table                            int64 // bytes of the rotary table, conjugate
	gradients                        [9]int
}

// CompiledBlock is a layer under torch.compile, alone: what Inductor makes of it is one node of the graph.
//
// The order of kernels and what each keeps were read off the programs that Inductor wrote for torchtitan's Llama 3,
// with as many keys as queries and with fewer, without checkpointing, with all of it and with every second product kept
// (torch 2.9.1, torchtitan 0.2.0), and for torchtune's (0.6.1); which buffer lies in which memory follows from graph.
func (t *Tape) CompiledBlock(x T, w *LlamaBlock) T {
	b := &block{LlamaBlock: w, graph: graph{t: t}, keeps: t.keepsOfBlock(), compute: x.dtype}
	if !t.grads(x, t.Parameter(w.Query)) {
		b.keeps = blockKeepsInput
	}
	b.hidden, b.ffn = w.AttentionNorm.Rows, w.Gate.Rows
	b.residual, b.rows = x.numel, x.numel/b.hidden
	b.queries, b.keys = b.rows*w.Heads.Width(), b.rows*w.Heads.KVWidth()
	b.widened = b.queries
	b.table = t.Shape.Tokens * w.Heads.Dim * F32.Size()

	y, saved := b.forward()
	made := b.run()
	out, kept := made[y], make([]T, 0, len(saved)+1)
	for _, s := range saved {
		kept = append(kept, made[s])
	}
	return b.record(out, x, kept)
}

// record is the block's node.
func (b *block) record(y, x T, kept []T) T {
	t := b.t
	ins := []T{x}
	for _, w := range []Weight{b.AttentionNorm, b.Query, b.Key, b.Value, b.Out, b.MLPNorm, b.Gate, b.Up, b.Down} {
		ins = append(ins, t.Parameter(w))
	}
	o := t.op(ins...)
	if o.i != None {
		saves := append([]T{x}, kept...)
		o.save(saves...)
		b.graph = graph{t: t}
		given := make([]int, len(saves))
		for i, s := range saves {
			given[i] = b.given(s)
		}
		dx := b.gradient(given)
		b.backward(o)
		o.send(b.place(dx), 0)
		for k, g := range b.gradients {
			o.send(b.place(g), k+1)
		}
	}
	y = o.out(y, 0)
	t.Drop(kept...)
	return y
}

// attended is what attention leaves for its backward.
type attended struct {
	query, key, value, out, statistics, state, seed int
	normed, rstd                                    int
}

// forward lists the kernels of the forward; saved are in the order in which gradient expects them.
func (b *block) forward() (y int, saved []int) {
	t, d := b.t, b.compute
	t.In(PartAttention)
	a := b.attend(b.keeps == blockKeepsAll, b.keeps == blockKeepsProducts)
	switch b.keeps {
	case blockKeepsProducts:
		saved = []int{a.query, a.value, a.out, a.statistics, a.state, a.seed}
	case blockKeepsInput:
		b.done(a.query, a.key, a.value, a.statistics, a.state, a.seed)
	}
	projected := b.product(b.residual, d, LabelLinear)
	if b.keeps == blockKeepsInput {
		b.done(a.out)
	}
	t.In(PartMLP)
	rstd, normed := b.norm(b.keeps == blockKeepsAll)
	gate := b.product(b.inner(), d, LabelLinear)
	up := b.product(b.inner(), d, LabelLinear)
	if b.keeps == blockKeepsAll {
		active := b.buffer(b.inner(), d, LabelActivation)
		y = b.product(b.residual, d, LabelLinear) // to which the residual is added in place
		return y, []int{a.rstd, a.normed, a.query, a.key, a.value, a.out, a.statistics, a.state, a.seed, projected,
			rstd, normed, gate, up, active}
	}
	b.done(normed)
	b.kernel()
	b.rewrites(b.inner(), d)
	active := gate // in its place, or in that of up where the gate's product is kept
	if b.keeps == blockKeepsProducts {
		saved = append(saved, gate)
		active = up
	} else {
		b.done(up)
	}
	down := b.product(b.residual, d, LabelLinear)
	b.done(active)
	b.kernel()
	b.done(down)
	return projected, saved
}

// norm is the kernel of an RMSNorm, whose statistics may stay.
func (b *block) norm(keeps bool) (rstd, normed int) {
	b.kernel()
	if keeps {
		rstd = b.also(b.rows, F32, LabelNormStatistics)
	}
	return rstd, b.also(b.residual, b.compute, LabelNormOutput)
}

// attend lists attention up to its output. With keepsNorm the norm's output and statistics stay; with chooses the
// products of queries and values do, and what attention makes of queries, keys and values goes.
func (b *block) attend(keepsNorm, chooses bool) attended {
	d, a := b.compute, attended{}
	a.rstd, a.normed = b.norm(keepsNorm)
	if b.TurnsPairs {
		return b.attendToPairs(a, keepsNorm)
	}
	q := b.product(b.queries, d, LabelLinear)
	k := b.product(b.keys, d, LabelLinear)
	v := b.product(b.keys, d, LabelLinear)
	if !keepsNorm {
		b.done(a.normed)
	}
	wideQ := b.buffer(b.queries, F32, LabelRotary)
	if !chooses {
		b.done(q)
	}
	wideK := b.buffer(b.keys, F32, LabelRotary)
	b.done(k)
	turnedQ := b.turned(b.queries, 0)
	b.done(wideQ)
	turnedK := b.turned(b.keys, 0)
	b.done(wideK)
	a.query = b.buffer(b.queries, d, LabelRotary)
	b.done(turnedQ)
	a.key = b.buffer(b.widened, d, LabelExpandedKV)
	b.done(turnedK)
	a.value = v
	if b.shares() {
		a.value = b.buffer(b.widened, d, LabelExpandedKV)
		if !chooses {
			b.done(v)
		}
	}
	b.attention(&a)
	if chooses {
		b.done(a.query, a.key)
		if b.shares() {
			b.done(a.value)
		}
		a.query, a.value = q, v
	}
	return a
}

// attendToPairs is attend behind the norm with pairs that are turned as they are written for attention.
func (b *block) attendToPairs(a attended, keepsNorm bool) attended {
	d := b.compute
	q := b.product(b.queries, d, LabelLinear)
	a.query = b.buffer(b.queries, d, LabelRotary)
	b.done(q)
	k, v := b.product(b.keys, d, LabelLinear), b.product(b.keys, d, LabelLinear)
	if !keepsNorm {
		b.done(a.normed)
	}
	a.key = b.buffer(b.widened, d, LabelExpandedKV)
	b.done(k)
	a.value = v
	if b.shares() {
		a.value = b.buffer(b.widened, d, LabelExpandedKV)
		b.done(v)
	}
	b.attention(&a)
	return a
}

// inner is how many elements what is as wide as the MLP has: rows of more than so many elements that do not end with a
// cache line are padded to one, but for the last.
// Source: torch/_inductor/config.py (padding_alignment_bytes, padding_stride_threshold), torch 2.9.
func (b *block) inner() int64 {
	const lineBytes, shortRow = 128, 1024
	if b.ffn <= shortRow {
		return b.rows * b.ffn
	}
	return (b.rows-1)*roundUp(b.ffn, lineBytes/b.compute.Size()) + b.ffn
}

// shares says that several queries share keys and values.
func (b *block) shares() bool { return b.Heads.KV < b.Heads.Query }

// attention is what the kernel allocates.
func (b *block) attention(a *attended) {
	const words = 2
	t := b.t
	n := t.Shape.Batch * b.Heads.Query * t.Shape.Tokens
	b.kernel()
	a.out = b.add(b.queries, b.compute, LabelAttentionOutput, ofOperator)
	a.statistics = b.add(n, F32, LabelAttentionStatistics, ofOperator)
	if splits := t.flashSplits(b.Heads, t.Shape.Tokens, t.Shape.Tokens, 0); splits > 1 {
		b.done(b.add(splits*n, F32, LabelAttentionScratch, withinOperator),
			b.add(splits*n*t.flashHead(b.Heads), F32, LabelAttentionScratch, withinOperator))
	}
	a.state = b.add(words, I64, LabelAttentionStatistics, ofOperator)
	a.seed = b.add(1, I64, LabelAttentionStatistics, ofOperator)
}
