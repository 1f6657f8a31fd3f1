package parallel

import "github.com/vramplan/vramplan/estimator/step"

// The blocks of the kernels that copy gathered parameters out and gradients in: how many threads each has, and how many
// bytes each thread takes at once.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (BLOCK_SIZE, BYTES_PER_THREAD), torch 2.9.
const (
	copyThreads    = 128
	copiedPerBlock = copyThreads * 16
)

// copyOutScratch is where split_with_sizes_copy keeps its addresses, sizes and the block that each split begins with.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (split_with_sizes_copy_out_cuda_contiguous_no_cast), torch 2.9.
func (f *fsdp2) copyOutScratch(g *shardGroup) int64 {
	rc := &f.Tape.Recipe
	bytes := func(p int32) int64 { return f.part(&f.parameters[p]) * f.parameters[p].Dtype.Size() }
	times := func(p int32) int64 { return f.parameters[p].Times(f.Tape.Prog.ExpertCopies) }
	blocks, tensors := int64(0), int64(0)
	for _, p := range g.params {
		blocks += times(p) * step.CeilDiv(bytes(p), copiedPerBlock)
		tensors += times(p)
	}
	most := rc.Multiprocessors * rc.ThreadsPerMultiprocessor / copyThreads * 2
	factor := step.CeilDiv(blocks*f.world(g), most)
	chunks := min(ceilRoot(factor), f.world(g))
	rounds := step.CeilDiv(factor, chunks)
	blocks = 0
	for _, p := range g.params {
		blocks += times(p) * step.CeilDiv(bytes(p), copiedPerBlock*rounds)
	}
	return 8 * (blocks + 4*tensors + 1)
}

// copyInScratch is the same for _chunk_cat.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (get_chunk_cat_metadata), torch 2.9.
func (f *fsdp2) copyInScratch(params []int32) int64 {
	blocks, tensors := int64(0), int64(0)
	for _, p := range params {
		times := f.parameters[p].Times(f.Tape.Prog.ExpertCopies)
		blocks += times * step.CeilDiv(f.part(&f.parameters[p])*f.Reduced.Size(), copiedPerBlock)
		tensors += times
	}
	return 8 * (blocks + 6*tensors + 2)
}

// ceilRoot is the smallest number whose square is at least n.
func ceilRoot(n int64) int64 {
	r := int64(1)
	for r*r < n {
		r++
	}
	return r
}
