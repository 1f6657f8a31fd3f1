package arch

import (
	"math"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// Check holds the relations between an architecture's numbers.
func (a *Architecture) Check(pointer string, errs *invalid.List, n FieldNames) {
	if a.FFN < 1 { // where the class makes it of the file's number
		errs.Add(pointer, "out_of_range", "the MLP of a layer would be %d wide; it is at least 1", a.FFN)
	}
	if a.HeadDim == 0 || !a.FreeHeadDim && (n.Dim != "head_dim" || a.Hidden/a.Heads == a.HeadDim) &&
		a.Hidden%a.Heads != 0 {
		errs.Add(pointer+"/"+n.Heads, "not_divisible", "%s %d does not divide %s %d", n.Heads, a.Heads, n.Hidden,
			a.Hidden)
		return
	}
	if a.KVHeads > 0 && a.Heads%a.KVHeads != 0 {
		errs.Add(pointer+"/"+n.KV, "not_divisible", "%s %d does not divide %s %d", n.KV, a.KVHeads, n.Heads, a.Heads)
	}
	ExpertsOf(a).check(a, pointer, errs)
	if a.Rotary && a.HeadDim%2 != 0 {
		errs.Add(pointer+"/"+n.Dim, "not_divisible", "the size of a head is %d; rotary positions need an even one",
			a.HeadDim)
	}
	width := float64(a.Heads) * float64(a.HeadDim)
	perLayer := float64(a.Hidden)*(4*width+4*float64(a.FFN)+ExpertsOf(a).width()) +
		float64(a.BufferSide)*float64(a.BufferSide)
	if total := float64(a.Layers)*perLayer + 3*float64(a.Vocabulary)*float64(a.Hidden) +
		float64(a.MaxPositions)*float64(a.Hidden); total > MaxParameters {
		errs.Add(pointer, "too_large", "the model would have about %.1e parameters; up to %.0e are accepted", total,
			float64(MaxParameters))
	}
}

// MaxParameters keeps every sum of bytes far from the end of an int64.
const MaxParameters = 1e14

// Immense says that the parameters and buffers of all modules, of what stands beside the layers too, are more than
// MaxParameters or wider than an int64. No module is made of more than the product of four numbers.
func (a *Architecture) Immense() bool {
	_, parameters := a.Build(a.distinctLayers(), step.F32, nil)
	total := 0.0
	parameters.Distinct(func(p *step.Parameter, times int64) {
		elements := float64(p.Numel)
		if p.Numel < 0 || p.Rows < 0 || p.Cols < 0 {
			elements = math.Inf(1)
		}
		total += float64(times) * max(elements, float64(p.Rows)*float64(p.Cols))
	})
	return total > MaxParameters
}
