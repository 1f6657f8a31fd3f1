package step

// Reducer is how DistributedDataParallel lays out the buckets in which gradients are summed over the GPUs. The gradients
// stay beside them: a bucket is a copy (gradient_as_bucket_view is off by default).
// Sources: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp, 2.9.
type Reducer uint8

// The layouts. By default all gradients share one bucket in the first step, and from the second on each has
// about 25 MiB, in the order in which gradients come; with find_unused_parameters it has so from the start, in
// the order of the parameters.
const (
	NoReducer Reducer = iota
	ReducerRebuilt
	ReducerFixed
)

const (
	firstBucketBytes = 1 << 20   // dist._DEFAULT_FIRST_BUCKET_BYTES
	bucketBytes      = 25 << 20  // bucket_cap_mb
	broadcastBytes   = 250 << 20 // DistributedDataParallel.broadcast_bucket_size
	broadcastsAtOnce = 2         // c10d/comm.cpp, broadcast_coalesced
)

// buckets calls f with the bytes of every bucket that tensors of the given sizes are put into, in their order: a bucket
// is closed when it has reached its limit, the first or the one for all others. tensors counts what is in it.
func buckets(sizes []int64, first, others int64, f func(bytes int64, tensors int)) {
	limit, bytes, tensors := first, int64(0), 0
	for _, n := range sizes {
		bytes += n
		if tensors++; bytes >= limit {
			f(bytes, tensors)
			limit, bytes, tensors = others, 0, 0
		}
	}
	if tensors > 0 {
		f(bytes, tensors)
	}
}

// gradientSizes are the bytes of the gradients that are reduced, each once, in the order of the parameters. All are of one
// type in the models that are replayed.
func (s *Session) gradientSizes() []int64 {
	var sizes []int64
	for _, p := range s.trainable() {
		sizes = append(sizes, p.bytes())
	}
	return sizes
}

// broadcast sends the first GPU's parameters and buffers to the others, flattened in pieces, when the model is wrapped.
func (s *Session) broadcast(heap Heap) {
	var sizes []int64
	for _, buffers := range []bool{false, true} {
		s.Parameters.Each(func(p *Parameter) {
			if p.Buffer == buffers {
				sizes = append(sizes, p.bytes())
			}
		})
	}
	var inFlight []int32
	buckets(sizes, broadcastBytes, broadcastBytes, func(bytes int64, tensors int) {
		if len(inFlight) == broadcastsAtOnce {
			heap.Free(inFlight[0])
			inFlight = inFlight[1:]
		}
		if tensors > 1 { // one alone is flat already
			inFlight = append(inFlight, heap.Alloc(bytes))
		}
	})
	for _, h := range inFlight {
		heap.Free(h)
	}
}

// wrapPeak is the most that is alive while the model, whose weights are given in bytes, is wrapped.
func (s *Session) wrapPeak(weights int64) int64 {
	if s.Recipe.Reducer == NoReducer {
		return 0
	}
	c := counting{live: weights}
	s.broadcast(&c)
	return c.most
}

// loadBuckets wraps the model in DistributedDataParallel.
func (s *Session) loadBuckets(heap Heap) {
	s.buckets = s.buckets[:0]
	if s.Recipe.Reducer == NoReducer {
		return
	}
	s.broadcast(heap)
	sizes := s.gradientSizes()
	first, others := int64(firstBucketBytes), int64(bucketBytes)
	if s.Recipe.Reducer == ReducerRebuilt {
		first = 1 << 62
	}
	var all []int64
	buckets(sizes, first, others, func(bytes int64, _ int) { all = append(all, bytes) })
	for i := len(all) - 1; i >= 0; i-- { // the last parameters' gradients come first
		s.buckets = append(s.buckets, heap.Alloc(all[i]))
	}
}

// rebuildBuckets lays the buckets out anew before the second step, in the order in which the gradients came.
func (s *Session) rebuildBuckets(heap Heap) {
	if s.Recipe.Reducer != ReducerRebuilt {
		return
	}
	for _, h := range s.buckets {
		heap.Free(h)
	}
	s.buckets = s.buckets[:0]
	s.eachBucket(func(bytes int64) { s.buckets = append(s.buckets, heap.Alloc(bytes)) })
}

// eachBucket calls f with the buckets that stay.
func (s *Session) eachBucket(f func(bytes int64)) {
	sizes := s.gradientSizes()
	if s.Recipe.Reducer == ReducerRebuilt {
		// Gradients come about in the opposite order of the parameters.
		for i, k := 0, len(sizes)-1; i < k; i, k = i+1, k-1 {
			sizes[i], sizes[k] = sizes[k], sizes[i]
		}
	}
	buckets(sizes, firstBucketBytes, bucketBytes, func(bytes int64, _ int) { f(bytes) })
}
