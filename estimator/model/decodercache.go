package model

import "github.com/vramplan/vramplan/estimator/step"

// ownCache is what a cache of the model's own does otherwise than the library's.
type ownCache struct {
	// storesStates says that it refers to keys and values as they are, without a copy.
	storesStates bool
	// opensCache is what it takes before the layers run, nil for nothing.
	opensCache func(m *decoder, t *step.Tape) []step.T
}

// opened is the cache when the model's forward begins.
func (c *ownCache) opened(m *decoder, t *step.Tape) []step.T {
	if c.opensCache == nil || !t.Recipe.UseCache {
		return nil
	}
	return c.opensCache(m, t)
}
