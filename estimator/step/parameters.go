package step

// Parameter is one parameter or buffer of a model.
type Parameter struct {
	Name  string
	Numel int64
	// Rows and Cols are the shape of a matrix; Cols is 1 for a vector.
	Rows, Cols int64
	// Matrices is of how many such matrices a kernel with more dimensions consists; 0 for all others.
	Matrices int64
	Dtype    DType
	// Buffer marks what is not a parameter.
	Buffer bool
	// Ahead is how many parameters earlier model.parameters() lists it than module.to moves it: a module's own come
	// before those of its children there, and after them here.
	Ahead int
	// Embedding marks the weight of an nn.Embedding, which a tied head shares.
	Embedding bool
	// Frozen marks a parameter without gradient: the base under LoRA's adapters.
	Frozen bool
	// Carried marks a frozen parameter that is a part of a flat tensor which is trained: the view that the layer reads
	// requires a gradient, too, and the optimizer has none of it.
	// Source: torch/distributed/fsdp/_flat_param.py (_use_unsharded_views), 2.9.
	Carried bool
	// Quantised is how a frozen weight is stored; Dtype is then what it is dequantised to.
	Quantised Quantisation
	// DealtOut says that the packed weights of a quantised parameter are dealt out to GPUs, of which this one holds
	// PackedPart bytes; scales are no parameters, and every GPU holds them all.
	DealtOut   bool
	PackedPart int64
	Loading    Loading
	// InLayer marks those of the layers that repeat, First the first of each of them.
	InLayer, First bool
	// Section is the part outside the layers that it belongs to.
	Section Section
	// Inner marks those of a unit inside a layer.
	Inner bool
	// Outer is the first dimension where that is not Rows.
	Outer int64
	// Unreached marks one that is trained and that no gradient reaches, so that the optimizer leaves it out.
	Unreached bool
	// Absent marks one of which this GPU holds nothing.
	Absent bool
	// Expert is the number of the expert that it belongs to, of those that are recorded, counted from 1; 0 for no
	// expert.
	Expert int32
}

// Trained says whether p gets a gradient.
func (p *Parameter) Trained() bool { return !p.Buffer && !p.Frozen && !p.Absent }

func (p *Parameter) Bytes() int64 { return p.Numel * p.Dtype.Size() }

// Matrix says whether p has two dimensions or more.
func (p *Parameter) Matrix() bool { return p.Cols > 1 || p.Matrices > 0 }

// FirstDim is the first dimension of p.
func (p *Parameter) FirstDim() int64 {
	if p.Outer > 0 {
		return p.Outer
	}
	if p.Rows > 0 {
		return p.Rows
	}
	return max(p.Numel, 1)
}

// Factors are how many sums over rows and over columns stand in for the elements of p, and of how many matrices.
func (p *Parameter) Factors() (rows, cols, matrices int64) {
	matrices = max(p.Matrices, 1)
	return p.Rows * matrices, p.Cols * matrices, matrices
}

// Parameters lists the parameters and buffers of a model in the order in which they are moved to the GPU. Those of
// one layer stand in List once for every layer that was recorded and count for all layers of the model.
type Parameters struct {
	List []Parameter
	// LayerStart is where the first layer's begin, PerLayer how many a layer has, Recorded for how many layers they
	// are in List and Layers how many the model has.
	LayerStart, PerLayer int
	Recorded, Layers     int64
	// ExpertCopies is for how many experts the middle one of those in List stands; 0 or 1 for itself.
	ExpertCopies int64
}

// Each calls f for every parameter of the model.
func (p Parameters) Each(f func(*Parameter)) {
	p.each(0, p.LayerStart, f)
	for range p.Layers {
		p.each(p.LayerStart, p.LayerStart+p.PerLayer, f)
	}
	p.each(p.LayerStart+p.PerLayer*int(p.Recorded), len(p.List), f)
}

// each calls f for the parameters that those in List from one place to another stand for.
func (p *Parameters) each(from, to int, f func(*Parameter)) {
	p.Places(from, to, func(i int) { f(&p.List[i]) })
}

// InOrder lists every parameter of the model in the order in which the optimizer has them, in the storage of list.
func (p Parameters) InOrder(list []*Parameter) []*Parameter {
	p.Each(func(q *Parameter) {
		list = append(list, q)
		last := len(list) - 1
		copy(list[last-q.Ahead+1:], list[last-q.Ahead:last])
		list[last-q.Ahead] = q
	})
	return list
}

// Places calls f with the places in List of the same, from one place to another.
func (p *Parameters) Places(from, to int, f func(int)) {
	for i := from; i < to; {
		end, copies := i+1, int64(1)
		if p.List[i].Expert == MiddleExpert {
			copies = max(p.ExpertCopies, 1)
			for end < to && p.List[end].Expert == MiddleExpert {
				end++
			}
		}
		for range copies {
			for k := i; k < end; k++ {
				f(k)
			}
		}
		i = end
	}
}

// Distinct calls f once for every parameter outside the layers and of one layer, with how often it occurs.
func (p Parameters) Distinct(f func(q *Parameter, times int64)) {
	end := p.LayerStart + p.PerLayer*int(p.Recorded)
	for i := range p.List {
		q := &p.List[i]
		switch {
		case i < p.LayerStart || i >= end:
			f(q, q.Times(p.ExpertCopies))
		case i < p.LayerStart+p.PerLayer:
			f(q, p.Layers*q.Times(p.ExpertCopies))
		}
	}
}
