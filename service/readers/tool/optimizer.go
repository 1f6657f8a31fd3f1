package tool

import (
	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/service/readers/draft"
)

// Spelled are optimizers by a tool's own words for them.
func Spelled(words map[string]optim.Spelled) map[string]draft.Optimizer {
	all := make(map[string]draft.Optimizer, len(words))
	for word, o := range words {
		all[word] = draft.Optimizer(o)
	}
	return all
}
