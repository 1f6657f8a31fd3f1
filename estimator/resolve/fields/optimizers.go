package fields

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/step/optim"
)

// Implementations are those that are modelled of an optimizer, in the order of the alphabet.
func Implementations(name string) []string {
	var has []string
	for _, o := range optim.Optimizers() {
		if o.Name != name && !slices.Contains(o.Synonyms, name) {
			continue
		}
		for _, i := range o.Implementations {
			if i != "" {
				has = append(has, i)
			}
		}
	}
	slices.Sort(has)
	return has
}

// OptimizerNames are those of which the table says that is so, with their synonyms, in its order.
func OptimizerNames(is func(*optim.Optimizer) bool) []string {
	var names []string
	for _, o := range optim.Optimizers() {
		if !is(&o) {
			continue
		}
		for _, name := range append([]string{o.Name}, o.Synonyms...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Enumeration is "a, b and c".
func Enumeration(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// DefaultOptimizer is what a job trains with that does not say.
const DefaultOptimizer = "adamw"
