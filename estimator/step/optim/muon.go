package optim

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// divide sorts the parameters into the matrices of the layers and the others.
func (u *Updater) divide(ps []*step.Parameter) (inner, outer []*step.Parameter) {
	u.inner, u.outer = u.inner[:0], u.outer[:0]
	for _, p := range ps {
		if p.InLayer && p.Matrix() && p.Matrices == 0 {
			u.inner = append(u.inner, p)
		} else {
			u.outer = append(u.outer, p)
		}
	}
	return u.inner, u.outer
}

// newtonSchulz is how often Muon iterates.
const newtonSchulz = 5

// muon is torch.optim.Muon on the matrices of the layers and torch.optim.AdamW on the rest, for which Muon is not made.
// Source: torch/optim/_muon.py (_single_tensor_muon, _zeropower_via_newtonschulz), torch 2.9.
func (u *Updater) muon(ps []*step.Parameter) {
	inner, outer := u.divide(ps)
	for _, p := range inner {
		u.keep(u.Moment(p))
	}
	update := alloc.None
	for _, p := range inner {
		u.reassign(&update, u.Heap.Alloc(p.Bytes()))
		u.orthogonalise(p, &update)
	}
	u.del(&update)
	rest := Optimizer{Moments: 2, Lists: 1, CopiesParameters: true} // AdamW's
	u.Run(&rest, outer)
}

// copiesUpdates is Muon that copies an update in bfloat16, too, before it iterates on it.
var copiesUpdates = release.Declare("copies-updates", release.Change{
	Library: "torch", After: "2.14", From: "2.15",
	What:   "Muon of torch 2.15 copies an update in bfloat16, too, before it makes it orthogonal",
	Source: "torch/optim/_muon.py (_zeropower_via_newtonschulz), 2.9.1, 2.10.0, 2.12.0, 2.14.0 and 2.15.0",
	Shown:  "a trace of Mixtral in bfloat16 with Muon",
})

// orthogonalise iterates in bfloat16, into which an update in another type is copied, in later releases any, and puts
// what comes out into update. Source: torch/optim/_muon.py (_zeropower_via_newtonschulz), 2.9.1 and 2.15.0.
func (u *Updater) orthogonalise(p *step.Parameter, update *int32) {
	small := min(p.Rows, p.Cols)
	half := *update
	copied := p.Dtype != step.BF16 || u.Recipe.Software.Has(copiesUpdates)
	if copied {
		half = u.Heap.Alloc(2 * p.Numel)
	}
	norm := u.reduce(2, step.OverAll, p.Numel, 1)
	clamped := u.Heap.Alloc(2)
	u.Heap.Free(norm)
	u.Heap.Free(clamped)
	gram, sum := alloc.None, alloc.None
	for i := range newtonSchulz {
		made := u.Heap.Alloc(2 * small * small)
		u.product(false)
		u.reassign(&gram, made)
		made = u.Heap.Alloc(2 * small * small)
		u.product(small > 1)
		u.reassign(&sum, made)
		next := u.Heap.Alloc(2 * p.Numel)
		u.product(small > 1 && (i > 0 || p.Rows <= p.Cols)) // a tall matrix is turned to begin with
		if i > 0 || copied {
			u.Heap.Free(half)
		}
		half = next
	}
	u.del(&gram)
	u.del(&sum)
	u.reassign(update, half)
}

// galore is GaLore's AdamW: the moments of a layer's matrix have its longer side and the rank of a projection, which a
// singular value decomposition of the float32 gradient yields every so many steps. Every step is taken for such a one.
// The decomposition's copies follow its signature, not a trace: the stand-in for the driver has no cuSOLVER.
// Source: galore_torch/adamw.py (GaLoreAdamW.step) and galore_projector.py (proj_type std), 1.0.
func (u *Updater) galore(ps []*step.Parameter) {
	inner, outer := u.divide(ps)
	denominator, update := alloc.None, alloc.None
	for _, p := range outer {
		u.keep(p.Bytes())
		u.keep(p.Bytes())
		u.reassign(&denominator, u.Heap.Alloc(p.Bytes()))
		u.reassign(&update, u.Heap.Alloc(p.Bytes()))
	}
	projected := alloc.None
	for _, p := range inner {
		size := p.Dtype.Size()
		short, long := min(p.Rows, p.Cols), max(p.Rows, p.Cols)
		rank := min(u.Rank, short)
		u.decompose(p, short)
		u.keep(rank * short * size)
		low := rank * long * size
		u.reassign(&projected, u.Heap.Alloc(low))
		u.keep(low)
		u.keep(low)
		u.reassign(&denominator, u.Heap.Alloc(low))
		u.reassign(&update, u.Heap.Alloc(low))
		whole := u.Heap.Alloc(p.Bytes())
		u.reassign(&update, u.Heap.Alloc(p.Bytes()))
		u.Heap.Free(whole)
	}
	u.del(&projected)
	u.del(&denominator)
	u.del(&update)
}

// decompose is torch.linalg.svd(gradient.float(), full_matrices=False): a copy of the matrix to work on, and both
// sides.
func (u *Updater) decompose(p *step.Parameter, short int64) {
	wide := alloc.None
	if p.Dtype != step.F32 {
		wide = u.Heap.Alloc(4 * p.Numel)
	}
	left, values, right := u.Heap.Alloc(4*p.Rows*short), u.Heap.Alloc(4*short), u.Heap.Alloc(4*short*p.Cols)
	u.flash(4 * p.Numel)
	for _, h := range [...]int32{left, values, right} {
		u.Heap.Free(h)
	}
	u.del(&wide)
}
