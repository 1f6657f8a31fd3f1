package estimator

import "strings"

// mesh is how the GPUs of a job are arranged.
type mesh struct {
	// world is how many there are; tensor share each layer, context each sequence, and pipeline stages the layers. data
	// is how many such arrangements there are, and shard how many GPUs share one copy of what a stage holds.
	world, tensor, context, pipeline, data, shard int64
}

// shared is how GPUs share layers and sequences, in words, besides what they share of the data's; empty where they do
// not.
func (m mesh) shared() string {
	var words []string
	for _, x := range []struct {
		gpus int64
		word string
	}{{m.pipeline, "pipeline"}, {m.context, "context"}, {m.tensor, "tensor"}} {
		if x.gpus > 1 {
			words = append(words, x.word)
		}
	}
	if len(words) > 0 && m.shard > 1 {
		words = append(words, "fsdp")
	}
	return strings.Join(words, " × ")
}

// stage is the stage that a GPU is in: the GPUs of one follow each other.
func (m mesh) stage(rank int64) int64 { return rank * m.pipeline / m.world }

// meshOf is the mesh of a job, of ones where it names none. Whether world is a multiple of the others is not asked.
func meshOf(t *Training) mesh {
	m := mesh{world: 1, tensor: 1, context: 1, pipeline: 1, data: 1, shard: 1}
	d := t.Distributed
	if d == nil {
		return m
	}
	m.world, m.tensor, m.context, m.pipeline = max(d.WorldSize, 1), max(d.TensorParallel, 1), max(d.ContextParallel, 1),
		max(d.PipelineParallel, 1)
	m.data = max(m.world/m.tensor/m.context/m.pipeline, 1)
	if d.Data == "fsdp" {
		m.shard = m.data * m.context // FSDP deals parameters out over the GPUs of a sequence, too
		if d.ShardGroup > 0 {
			m.shard = min(d.ShardGroup, m.data) * m.context
		}
	}
	return m
}
