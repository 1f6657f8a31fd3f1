package blocks

import "github.com/vramplan/vramplan/estimator/step"

// ownCache is what a cache of the model's own does otherwise than the library's.
type ownCache struct {
	// StoresStates says that it refers to keys and values as they are, without a copy.
	StoresStates bool
	// OpensCache is what it takes before the layers run, nil for nothing.
	OpensCache func(m *Decoder, t *step.Tape) []step.T
}

// opened is the cache when the model's forward begins.
func (c *ownCache) opened(m *Decoder, t *step.Tape) []step.T {
	if c.OpensCache == nil || !t.Recipe.UseCache {
		return nil
	}
	return c.OpensCache(m, t)
}
