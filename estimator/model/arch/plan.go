package arch

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// side is along which side of a linear layer's matrix GPUs share it.
type side uint8

const (
	uncut side = iota
	// Columns: every GPU has some of the outputs, and all inputs go into them.
	Columns
	// Rows: every GPU has some of the inputs, and the outputs are summed.
	Rows
)

// Planned says whether transformers' tp_plan of the model is replayed.
func (a *Architecture) Planned() bool {
	return a.Described != nil && a.Described.Planned && a.Class == ClassCausalLM && !a.Generic && a.Written == nil &&
		a.LoRA == nil && a.Quantised == "" && !a.OutBias && !a.MLPBias && a.Gated &&
		a.AttentionDropout == 0
}

// CutPlan leaves of the layers what one of n GPUs has by the tp_plan.
func (a *Architecture) CutPlan(n int64) {
	a.plan = n
	a.Heads, a.KVHeads, a.FFN = a.Heads/n, a.KVHeads/n, a.FFN/n
}

// dealsVocabulary deals the embedding and the head out, too.
var dealsVocabulary = release.Declare("deals-vocabulary", release.Change{
	Library: "transformers", After: "5.20", From: "5.21",
	What:   "the tp_plan of transformers 5.21 deals the rows of the embedding and the head out, and gathers the logits",
	Source: "distributed/mixin.py (init_parallel_plans), 5.20.0 and 5.21.0; distributed/tensor_parallel.py, 5.23.0",
	Shown:  "traces of Qwen2, Qwen3, Llama, Granite and Cohere on two and four GPUs",
})

// SharesVocabulary says that the GPUs which share the layers by a plan share the rows of the embedding and the head.
func (a *Architecture) SharesVocabulary() bool { return a.plan > 0 && a.Software.Has(dealsVocabulary) }

// vocabularyRows are those that the GPU with most has.
func (a *Architecture) vocabularyRows() int64 {
	if a.SharesVocabulary() {
		return step.CeilDiv(a.Vocabulary, a.plan)
	}
	return a.Vocabulary
}

// Embedded is the model's embedding, whose rows GPUs may share. Source: transformers/distributed/tensor_parallel.py
// (EmbeddingParallel), 5.23.
func (a *Architecture) Embedded(t *step.Tape, ids step.T, w step.Weight) step.T {
	switch {
	case !a.SharesVocabulary():
		return t.Embedding(ids, w, step.LabelEmbedding)
	case a.Tied:
		return t.SumOverGPUs(t.EmbedSharedRows(ids, w, a.Vocabulary))
	}
	return t.SumOverGPUs(t.EmbedRows(ids, w, a.Vocabulary))
}

// gathering is a head of which each of the GPUs has some of the outputs, which all of them need.
type gathering struct{ gpus, outputs int64 }

// logits are all of them. Source: transformers/distributed/tensor_parallel.py (ColwiseParallel), 5.23.
func (g gathering) logits(t *step.Tape, m *Linear, x step.T) step.T {
	shared := t.SharedInput(x)
	own := t.Linear(shared, m.W, m.B, step.LabelLogits)
	y := t.GatherVocabulary(own, g.gpus, x.Numel()/m.W.Cols*g.outputs)
	t.Drop(own, shared)
	return y
}

// Cut says that GPUs share the layers along a side, where a plan has them share.
func (b *Builder) Cut(s side, layers ...*Linear) {
	if b.A.plan == 0 {
		return
	}
	for _, m := range layers {
		m.Side = s
	}
}

// shared is forward where GPUs share the layer.
func (m *Linear) shared(t *step.Tape, x step.T) step.T {
	if m.Side == Rows {
		return t.SumOverGPUs(m.base(t, x))
	}
	x = t.SharedInput(x)
	y := m.base(t, x)
	t.Drop(x)
	return y
}
