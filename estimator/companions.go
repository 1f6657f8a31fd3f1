package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// companion is a model that stands on the GPU beside the one that is trained.
type companion struct {
	name  string // what it is for
	arch  model.Architecture
	dtype step.DType
	// passed says that something is passed through it as it is, other than through the trained model itself.
	passed bool
}

// parameters are all of the companion's.
func (c *companion) parameters(plain bool) step.Parameters {
	_, _, layers := recordedLayers(&c.arch, plain)
	_, p := c.arch.Build(layers, c.dtype, nil)
	return p
}

// standBeside lets a tape pass something through other models: those that are trained beside the first of so many
// parameters, and the companions.
func (r *player) standBeside(t *step.Tape, rc step.Recipe, first int, trained []step.Companion) {
	t.Companions = trained
	for i := range r.beside {
		c := &r.beside[i]
		if !c.passed {
			continue
		}
		net, parameters := c.whole(rc).BuildBehind(first, c.dtype)
		t.Beside(parameters)
		t.Companions = append(t.Companions, step.Companion{Network: net, Stored: c.dtype, First: int32(first),
			Parameters: parameters})
		first += len(parameters)
	}
}

// whole is the companion's architecture as it is recorded.
func (c *companion) whole(rc step.Recipe) *model.Architecture {
	a := c.arch
	a.Software, a.EveryExpert = rc.Software, true
	return &a
}

// trainBeside puts the parameters of the model that is trained together with the first behind those of that one.
func (r *player) trainBeside(p *step.Parameters, rc step.Recipe) []step.Companion {
	if r.together == nil {
		return nil
	}
	first := len(p.List)
	net, parameters := r.together.whole(rc).BuildBehind(first, rc.Stored)
	p.List = append(p.List, parameters...)
	return []step.Companion{{Network: net, Stored: rc.Stored, First: int32(first), Parameters: parameters}}
}

// besides are the parameters of the models that stand beside the trained one, as this GPU holds them.
func (r *player) besides(rc step.Recipe, plain bool) []step.Parameters {
	deals, dealt := rc.Spread().(step.Deals)
	list := make([]step.Parameters, 0, len(r.beside))
	for i := range r.beside {
		p := r.beside[i].parameters(plain)
		if dealt {
			p = deals.BesideModel(p, rc.Stored)
		}
		list = append(list, p)
	}
	return list
}

// companions names the models beside the trained one and what their weights are.
func (r *resolved) companions() string {
	var words []string
	for i := range r.beside {
		c := &r.beside[i]
		w := "the " + c.name + "'s " + result.Grouped(c.arch.ParameterCount()) + " × " + result.InBytes(c.dtype)
		if r.dealsBeside() {
			w += ", dealt out like the trained model's"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// dealsBeside says that models beside the trained one are dealt out, too.
func (r *work) dealsBeside() bool {
	_, deals := r.recipe.Spread().(step.Deals)
	return deals
}

// listed are the names in a table, in order.
func listed[T any](table map[string]T) string {
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
