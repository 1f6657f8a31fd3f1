package resolved

import (
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/step"
)

// Companion is a model that stands on the GPU beside the one that is trained.
type Companion struct {
	Name  string // what it is for
	Arch  model.Architecture
	Dtype step.DType
	// Passed says that something is passed through it as it is, other than through the trained model itself.
	Passed bool
}

// Parameters are all of the companion's.
func (c *Companion) Parameters(plain bool) step.Parameters {
	_, _, layers := RecordedLayers(&c.Arch, plain)
	_, p := c.Arch.Build(layers, c.Dtype, nil)
	return p
}

// Whole is the companion's architecture as it is recorded.
func (c *Companion) Whole(rc step.Recipe) *model.Architecture {
	a := c.Arch
	a.Software, a.EveryExpert = rc.Software, true
	return &a
}

// DealsBeside says that models beside the trained one are dealt out, too.
func (r *Work) DealsBeside() bool {
	_, deals := r.Recipe.Spread().(step.Deals)
	return deals
}
