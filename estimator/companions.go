package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/step"
)

// companion is a model that stands on the GPU beside the one that is trained.
type companion struct {
	name  string // what it is for
	arch  model.Architecture
	dtype step.DType
}

// parameters are all of the companion's.
func (c *companion) parameters(plain bool) step.Parameters {
	_, _, layers := recordedLayers(&c.arch, plain)
	_, p := c.arch.Build(layers, c.dtype, nil)
	return p
}

// besides are the parameters of the models that stand beside the trained one.
func (r *resolved) besides(plain bool) []step.Parameters {
	list := make([]step.Parameters, 0, len(r.beside))
	for i := range r.beside {
		list = append(list, r.beside[i].parameters(plain))
	}
	return list
}

// companions names the models beside the trained one and what their weights are.
func (r *resolved) companions() string {
	var words []string
	for i := range r.beside {
		c := &r.beside[i]
		words = append(words, "the "+c.name+"'s "+grouped(c.arch.ParameterCount())+" × "+inBytes(c.dtype))
	}
	return strings.Join(words, ", ")
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
