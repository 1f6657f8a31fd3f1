package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// DDP is DistributedDataParallel: every GPU holds the whole job, and gradients are summed over the GPUs in buckets,
// which are copies of them (gradient_as_bucket_view is off by default). By default all gradients share one bucket in
// the first step, and from the second on each has about 25 MiB, in the order in which gradients come.
// Sources: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp, 2.9.
type DDP struct {
	step.OneGPU
	// FindUnused is find_unused_parameters: buckets are laid out once, in the order of the parameters.
	FindUnused bool
	// BucketBytes is bucket_cap_mb in bytes, 0 for PyTorch's default; where it is given it holds for the first bucket,
	// too.
	BucketBytes int64
}

// Hooks copy what the model returns where parameters are looked for that it did not use, so that a function of DDP's
// own stands between it and the loss.
// Source: torch/nn/parallel/distributed.py (_post_forward, _DDPSink), 2.9.
func (d DDP) Hooks(t *step.Tape) step.Hooks {
	h := d.OneGPU.Hooks(t)
	if !d.FindUnused {
		return h
	}
	return &ddpSink{around{h, t}}
}

type ddpSink struct{ around }

// Sink is on the copies.
func (h *ddpSink) Sink(loss step.T, outputs []step.T) step.T {
	return h.tape.CloneOutputs(loss, outputs)
}

// limits are how large the first bucket grows, and the others.
// Source: torch/nn/parallel/distributed.py (bucket_bytes_cap_default), 2.9.
func (d DDP) limits() (first, others int64) {
	if d.BucketBytes > 0 {
		return d.BucketBytes, d.BucketBytes
	}
	return firstBucketBytes, bucketBytes
}

const (
	firstBucketBytes = 1 << 20   // dist._DEFAULT_FIRST_BUCKET_BYTES
	bucketBytes      = 25 << 20  // bucket_cap_mb
	broadcastBytes   = 250 << 20 // broadcast_bucket_size; FSDP1: PARAM_BROADCAST_BUCKET_SIZE
	broadcastsAtOnce = 2         // c10d/comm.cpp, broadcast_coalesced
)

// flat stands for a piece of one tensor, which is sent as it is.
const flat = int32(-1)

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

// gradientSizes are the bytes of the gradients that are reduced, each once, in the order of the parameters. All are of
// one type in the models that are replayed.
func gradientSizes(r *step.Rank) []int64 {
	var sizes []int64
	for _, p := range r.Reduced() {
		sizes = append(sizes, p.Bytes())
	}
	return sizes
}

// broadcast sends the first GPU's parameters and buffers to the others, when the model is wrapped.
func (DDP) broadcast(r *step.Rank, heap alloc.Heap) {
	var c coalesced
	for _, buffers := range []bool{false, true} {
		r.Parts.Each(func(p *step.Parameter) {
			if p.Buffer == buffers {
				c.add(p.Bytes(), p.Dtype)
			}
		})
	}
	c.send(heap)
}

// coalesced are tensors that are sent together, flattened in pieces of one type, which go in the order of their first
// tensors; one of a single tensor goes as it is.
// Sources: c10d/comm.cpp (broadcast_coalesced), c10d/reducer.cpp (compute_bucket_assignment_by_size), 2.9.
type coalesced struct {
	pieces  []piece
	open    map[step.DType]piece
	tensors int
}

type piece struct {
	bytes          int64
	first, tensors int
}

func (c *coalesced) add(bytes int64, d step.DType) {
	if c.open == nil {
		c.open = map[step.DType]piece{}
	}
	of, begun := c.open[d]
	if !begun {
		of.first = c.tensors
	}
	of.bytes += bytes
	of.tensors++
	c.tensors++
	if c.open[d] = of; of.bytes >= broadcastBytes {
		c.pieces = append(c.pieces, of)
		delete(c.open, d)
	}
}

