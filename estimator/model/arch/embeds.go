package arch

import "github.com/vramplan/vramplan/estimator/step"

// embedder is a network that runs without a head where a pass asks for embeddings ([step.Pass]).
type embedder interface{ Embeds() }

// Embed leaves the head of a model out, as AutoModel does, whatever class its config.json names. It says whether that
// is modelled of the family.
func (a *Architecture) Embed() bool {
	if a.Described == nil || a.Decoder > 0 || a.Generic || a.Sees() {
		return false
	}
	a.Class, a.Pooled = ClassBase, a.Described.Pools(ClassBase)
	net, _ := a.Build(1, step.F32, nil)
	_, ok := net.(embedder)
	return ok
}
