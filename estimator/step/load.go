package step

import (
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// Loading is when and as what a parameter comes to the GPU.
type Loading uint8

// The ways. A model is moved module by module. Under bitsandbytes it is quantised on the way,
// prepare_model_for_kbit_training makes float32 of what has stayed in half precision, and the adapters
// follow, in half precision themselves where the base is in NF4, to be cast when all are there.
// Sources: peft/utils/other.py (prepare_model_for_kbit_training), tuners/tuners_utils.py (cast_adapter_dtype), 0.21.
const (
	LoadedAsStored Loading = iota
	LoadedInHalf           // and cast to float32 afterwards
	Added
	AddedInHalf
	Copied   // of a parameter that stays, when the adapters are there
	Returned // cast to float32 as LoadedInHalf, and back when the adapters are there
)

// load brings the parameters to heap.
func (p Parameters) load(heap alloc.Heap) {
	var halves []int32
	first := true
	p.Each(func(q *Parameter) {
		switch {
		case q.Quantised != NotQuantised:
			q.pack(heap, first)
			first = false
		case q.Loading == LoadedAsStored:
			heap.Alloc(q.Bytes())
		case q.Loading == LoadedInHalf || q.Loading == Returned:
			halves = append(halves, heap.Alloc(2*q.Numel))
		}
	})
	wide := p.widen(heap, halves, LoadedInHalf, Returned)
	if caching, ok := heap.(interface{ ReleaseCached() }); ok && halves != nil {
		caching.ReleaseCached()
	}
	halves = halves[:0]
	p.Each(func(q *Parameter) {
		switch q.Loading {
		case Added:
			heap.Alloc(q.Bytes())
		case AddedInHalf:
			halves = append(halves, heap.Alloc(2*q.Numel))
		}
	})
	p.Each(func(q *Parameter) {
		if q.Loading == Copied {
			heap.Alloc(q.Bytes())
		}
	})
	p.widen(heap, halves, AddedInHalf)
	p.Each(func(q *Parameter) {
		if q.Loading == Returned && q.Quantised == NotQuantised {
			heap.Alloc(q.Bytes())
			heap.Free(wide[0])
			wide = wide[1:]
		}
	})
}

// widen casts the parameters that were loaded in one of these ways, in half precision, whose handles are halves. It
// returns the handles of those that will be Returned.
func (p Parameters) widen(heap alloc.Heap, halves []int32, ways ...Loading) (wide []int32) {
	i := 0
	p.Each(func(q *Parameter) {
		if q.Quantised != NotQuantised || !slices.Contains(ways, q.Loading) {
			return
		}
		switch {
		case q.Loading == Returned:
			wide = append(wide, heap.Alloc(4*q.Numel))
			heap.Free(halves[i])
		case q.Dtype == F32:
			heap.Alloc(q.Bytes())
			heap.Free(halves[i])
		}
		i++
	})
	return wide
}

// loadPeak is the most that loading holds.
func (p Parameters) loadPeak() int64 {
	plain, total := true, int64(0)
	p.Distinct(func(q *Parameter, times int64) {
		plain = plain && q.Quantised == NotQuantised && q.Loading == LoadedAsStored
		total += times * alloc.Rounded(q.Bytes())
	})
	if plain { // nothing is loaded otherwise than it is stored
		return total
	}
	var c alloc.Tally
	p.load(&c)
	return c.Most
}
