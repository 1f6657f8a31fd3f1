package estimator

// embeddingStates is how many bytes more the states of embeddings take under the Trainer if it makes the optimizer.
func (r *resolved) embeddingStates(run *run) int64 {
	if r.by == nil || r.by.wideEmbeddings != yes || r.ownLoop || r.optimizer == nil || run.ledger == nil {
		return 0
	}
	const scaled = 256 // values share a float32 scale where they have eight bits
	return r.optimizer.QuantisedMoments * (3*run.embeddings - 4*run.embeddings/scaled)
}
