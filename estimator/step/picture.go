package step

// What diffusion's networks do with pictures, which lie channel by channel.

// AddPictures is a + b of the same size, either of which may be read as a part of something wider, too: the gradient of
// that part lies in a wider tensor, but what it is added to has as many elements as the part.
func (t *Tape) AddPictures(a, b T, l Label) T {
	if a.dtype != b.dtype {
		return t.Add(a, b, l)
	}
	y := t.fresh(a.numel, a.dtype, l)
	o := t.op(a, b)
	for k := range uint8(2) {
		if o.needs(int(k)) {
			o.act(act{verb: actPass, route: route{0, k}, bytes: y.bytes()})
		}
	}
	return o.out(y, 0)
}

// AddPerChannel is x + c[:, :, None, None], where c has one value for each channel of each picture.
func (t *Tape) AddPerChannel(x, c T, l Label) T {
	y := t.fresh(x.numel, promote(x.dtype, c.dtype), l)
	o := t.op(x, c)
	if o.i == None {
		return y
	}
	const gradX, sum, narrow = 0, 1, 2
	if o.needs(0) {
		if x.dtype == y.dtype {
			o.pass(0, 0)
		} else {
			o.alloc(gradX, x.bytes(), LabelInputGradient).send(gradX, 0)
		}
	}
	if o.needs(1) {
		o.sumCols(sum, y.dtype, c.numel, x.numel/c.numel)
		if c.dtype == y.dtype {
			o.send(sum, 1)
		} else {
			o.alloc(narrow, c.bytes(), LabelInputGradient).free(sum).send(narrow, 1)
		}
	}
	return o.out(y, 0)
}

// sumCols allocates register r for the sum of each row of a (rows, cols) matrix of type d.
func (o op) sumCols(r int, d DType, rows, cols int64) {
	o.alloc(r, rows*d.Size(), LabelReduction)
	if scratch, semaphores := o.t.Recipe.Reduction(OverCols, rows, cols); scratch > 0 {
		o.alloc(maxRegs-1, scratch, LabelReduction).alloc(maxRegs-2, semaphores,
			LabelReduction).free(maxRegs - 2).free(maxRegs - 1)
	}
}

// PlacesLinear is nn.Linear over the places of pictures that lie channel by channel, which torch computes as a product
// and a sum: several pictures are laid out first where the weight is trained, and otherwise multiplied one by one.
// Sources: aten/src/ATen/native/Linear.cpp (linear), LinearAlgebra.cpp (should_fold), torch 2.9.
func (t *Tape) PlacesLinear(x T, w, b Weight, l Label) T {
	bias := t.weight(b)
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	dense := t.Hold(input)
	if t.Shape.Batch > 1 && weight.edge != noEdge {
		t.Drop(dense)
		dense = t.Contiguous(input)
	}
	y := t.AddInPlace(t.product(dense, weight, NoTensor, false, true, w.Cols, w.Rows, l), bias)
	t.Drop(input, bias)
	return y
}

// UpsampleNearest is F.interpolate(x, mode="nearest") to numel elements; float32 under autocast.
// Source: aten/src/ATen/autocast_mode.h (AT_FORALL_FP32), torch 2.9.
func (t *Tape) UpsampleNearest(x T, numel int64) T {
	input := t.autocastTo(x, F32, LabelCast)
	y := t.fresh(numel, input.dtype, LabelResized)
	y = t.op(input).alloc(0, input.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(input)
	return y
}

// Padded is F.pad(x) to numel elements.
func (t *Tape) Padded(x T, numel int64) T {
	y := t.fresh(numel, x.dtype, LabelResized)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