func (c *coalesced) send(heap alloc.Heap) {
	all := c.pieces
	for _, of := range c.open {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b piece) int { return a.first - b.first })
	var inFlight []int32
	for i, of := range all {
		if i >= broadcastsAtOnce {
			if h := inFlight[i-broadcastsAtOnce]; h != flat {
				heap.Free(h)
			}
			inFlight[i-broadcastsAtOnce] = flat
		}
		h := flat
		if of.tensors > 1 {
			h = heap.Alloc(of.bytes)
		}
		inFlight = append(inFlight, h)
	}
	for _, h := range inFlight {
		if h != flat {
			heap.Free(h)
		}
	}
}

// LoadPeak is while the model is loaded, or while it is wrapped.
func (d DDP) LoadPeak(r *step.Rank, weights int64) int64 {
	c := alloc.Tally{Live: weights}
	d.broadcast(r, &c)
	return max(d.OneGPU.LoadPeak(r, weights), c.Most)
}

// Load wraps the model when it is there, and lays out the first buckets.
func (d DDP) Load(r *step.Rank, heap alloc.Heap) {
	d.OneGPU.Load(r, heap)
	d.broadcast(r, heap)
	first, others := d.limits()
	if !d.FindUnused {
		first = 1 << 62
	}
	var all []int64
	buckets(gradientSizes(r), first, others, func(bytes int64, _ int) { all = append(all, bytes) })
	for i := len(all) - 1; i >= 0; i-- { // the last parameters' gradients come first
		r.Held = append(r.Held, heap.Alloc(all[i]))
	}
}

// NextStep lays the buckets out anew before the second step, in the order in which the gradients came.
// Source: reducer.cpp (Reducer::rebuild_buckets, should_rebuild_buckets), 2.9.
func (d DDP) NextStep(r *step.Rank, heap alloc.Heap) {
	if d.FindUnused {
		return
	}
	var sizes []int64
	d.Stays(r, func(bytes int64, _ step.Component) { sizes = append(sizes, bytes) })
	if len(r.Held) == len(sizes) && len(sizes) > 1 { // one bucket for all has no more than one after it
		return
	}
	for _, h := range r.Held {
		heap.Free(h)
	}
	r.Held = r.Held[:0]
	for _, bytes := range sizes {
		r.Held = append(r.Held, heap.Alloc(bytes))
	}
}

// Stays are the buckets.
func (d DDP) Stays(r *step.Rank, f func(bytes int64, c step.Component)) {
	sizes := gradientSizes(r)
	if !d.FindUnused {
		sizes = readySizes(r, sizes)
	}
	first, others := d.limits()
	buckets(sizes, first, others, func(bytes int64, _ int) { f(bytes, step.Communication) })
}

// readySizes are sizes in the order in which the gradients come: that of a recording, in which what comes from one
// layer in the middle to the next stands for those that were left out, too, as do the gradients of an expert in the
// middle. It is the opposite of the parameters' where a recording does not say all of it.
func readySizes(r *step.Rank, sizes []int64) []int64 {
	p, left := &r.Parts, r.Parts.Layers-r.Parts.Recorded
	middle := p.LayerStart + p.PerLayer*int(p.Recorded/2)
	from := slices.IndexFunc(r.Ready, func(i int32) bool { return int(i) >= middle && int(i) < middle+p.PerLayer })
	to := slices.IndexFunc(r.Ready, func(i int32) bool { return int(i) >= middle-p.PerLayer && int(i) < middle })
	ready := make([]int64, 0, len(sizes))
	add := func(places []int32) {
		for i := 0; i < len(places); {
			end, copies := i+1, int64(1)
			if p.List[places[i]].Expert == step.MiddleExpert { // which stands for those that were left out, too
				copies = max(p.ExpertCopies, 1)
				for end < len(places) && p.List[places[end]].Expert == step.MiddleExpert {
					end++
				}
			}
			for range copies {
				for _, k := range places[i:end] {
					ready = append(ready, p.List[k].Bytes())
				}
			}
			i = end
		}
	}
	if left > 0 && 0 <= from && from < to {
		add(r.Ready[:to])
		for range left {
			add(r.Ready[from:to])
		}
		add(r.Ready[to:])
	} else {
		add(r.Ready)
	}
	if len(ready) == len(sizes) {
		return ready
	}
	slices.Reverse(sizes)
	return sizes
}
