package step

// reduction is the scratch, in bytes, of summing a (rows, cols) matrix over
// its rows, as the gradient of a bias or of a norm's gain does: when one block per
// group of columns would leave multiprocessors idle, the rows are split over several
// blocks and their partial sums meet in global memory. It also returns the bytes of
// the semaphores that the blocks use.
//
// The launch configuration is setReduceConfig's of aten/src/ATen/native/cuda/Reduce.cuh,
// torch 2.9, for a sum over the slow dimension: float32 accumulation, four outputs a
// thread, at most 512 threads a block.
func (t *Tape) reduction(rows, cols int64) (scratch, semaphores int64) {
	const (
		maxThreads         = 512
		warp               = 32
		minValuesPerThread = 16
		maxValuesPerThread = 256
		accumulatorBytes   = 4
	)
	vector := int64(4)
	for vector > 1 && cols%vector != 0 {
		vector /= 2
	}
	dim0, dim1 := cols/vector, rows
	limit := maxThreads / vector
	p0, p1 := powerOfTwoUpTo(dim0, limit), powerOfTwoUpTo(dim1, limit)
	width := min(p0, warp)
	height := min(p1, limit/width)
	width = min(p0, limit/height)
	threads := width * height

	values := rows
	if values < min(height*16, maxValuesPerThread) {
		return 0, 0
	}
	values = ceilDiv(rows, height)
	grid := ceilDiv(cols/vector, width)
	target := t.Recipe.Multiprocessors * (t.Recipe.ThreadsPerMultiprocessor / threads)
	if values < maxValuesPerThread || grid > target {
		return 0, 0
	}
	blocks := max(min(ceilDiv(target, grid), ceilDiv(values, minValuesPerThread)), ceilDiv(values, maxValuesPerThread))
	if blocks <= 1 {
		return 0, 0
	}
	return accumulatorBytes * cols * blocks * width * vector, 4 * grid
}

// sumRows allocates register r for the sum of a (rows, cols) matrix of type d over
// its rows, with the scratch that the sum takes.
func (o op) sumRows(r int, d DType, rows, cols int64, l Label) op {
	if o.i == none {
		return o
	}
	o.alloc(r, cols*d.Size(), l)
	if scratch, semaphores := o.t.reduction(rows, cols); scratch > 0 {
		const a, b = maxRegs - 1, maxRegs - 2
		o.alloc(a, scratch, LabelReduction).alloc(b, semaphores, LabelReduction).free(b).free(a)
	}
	return o
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

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func roundUp(a, b int64) int64 { return ceilDiv(a, b) * b }
