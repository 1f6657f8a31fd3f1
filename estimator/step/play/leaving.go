package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Leaving are models that come to the GPU behind the trained one, read something once, and go before training: what
// the caching allocator has cached then goes to the driver.
type Leaving struct {
	// Parameters are those of the models.
	Parameters step.Parameters
	// Program is the reading, of which nothing stays.
	Program *step.Program
}

// weights are the models' bytes, in blocks.
func (v *Leaving) weights() (bytes int64) {
	v.Parameters.Distinct(func(p *step.Parameter, times int64) { bytes += times * alloc.Rounded(p.Bytes()) })
	return bytes
}

// play loads the models on heap, reads, and lets go of all.
func (v *Leaving) play(heap alloc.Heap) {
	var weights []int32
	v.Parameters.Each(func(p *step.Parameter) { weights = append(weights, heap.Alloc(p.Bytes())) })
	alive := handles(nil, len(v.Program.Slots))
	for _, e := range v.Program.Events {
		switch e.Op {
		case step.Alloc, step.AllocOnce:
			alive[e.Slot] = heap.Alloc(v.Program.Slots[e.Slot].Bytes)
		case step.Free:
			heap.Free(alive[e.Slot])
			alive[e.Slot] = alloc.None
		}
	}
	for _, h := range append(weights, alive...) {
		if h != alloc.None {
			heap.Free(h)
		}
	}
	if caching, ok := heap.(interface{ ReleaseCached() }); ok {
		caching.ReleaseCached()
	}
}

// leaving is the most that the models that leave hold while they are there, of which so much are their weights.
func (s *Session) leaving() (most, weights int64) {
	if s.Leaving == nil {
		return 0, 0
	}
	var t alloc.Tally
	s.Leaving.play(&t)
	return t.Most, s.Leaving.weights()
}
