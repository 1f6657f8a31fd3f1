package parallel

import (
	"slices"
	"testing"
)

// TestBuckets holds the layout against compute_bucket_assignment_by_size of PyTorch 2.9.1, called with these sizes and
// limits of 1 and 25 MiB.
func TestBuckets(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name  string
		sizes []int64
		want  []int64
	}{
		{"nothing", nil, nil},
		{"less than the first limit", []int64{1000, 2000}, []int64{3000}},
		{"the first bucket is small", []int64{mib, mib}, []int64{mib, mib}},
		{"a bucket is closed by the tensor that fills it", []int64{mib / 2, 4 * mib, 20 * mib, 4 * mib, 8 * mib, mib},
			[]int64{4*mib + mib/2, 32 * mib, mib}},
		{"one tensor may be larger than a bucket", []int64{100 * mib, 100 * mib}, []int64{100 * mib, 100 * mib}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int64
			tensors := 0
			buckets(tt.sizes, firstBucketBytes, bucketBytes, func(bytes int64, n int) {
				got, tensors = append(got, bytes), tensors+n
			})
			if !slices.Equal(got, tt.want) || tensors != len(tt.sizes) {
				t.Errorf("buckets %v of %d tensors, want %v of %d", got, tensors, tt.want, len(tt.sizes))
			}
		})
	}
}
