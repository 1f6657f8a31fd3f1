package recording

import (
	"iter"
	"slices"
	"strings"
)

// all are the programs of training and of evaluation.
func (r *Recording) all() iter.Seq[*Program] {
	return func(yield func(*Program) bool) {
		for _, programs := range [...]map[string]*Program{r.Programs, r.Evaluations} {
			for _, p := range programs {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// OwnTypes says whether a parameter has a type of its own.
func (r *Recording) OwnTypes() bool {
	own := func(p Parameter) bool { return p.Own && !p.Buffer }
	return slices.ContainsFunc(r.Parameters, own) || slices.ContainsFunc(r.Kinds, func(k LayerKind) bool {
		return slices.ContainsFunc(k.Parameters, own)
	})
}

// VariesInLength says whether anything in the recording depends on the length of the sequences.
func (r *Recording) VariesInLength() bool { return r.varies(func(x term) bool { return x.time > 0 }) }

// VariesInBatch says whether anything in it depends on the size of the batch: one of a single sample does not.
func (r *Recording) VariesInBatch() bool { return r.varies(func(x term) bool { return x.batch > 0 }) }

// varies says whether a size has a term that is asked for.
func (r *Recording) varies(asked func(term) bool) bool {
	for _, x := range r.Batch {
		if slices.ContainsFunc(x.Size, asked) {
			return true
		}
	}
	for p := range r.all() {
		for _, list := range p.Stretches() {
			for i := range list {
				if slices.ContainsFunc(list[i].Size, asked) {
					return true
				}
			}
		}
	}
	return false
}

// About bounds the bytes that one training step allocates in all, in floating point, where nothing wraps around; rank
// is that of adapters on all linear layers, 0 without them.
func (r *Recording) About(batch, length, rank float64) float64 {
	const widest = 8
	most := 0.0
	for p := range r.all() {
		total := 0.0
		count := func(list []Instruction, own []Parameter, times float64) {
			for i := range list {
				total += times * (list[i].about(batch, length) + r.adapter(&list[i], own, batch, length, rank))
				for k := range list[i].Backward {
					total += times * list[i].Backward[k].about(batch, length)
				}
			}
		}
		count(p.Before, nil, 1)
		for k := range p.Layers {
			count(p.Layers[k].Instructions, r.Kinds[k].Parameters, float64(r.Layers))
		}
		count(p.After, nil, 1)
		most = max(most, total)
	}
	for _, x := range r.Batch {
		most += x.Size.About(batch, length)
	}
	return widest * most
}

// about bounds the elements that one instruction allocates.
func (in *Instruction) about(batch, length float64) float64 {
	n := in.Size.About(batch, length)
	switch in.Kind {
	case Reduce, Sum:
		return in.Rows.About(batch, length) * max(in.Cols.About(batch, length), 1)
	case Embedding:
		return 16*n*(2+in.Cols.About(batch, length)) + in.Rows.About(batch, length)*in.Cols.About(batch, length)
	case SortIndices: // two buffers, counters, and 1 KiB for some thousand of them
		return 4*n + 1<<15
	case Attend:
		a := in.Attention
		q, k := a.Queries.About(batch, length), a.Keys.About(batch, length)
		heads := a.Batch.About(batch, length) * float64(a.Heads)
		return 16 * heads * (q*k + (q+k)*float64(a.Width+a.ValueWidth+64))
	}
	return n
}

// adapter bounds the elements that one on a linear layer takes: its parameters with their states, a unit matrix and
// a weight of DoRA, and of every row of the input what is computed and kept; own are the parameters of its layer.
func (r *Recording) adapter(in *Instruction, own []Parameter, batch, length, rank float64) float64 {
	if in.Kind != Open || !in.Region.Role.Adaptable() || rank == 0 {
		return 0
	}
	list := r.Parameters
	if in.Region.Weight.Scope == Layer {
		list = own
	}
	shape := list[in.Region.Weight.N].Shape
	a, b := float64(shape[0]), float64(shape[1])
	return 16 * ((a+b)*(rank+a+b) + in.Region.Size.About(batch, length)*(1+(a+b+rank)/max(min(a, b), 1)))
}

// LargestConvolution is the bytes of the largest result of a convolution or a Fourier transform in a program, 0 where
// it has none.
func (r *Recording) LargestConvolution(precision string, batch, length int64) int64 {
	most := int64(0)
	p := r.Programs[precision]
	if p == nil {
		return 0
	}
	for _, list := range p.Stretches() {
		for i := range list {
			in := &list[i]
			if in.Kind == Allocate && (in.Name == "convolution" || strings.HasPrefix(in.Name, "_fft")) {
				bytes := int64(4)
				if in.Type == Half {
					bytes = 2
				}
				most = max(most, bytes*in.Size.Elements(batch, length))
			}
		}
	}
	return most
}

// Events is how many events of a micro-step one layer makes at most, and what lies outside of the layers.
func (r *Recording) Events() (layer, outside int64) {
	for p := range r.all() {
		for k := range p.Layers {
			layer = max(layer, events(p.Layers[k].Instructions))
		}
		outside = max(outside, events(p.Before)+events(p.After)+int64(2*len(r.Batch)))
	}
	return layer, outside
}

// events is how many a stretch makes at most: an allocation is freed again, sums of gradients are made anew, and what
// needs scratch allocates more than one tensor.
func events(list []Instruction) int64 {
	const most = 40 // of an embedding's gradient, the largest
	n := int64(0)
	for i := range list {
		n += 4
		if list[i].Kind == Attend {
			n += most
		}
		for k := range list[i].Backward {
			n += 4
			if list[i].Backward[k].Kind == Embedding {
				n += most
			}
		}
	}
	return n
}
