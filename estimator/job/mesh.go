package job

import "strings"

// Mesh is how the GPUs of a job are arranged.
type Mesh struct {
	// World is how many there are; Tensor share each layer, Context each sequence, and Pipeline stages the layers. Data
	// is how many such arrangements there are, and Shard how many GPUs share one copy of what a stage holds.
	World, Tensor, Context, Pipeline, Data, Shard int64
}

// Shared is how GPUs share layers and sequences, in words, besides what they share of the data's; empty where they do
// not.
func (m Mesh) Shared() string {
	var words []string
	for _, x := range []struct {
		gpus int64
		word string
	}{{m.Pipeline, "pipeline"}, {m.Context, "context"}, {m.Tensor, "tensor"}} {
		if x.gpus > 1 {
			words = append(words, x.word)
		}
	}
	if len(words) > 0 && m.Shard > 1 {
		words = append(words, "fsdp")
	}
	return strings.Join(words, " × ")
}

// Stage is the stage that a GPU is in: the GPUs of one follow each other.
func (m Mesh) Stage(rank int64) int64 { return rank * m.Pipeline / m.World }

// Mesh is the mesh of a job, of ones where it names none. Whether world is a multiple of the others is not asked.
func (t *Training) Mesh() Mesh {
	m := Mesh{World: 1, Tensor: 1, Context: 1, Pipeline: 1, Data: 1, Shard: 1}
	d := t.Distributed
	if d == nil {
		return m
	}
	m.World, m.Tensor, m.Context, m.Pipeline = max(d.WorldSize, 1), max(d.TensorParallel, 1), max(d.ContextParallel, 1),
		max(d.PipelineParallel, 1)
	m.Data = max(m.World/m.Tensor/m.Context/m.Pipeline, 1)
	if d.Data == "fsdp" {
		m.Shard = m.Data * m.Context // FSDP deals parameters out over the GPUs of a sequence, too
		if d.ShardGroup > 0 {
			m.Shard = min(d.ShardGroup, m.Data) * m.Context
		}
	}
	return m
}

// ZeROStage is the stage of ZeRO that a job names, 0 for none.
func (t *Training) ZeROStage() int {
	if d := t.Distributed; d != nil && strings.HasPrefix(d.Data, "zero") && len(d.Data) == 5 {
		return int(d.Data[4] - '0')
	}
	return 0
}

// Shards says whether the job deals its parameters out to several GPUs.
func (t *Training) Shards() bool {
	d, m := t.Distributed, t.Mesh()
	return d != nil && d.Data == "fsdp" && m.Data*m.Context > 1
}
