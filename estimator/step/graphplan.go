package step

// graph is a compiled graph as Inductor writes it down: kernels that make buffers and let go of them, one after the
// other. A new buffer takes over what was let go of last with its size and type, before that goes back to the
// allocator, unless keeping it until then raises the most that Inductor foresees.
// Sources: torch/_inductor/codegen/wrapper.py (AllocateLine, FreeIfNotReusedLine, EfficientPeakEstimate),
// torch/_inductor/memory.py (estimate_peak_memory), torch 2.9.
type graph struct {
	t       *Tape
	kernels int
	lines   []graphLine
	buffers []graphBuffer
	places  []inPlace
}

// inPlace is what a kernel writes where it reads: Inductor foresees memory of its own for it.
type inPlace struct {
	kernel int
	bytes  int64
}

type graphBuffer struct {
	bytes int64
	dtype DType
	label Label
	part  Part
	// at is the place of the memory that it lies in: its own number, or that of what it took over.
	at int
	buffersKind
}

// buffersKind is whose memory a buffer is.
type buffersKind uint8

const (
	// ofGraph is a buffer that the graph allocates: it takes over others, and others take it over.
	ofGraph buffersKind = iota
	// ofOperator is what an operator outside of the graph returns: others take it over.
	ofOperator
	// ofComplex is the same of complex numbers, of which the graph has none.
	ofComplex
	// withinOperator is there while an operator runs; Inductor does not know of it.
	withinOperator
	// ofInput is what the graph was given, and lets go of.
	ofInput
)

type graphLine struct {
	verb   graphVerb
	buffer int
	kernel int
}

type graphVerb uint8

const (
	graphMake graphVerb = iota
	graphDone
	graphProduct
	graphNothing // a buffer was taken over
)

func (g *graph) add(n int64, d DType, l Label, kind buffersKind) int {
	b := len(g.buffers)
	g.buffers = append(g.buffers, graphBuffer{bytes: n * d.Size(), dtype: d, label: l, part: g.t.part, at: b,
		buffersKind: kind})
	if kind != ofInput {
		g.lines = append(g.lines, graphLine{graphMake, b, g.kernels})
	}
	return b
}

// given is what the graph reads and lets go of.
func (g *graph) given(x T) int { return g.add(x.numel, x.dtype, LabelNone, ofInput) }

// buffer is one of n elements that the next kernel writes; also is another that the same kernel writes.
func (g *graph) buffer(n int64, d DType, l Label) int {
	g.kernels++
	return g.also(n, d, l)
}

func (g *graph) also(n int64, d DType, l Label) int { return g.add(n, d, l, ofGraph) }

// kernel begins one whose buffers are told by also and add.
func (g *graph) kernel() { g.kernels++ }

// rewrites says that a kernel, the last one begun, writes n elements where it reads.
func (g *graph) rewrites(n int64, d DType) {
	g.places = append(g.places, inPlace{g.kernels, n * d.Size()})
}

// product is a matrix product into a buffer of n elements.
func (g *graph) product(n int64, d DType, l Label) int {
	b := g.buffer(n, d, l)
	g.lines = append(g.lines, graphLine{graphProduct, b, g.kernels})
	return b
}

// turned is the product of n/2 complex numbers with a table of so many bytes, which it copies conjugate where there is
// one.
func (g *graph) turned(n, conjugate int64) int {
	g.kernels++
	if conjugate == 0 {
		return g.add(n, F32, LabelRotary, ofComplex)
	}
	table := g.add(conjugate/F32.Size(), F32, LabelRotary, withinOperator)
	b := g.add(n, F32, LabelRotary, ofComplex)
	g.done(table)
	return b
}

// done says that the kernel has read buffers for the last time.
func (g *graph) done(buffers ...int) {
	for _, b := range buffers {
		g.lines = append(g.lines, graphLine{graphDone, b, g.kernels})
	}
}

// foreseen is what Inductor expects to be alive at most while each kernel runs, were nothing taken over.
func (g *graph) foreseen() []int64 {
	most := make([]int64, g.kernels+1)
	live := int64(0)
	for i := range g.buffers {
		if g.buffers[i].buffersKind == ofInput {
			live += g.buffers[i].bytes
		}
	}
	for i, k := 0, 0; k <= g.kernels; k++ {
		gone := int64(0)
		for ; i < len(g.lines) && g.lines[i].kernel == k; i++ {
			b := &g.buffers[g.lines[i].buffer]
			switch {
			case b.buffersKind == withinOperator:
			case g.lines[i].verb == graphMake:
				live += b.bytes
			case g.lines[i].verb == graphDone:
				gone += b.bytes
			}
		}
		most[k] = live
		live -= gone
	}
	for _, p := range g.places {
		most[p.kernel] += p.bytes
	}
	return most
}

// plan says which buffer takes over which.
func (g *graph) plan() {
	expected := g.foreseen()
	most := int64(0)
	for _, m := range expected {
		most = max(most, m)
	}
	for i := range g.lines {
		b := &g.buffers[g.lines[i].buffer]
		if g.lines[i].verb != graphMake || b.buffersKind != ofGraph {
			continue
		}
		k := g.lastFree(i, b)
		if k < 0 {
			continue
		}
		from, to := g.lines[k].kernel+1, g.lines[i].kernel
		between := int64(0)
		for _, m := range expected[from:max(from, to)] {
			between = max(between, m)
		}
		if from < to && between+b.bytes > most {
			continue
		}
		for n := from; n < to; n++ {
			expected[n] += b.bytes
		}
		b.at = g.buffers[g.lines[k].buffer].at
		g.lines[k].verb, g.lines[i].verb = graphNothing, graphNothing
	}
}

// lastFree is the last line before the i-th that lets go of a buffer of b's size and type; -1 where there is none.
func (g *graph) lastFree(i int, b *graphBuffer) int {
	for k := i - 1; k >= 0; k-- {
		old := &g.buffers[g.lines[k].buffer]
		if g.lines[k].verb == graphDone && old.buffersKind <= ofOperator && old.bytes == b.bytes &&
			old.dtype == b.dtype {
			return k
		}
	}
	return -1
}

// run allocates and lets go of what the graph does, in the forward, and returns what it is left with, by buffer.
func (g *graph) run() []T {
	g.plan()
	t, part := g.t, g.t.part
	made := make([]T, len(g.buffers))
	for _, l := range g.lines {
		b := &g.buffers[l.buffer]
		switch l.verb {
		case graphMake:
			t.part = b.part
			made[l.buffer] = t.fresh(b.bytes/b.dtype.Size(), b.dtype, b.label)
		case graphDone:
			t.Drop(made[b.at])
		case graphProduct:
			t.workspace()
		}
	}
	t.part = part
	for i := range made {
		b := &g.buffers[i]
		made[i] = made[b.at]
		made[i].dtype, made[i].numel = b.dtype, b.bytes/b.dtype.Size()
	}
	return made
}

// backward is the same in the backward of o, whose saved tensors are the buffers that the graph was given, in their
// order. The register of a buffer is its place.
func (g *graph) backward(o op) {
	g.plan()
	for _, l := range g.lines {
		b := &g.buffers[l.buffer]
		switch {
		case l.verb == graphMake:
			o.alloc(l.buffer, b.bytes, b.label)
		case l.verb == graphProduct:
			o.workspace()
		case l.verb == graphDone && b.buffersKind == ofInput:
			o.forget(uint8(b.at))
		case l.verb == graphDone:
			o.free(b.at)
		}
	}
}

// place is the register of a buffer.
func (g *graph) place(b int) int { return g.buffers[b].at }
