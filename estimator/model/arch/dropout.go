package arch

// hidden is what a family has of its own that drops hidden states.
type hidden interface {
	// Dropping is the same with probability p there.
	Dropping(p float64) any
}

// SetHiddenDropout puts one probability in place of all those of a configuration by which hidden states are dropped:
// behind the embeddings, behind attention and MLP, and inside the MLP where a family has that.
func (a *Architecture) SetHiddenDropout(p float64) {
	a.EmbeddingDropout, a.ResidualDropout = p, p
	if own, ok := a.Own.(hidden); ok {
		a.Own = own.Dropping(p)
	}
}
