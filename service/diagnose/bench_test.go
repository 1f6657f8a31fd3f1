package diagnose

import (
	"fmt"
	"strings"
	"testing"
)

// manyFailures is a text of n failures that say different things, each with lines above it that say nothing.
func manyFailures(n int) string {
	var b strings.Builder
	for i := range n {
		for j := range 4 {
			fmt.Fprintf(&b, "step %d: x = self.blocks[%d](x, mask)\n", i, j)
		}
		fmt.Fprintf(&b, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 MiB. GPU 0 has a total capacity of "+
			"24.00 GiB of which 100.00 MiB is free. Of the allocated memory 22.40 GiB is allocated by PyTorch, and "+
			"100.00 MiB is reserved by PyTorch but unallocated.\n", 2*i+2)
	}
	return b.String()
}

// BenchmarkManyFailures reads texts of more and more failures: twice as many take twice as long, up to the bounds of
// what is read.
func BenchmarkManyFailures(b *testing.B) {
	for _, n := range []int{8, 16, 32, 64, 512} {
		text := manyFailures(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if t := Read(text); len(t.Explain(Job{}, nil)) != min(n, maxMessages) {
					b.Fatal("not all of them were read")
				}
			}
		})
	}
}
