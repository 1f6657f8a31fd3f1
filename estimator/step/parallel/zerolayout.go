package parallel

import "github.com/vramplan/vramplan/estimator/step"

// flatGroup is a group of parameters that are views of one tensor.
type flatGroup struct {
	params []int   // places in the order of the optimizer
	starts []int64 // where each begins
	size   int64   // elements, a multiple of twice the number of GPUs
	dtype  step.DType
}

// zeroLayout is what lies where.
type zeroLayout struct {
	all    []*step.Parameter
	groups []flatGroup
	world  int64
}

func (z ZeRO) layout(whole step.Parameters) zeroLayout {
	l := zeroLayout{all: whole.InOrder(nil), world: z.World}
	var kinds [2]flatGroup
	for i, p := range l.all {
		if !p.Trained() {
			continue
		}
		g := &kinds[0]
		if z.Grouped && !p.Matrix() {
			g = &kinds[1]
		}
		g.params, g.starts, g.dtype = append(g.params, i), append(g.starts, g.size), p.Dtype
		g.size += p.Numel
	}
	for _, g := range kinds {
		if len(g.params) > 0 {
			align := 2 * z.World // nccl_start_alignment_factor
			g.size = step.CeilDiv(g.size, align) * align
			l.groups = append(l.groups, g)
		}
	}
	return l
}

// part is how many elements of group g a GPU updates.
func (l *zeroLayout) part(g *flatGroup) int64 { return g.size / l.world }

// slices calls f with how many elements of each parameter of group g lie in the first GPU's part.
func (l *zeroLayout) slices(g *flatGroup, f func(p *step.Parameter, numel int64)) {
	left := l.part(g)
	for _, i := range g.params {
		if left <= 0 {
			return
		}
		n := min(l.all[i].Numel, left)
		f(l.all[i], n)
		left -= n
	}
	if left > 0 { // padding
		f(nil, left)
	}
}

// held is how many elements of gradients the first GPU keeps: whole those of parameters that its part has something of.
func (l *zeroLayout) held() (numel int64, d step.DType) {
	for k := range l.groups {
		g := &l.groups[k]
		d = g.dtype
		l.slices(g, func(p *step.Parameter, _ int64) {
			if p != nil {
				numel += p.Numel
			}
		})
	}
	return numel, d
}
