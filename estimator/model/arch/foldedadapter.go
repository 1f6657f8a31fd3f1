package arch

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// FoldedAdapter is what peft's lora.ParamWrapper puts around the module that has the parameter w, of count matrices:
// the module computes with the sum of w and of the product of two matrices. Source: peft/tuners/lora/layer.py
// (ParamWrapper), 0.21.
type FoldedAdapter struct {
	w, down, up step.Weight
	count       int64
	scaled      bool // the product is multiplied by a number besides
}

// FoldedAdapter declares the adapter of the parameter w, a matrix from in to out elements for each of count experts.
func (b *Builder) FoldedAdapter(name string, w step.Weight, in, out, rank, count int64) *FoldedAdapter {
	l := b.A.LoRA
	b.adapted, b.folded = b.adapted+1, true
	m := b.adaptRank(name, in, out, rank*count, l.adding())
	return &FoldedAdapter{w: w, down: m.down, up: m.up, count: count, scaled: !l.Unscaled}
}

// foldsAdapters says whether adapters are on a parameter that is no linear layer.
func (a *Architecture) foldsAdapters(Use) bool { return a.LoRA != nil && a.LoRA.Folded() }

// foldsFactors adds the product of an adapter's two matrices to the weights of experts in the product itself.
var foldsFactors = Of((*Architecture).foldsAdapters, release.Declare("folds-factors", release.Change{
	Library: "peft", After: "0.20.0", From: "0.21",
	What: "peft 0.21 adds an adapter to the weights of experts in one product; before, what is added was made in full " +
		"first, in the adapters' type",
	Source: "tuners/lora/layer.py (_LoraFactorsProxy, ParamWrapper.get_delta_weight), 0.20.0 and 0.21.2",
	Shown:  "traces of mixtures with adapters on experts",
}))

// folds says that one product adds the adapter to the weights of all experts. Before peft 0.21 what is added was made
// in full first, and still is for a single matrix.
func (f *FoldedAdapter) folds(t *step.Tape) bool {
	return f.count > 1 && t.Recipe.Software.Has(foldsFactors)
}

// Opened is a parameter with an adapter while the module that has it runs.
type Opened struct {
	f        *FoldedAdapter
	lhs, rhs step.T
	delta    step.T
	weight   step.T // once it is used
	used     bool
}

// Open begins the module. A parameter without an adapter, or with one that is switched off, is itself.
func (f *FoldedAdapter) Open(t *step.Tape) *Opened {
	if f == nil || t.AdaptersOff() {
		return nil
	}
	o := &Opened{f: f}
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

// Parameter is w as the module reads it, w itself where it has no adapter.
func (o *Opened) Parameter(t *step.Tape, w step.Weight) step.T {
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

// Close ends the module.
func (o *Opened) Close(t *step.Tape) {
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

// Router is the matrix by which a mixture of transformers 5 chooses experts, a parameter of a module of its own.
type Router struct {
	W       step.Weight
	Adapter *FoldedAdapter
}

// Router declares it. What else its module has is declared by beside, before the adapter.
func (b *Builder) Router(name string, count int64, beside func()) Router {
	b.Module(name)
	r := Router{W: b.Parameter(name, count, b.A.Hidden)}
	if beside != nil {
		beside()
	}
	r.Adapter = b.routerAdapter(name, r.W)
	return r
}

// routerAdapter declares the adapter of the router name; nil where it gets none.
func (b *Builder) routerAdapter(name string, w step.Weight) *FoldedAdapter {
	if l := b.A.LoRA; l == nil || !l.Fused.router || leaf(name) != l.names.router {
		return nil
	}
	return b.FoldedAdapter(name, w, w.Cols, w.Rows, b.A.LoRA.Rank, 1)
}

// Linear is F.linear(x, weight).
func (r *Router) Linear(t *step.Tape, o *Opened, x step.T, l step.Label) step.T {
	if o == nil {
		return t.LinearMatrix(x, r.W, step.NoWeight, l)
	}
	return t.Times(x, o.Parameter(t, r.W), r.W.Cols, true, l)
}

// FloatLinear is F.linear(x, weight.float()) of a float32 x.
func (r *Router) FloatLinear(t *step.Tape, o *Opened, x step.T, l step.Label) step.T {
	if o == nil {
		return t.FloatMatrixLinear(x, r.W, l)
	}
	return t.FloatTimes(x, o.Parameter(t, r.W), r.W.Cols, l)
}
