package step

// Over is which dimension of a (rows, cols) matrix, whose columns are contiguous, a reduction takes away.
type Over uint8

const (
	OverRows Over = iota // one result a column: the gradient of a bias or of a norm's gain
	OverCols             // one result a row
	OverAll              // one result
)

// Reduction is the scratch, in bytes, of reducing a (rows, cols) matrix: when one block per group of results would
// leave multiprocessors idle, the values are split over several blocks and their partial results meet in global memory.
// It also returns the bytes of the semaphores that the blocks use.
//
// The launch configuration is setReduceConfig's of aten/src/ATen/native/cuda/Reduce.cuh,
// torch 2.9: float32 accumulation, four values a thread at once, at most 512 threads a block.
func (r *Recipe) Reduction(over Over, rows, cols int64) (scratch, semaphores int64) {
	const (
		maxThreads         = 512
		warp               = 32
		vectorInput        = 4
		longInput          = 128
		minValuesPerThread = 16
		maxValuesPerThread = 256
		accumulatorBytes   = 4
	)
	inputs, outputs, vector := rows, cols, int64(1)
	var dim0, dim1 int64
	switch over {
	case OverRows:
		for vector = 4; vector > 1 && cols%vector != 0; {
			vector /= 2
		}
		dim0, dim1 = cols/vector, rows
	case OverCols:
		inputs, outputs = cols, rows
		dim0, dim1 = inputs, outputs
	case OverAll:
		inputs, outputs = rows*cols, 1
		dim0, dim1 = inputs, 1
		if dim0 > longInput {
			dim0 /= vectorInput
		}
	}
	limit := maxThreads / vector
	p0, p1 := powerOfTwoUpTo(dim0, limit), powerOfTwoUpTo(dim1, limit)
	width := min(p0, warp)
	height := min(p1, limit/width)
	width = min(p0, limit/height)
	threads := width * height

	// Threads of a row of the block share the values of one result, or have a result each; so do the rows.
	values, perBlock := inputs, width
	if over != OverRows {
		values, perBlock = CeilDiv(inputs, width), 1
	}
	if values < min(height*16, maxValuesPerThread) {
		return 0, 0
	}
	values = CeilDiv(values, height)
	grid := CeilDiv(outputs/vector, perBlock)
	target := r.Multiprocessors * (r.ThreadsPerMultiprocessor / threads)
	if values < maxValuesPerThread || grid > target {
		return 0, 0
	}
	blocks := max(min(CeilDiv(target, grid), CeilDiv(values, minValuesPerThread)), CeilDiv(values, maxValuesPerThread))
	if blocks <= 1 {
		return 0, 0
	}
	return accumulatorBytes * outputs * blocks * perBlock * vector, 4 * grid
}

// sumRows allocates register r for the sum of a (rows, cols) matrix of type d over
// its rows, with the scratch that the sum takes.
func (o op) sumRows(r int, d DType, rows, cols int64, l Label) op {
	if o.i == None {
		return o
	}
	o.alloc(r, cols*d.Size(), l)
	if rows == 0 { // zeros
		return o
	}
	if scratch, semaphores := o.t.Recipe.Reduction(OverRows, rows, cols); scratch > 0 {
		const a, b = maxRegs - 1, maxRegs - 2
		o.alloc(a, scratch, LabelReduction).alloc(b, semaphores, LabelReduction).free(b).free(a)
	}
	return o
}

// SumScratch is what the sum of n truth values takes besides its result: a copy of them as integers, of eight bytes
// like the partial results. Source: aten/src/ATen/native/ReduceOps.cpp (make_reduction_from_out_ty), torch 2.9.
func (t *Tape) SumScratch(n int64) {
	whole := t.fresh(n, I64, LabelReduction)
	if scratch, semaphores := t.Recipe.Reduction(OverAll, n, 1); scratch > 0 {
		parts, locks := t.fresh(scratch/4, I64, LabelReduction), t.fresh(semaphores/4, F32, LabelReduction)
		t.Drop(locks, parts)
	}
	t.Drop(whole)
}

func powerOfTwoUpTo(n, limit int64) int64 {
	if n >= limit {
		return limit
	}
	p := int64(1)
	for p*2 <= n {
		p *= 2
	}
	return p
}

func CeilDiv(a, b int64) int64 { return (a + b - 1) / b }

func roundUp(a, b int64) int64 { return CeilDiv(a, b) * b }
