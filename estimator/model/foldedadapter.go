package model

import "github.com/vramplan/vramplan/estimator/step"

// foldedAdapter is what peft's lora.ParamWrapper puts around the module that has the parameter w, of count matrices:
// the module computes with the sum of w and of the product of two matrices. Source: peft/tuners/lora/layer.py
// (ParamWrapper), 0.21.
type foldedAdapter struct {
	w, down, up step.Weight
	count       int64
	scaled      bool // the product is multiplied by a number besides
}

// foldedAdapter declares the adapter of the parameter w, a matrix from in to out elements for each of count experts.
func (b *builder) foldedAdapter(name string, w step.Weight, in, out, rank, count int64) *foldedAdapter {
	l := b.a.LoRA
	b.adapted, b.folded = b.adapted+1, true
	m := b.adaptRank(name, in, out, rank*count, l.adding())
	return &foldedAdapter{w: w, down: m.down, up: m.up, count: count, scaled: !l.Unscaled}
}

// folds says that one product adds the adapter to the weights of all experts. Before peft 0.21 what is added was made
// in full first, and still is for a single matrix.
func (f *foldedAdapter) folds(t *step.Tape) bool {
	return f.count > 1 && t.Recipe.Software.FoldsFactors
}

// opened is a parameter with an adapter while the module that has it runs.
type opened struct {
	f        *foldedAdapter
	lhs, rhs step.T
	delta    step.T
	weight   step.T // once it is used
	used     bool
}

// open begins the module. A parameter without an adapter, or with one that is switched off, is itself.
func (f *foldedAdapter) open(t *step.Tape) *opened {
	if f == nil || t.AdaptersOff() {
		return nil
	}
	o := &opened{f: f}
	if f.folds(t) {
		o.lhs, o.rhs = t.Factors(f.down, f.up, t.Parameter(f.w).Dtype())
		t.TryFolding(f.w, o.lhs)
		return o
	}
	if f.count > 1 {
		o.delta = t.DeltaOfExperts(f.w, f.down, f.up)
	} else {
		o.delta = t.Delta(f.w, f.down, f.up)
	}
	t.TryDelta(f.w)
	return o
}

// parameter is w as the module reads it, w itself where it has no adapter.
func (o *opened) parameter(t *step.Tape, w step.Weight) step.T {
	switch {
	case o == nil:
		return t.Parameter(w)
	case o.used:
	case o.f.folds(t):
		o.weight, o.used = t.FoldedExperts(w, o.lhs, o.rhs, o.f.scaled), true
	default:
		o.weight, o.used = t.WithDelta(w, o.delta), true
	}
	return o.weight
}

// close ends the module.
func (o *opened) close(t *step.Tape) {
	switch {
	case o == nil:
		return
	case o.f.folds(t):
		t.Drop(o.lhs, o.rhs)
	default:
		t.Drop(o.delta)
	}
	if o.used {
		t.Drop(o.weight)
	}
}

// router is the matrix by which a mixture of transformers 5 chooses experts, a parameter of a module of its own.
type router struct {
	w       step.Weight
	adapter *foldedAdapter
}

// router declares it. What else its module has is declared by beside, before the adapter.
func (b *builder) router(name string, count int64, beside func()) router {
	b.module(name)
	r := router{w: b.parameter(name, count, b.a.Hidden)}
	if beside != nil {
		beside()
	}
	r.adapter = b.routerAdapter(name, r.w)
	return r
}

// routerAdapter declares the adapter of the router name; nil where it gets none.
func (b *builder) routerAdapter(name string, w step.Weight) *foldedAdapter {
	if l := b.a.LoRA; l == nil || !l.fused.router || leaf(name) != l.names.router {
		return nil
	}
	return b.foldedAdapter(name, w, w.Cols, w.Rows, b.a.LoRA.Rank, 1)
}

// linear is F.linear(x, weight).
func (r *router) linear(t *step.Tape, o *opened, x step.T, l step.Label) step.T {
	if o == nil {
		return t.LinearMatrix(x, r.w, step.NoWeight, l)
	}
	return t.Times(x, o.parameter(t, r.w), r.w.Cols, true, l)
}

// floatLinear is F.linear(x, weight.float()) of a float32 x.
func (r *router) floatLinear(t *step.Tape, o *opened, x step.T, l step.Label) step.T {
	if o == nil {
		return t.FloatMatrixLinear(x, r.w, l)
	}
	return t.FloatTimes(x, o.parameter(t, r.w), r.w.Cols, l)
}
