package parallel

import (
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/step"
)

// counting is a heap that counts what it is asked for.
type counting struct{ allocs, frees int }

func (c *counting) Alloc(int64) int32 { c.allocs++; return int32(c.allocs) }
func (c *counting) Free(int32)        { c.frees++ }

// bucketRank is a model with an embedding, seven layers of two parameters, of which three are recorded, and a norm.
func bucketRank() *step.Rank {
	of := func(n int64) step.Parameter { return step.Parameter{Numel: n, Dtype: step.F32} }
	r := &step.Rank{Parts: step.Parameters{LayerStart: 1, PerLayer: 2, Recorded: 3, Layers: 7}}
	r.Parts.List = []step.Parameter{of(1 << 20), of(4 << 20), of(64), of(4 << 20), of(64), of(4 << 20), of(64), of(16)}
	r.Trained = func() []*step.Parameter { return r.Parts.InOrder(nil) }
	r.Reduced = r.Trained
	r.Ready = []int32{7, 5, 6, 3, 4, 1, 2, 0} // in each layer the matrix before the vector
	return r
}

// TestBucketsFollowGradients holds the order of what is put into buckets to that in which gradients come.
func TestBucketsFollowGradients(t *testing.T) {
	r, want := bucketRank(), []int64{16 * 4}
	for range 7 {
		want = append(want, 16<<20, 64*4)
	}
	want = append(want, 4<<20)
	if got := readySizes(r, gradientSizes(r)); !slices.Equal(got, want) {
		t.Errorf("gradients come as %d, want %d", got, want)
	}
	r.Ready = nil // as of a model that leaves experts out
	if got := readySizes(r, gradientSizes(r)); got[0] != 16*4 || got[1] != 64*4 || got[2] != 16<<20 {
		t.Errorf("without an order gradients come as %d, want the opposite of the parameters'", got)
	}
}

// TestBucketsAreLaidOutAnewOnce says that only the second step does so.
func TestBucketsAreLaidOutAnewOnce(t *testing.T) {
	r, heap := bucketRank(), &counting{}
	r.Held = []int32{heap.Alloc(1)} // one bucket for all
	DDP{}.NextStep(r, heap)
	once := *heap
	if once.frees != 1 || len(r.Held) < 2 {
		t.Fatalf("%d buckets after the first step, of which %d went", len(r.Held), once.frees)
	}
	DDP{}.NextStep(r, heap)
	if *heap != once {
		t.Errorf("the third step asks for %d and frees %d", heap.allocs-once.allocs, heap.frees-once.frees)
	}
}
