package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/memory"
)

// embeddingStates doubts that embeddings have states of eight bits under the Trainer: an optimizer that it makes from
// its name is told to keep theirs, and a tied head's, in float32; one that a script hands over is not, and the traced
// steps with states of eight bits ran in a loop without the Trainer. Sources: transformers/trainer.py
// (Trainer.create_optimizer), 4.57.6 and 5.23.0; bitsandbytes/optim/optimizer.py (GlobalOptimManager, check_overrides,
// get_config), 0.50.2.
func (r *resolved) embeddingStates(run *run) (doubt, bool) {
	if r.by == nil || r.by.wideEmbeddings != yes || r.ownLoop || r.optimizer == nil || run.ledger == nil {
		return doubt{}, false
	}
	const scaled = 256 // values share a float32 scale where they have eight bits
	more := r.optimizer.QuantisedMoments * (3*run.embeddings - 4*run.embeddings/scaled)
	if more <= 0 {
		return doubt{}, false
	}
	return doubt{"embedding-states", memory.Doubt{Above: float64(more) / float64(run.ledger.Peak.Bytes)},
		fmt.Sprintf("an 8-bit optimizer that the Trainer makes from its name keeps the states of embeddings in "+
			"float32, which takes %s more; one that a script makes does not", Bytes(more))}, true
}
