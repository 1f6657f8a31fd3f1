package model

import "github.com/vramplan/vramplan/estimator/step"

// decoder is what the decoders share: where their parameters stand in the list of
// Architecture.Parameters.
type decoder struct {
	a        *Architecture
	layers   int64
	perLayer int32
	next     int32 // cursor while the weights of one layer are handed out
}

func newDecoder(a *Architecture, layers int64) decoder {
	var room [32]step.Parameter
	one := layout{a: a, list: room[:0]}
	one.oneLayer()
	return decoder{a: a, layers: layers, perLayer: int32(len(one.list))}
}

func (d *decoder) embedding() step.Weight {
	return step.Weight{Index: 0, Rows: d.a.Vocabulary, Cols: d.a.Hidden}
}

func (d *decoder) positions() step.Weight {
	return step.Weight{Index: 1, Rows: d.a.MaxPositions, Cols: d.a.Hidden}
}

// before is how many parameters stand before the layers.
func (d *decoder) before() int32 {
	if d.a.Block == BlockLlama {
		return 1
	}
	return 2
}

// seek puts the cursor at the first parameter of layer i.
func (d *decoder) seek(i int64) { d.next = d.before() + int32(i)*d.perLayer }

// seekEnd puts it behind the last layer.
func (d *decoder) seekEnd() { d.seek(d.layers) }

// linear takes the next weight, of a module with in inputs and out outputs, and its bias where it has one.
func (d *decoder) linear(in, out int64, bias bool) (w, b step.Weight) {
	w = step.Weight{Index: d.next, Rows: out, Cols: in}
	d.next++
	return w, d.bias(out, bias)
}

func (d *decoder) bias(out int64, has bool) step.Weight {
	if !has {
		return step.NoWeight
	}
	d.next++
	return step.Weight{Index: d.next - 1, Rows: out, Cols: 1}
}

// conv1D is linear for a matrix that is stored as (in, out).
func (d *decoder) conv1D(in, out int64) (w, b step.Weight) {
	w = step.Weight{Index: d.next, Rows: in, Cols: out}
	d.next++
	return w, d.bias(out, true)
}

// norm takes the next gain and its bias where the architecture's norms have one.
func (d *decoder) norm(width int64) (w, b step.Weight) {
	w = step.Weight{Index: d.next, Rows: width, Cols: 1}
	d.next++
	return w, d.bias(width, d.a.NormBias)
}

func (d *decoder) skip(n int32) { d.next += n }

// head is the matrix onto the vocabulary: the embedding itself where they are tied, else the last parameter.
func (d *decoder) head() step.Weight {
	w := d.embedding()
	if !d.a.Tied {
		d.seekEnd()
		d.norm(d.a.Hidden)
		w.Index = d.next
		if d.a.Block == BlockLlama {
			w.Index++ // the buffer of rotary frequencies
		}
	}
	return w
}

// run takes over x and runs all layers on it; every layer gets besides, too.
func (d *decoder) run(t *step.Tape, x step.T, layer func(t *step.Tape, i int64, x step.T) step.T, besides step.Besides) step.T {
	unit := d.a.UnitLayers()
	for i := range d.layers {
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T { return layer(t, i, x) }, besides)
	}
	t.EndLayers()
	return x
}
