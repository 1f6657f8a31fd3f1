package estimator

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// meshJob is a random job whose GPUs share layers, sequences or stages: by torchtitan, or by the plan that models of
// transformers have.
func meshJob(t *rapid.T) Job {
	for range 50 {
		titan := rapid.Bool().Draw(t, "torchtitan")
		of := func(name string, among ...int64) int64 { return rapid.SampledFrom(among).Draw(t, name) }
		heads := of("heads", 4, 8)
		job := Job{Training: Training{MicroBatch: of("micro_batch", 1, 2, 3), SequenceLength: of("sequence", 256, 768, 1024),
			GradientAccumulation: of("accumulation", 1, 2, 4, 6), Precision: PrecisionBF16,
			Versions:    map[string]string{"torch": "2.9.1"},
			Optimizer:   &Optimizer{Name: "adamw", Implementation: "fused"},
			Distributed: &Distributed{TensorParallel: of("tensor", 1, 2, 4)}}}
		u, d, family := &job.Training, job.Training.Distributed, "llama"
		if rapid.Bool().Draw(t, "checkpointed") {
			u.GradientCheckpointing = &Checkpointing{Mode: "full"}
		}
		if titan {
			u.Framework, u.States = "torchtitan", &States{Weights: "fp32"}
			d.Data, d.FSDPVersion = "fsdp", 2
			d.ContextParallel, d.PipelineParallel = of("context", 1, 2, 4), of("pipeline", 1, 2, 3)
			if d.PipelineParallel > 1 && rapid.Bool().Draw(t, "interleaved") {
				d.PipelineSchedule = rapid.SampledFrom([]string{"interleaved-1f1b", "interleaved-zero-bubble", "zb-v",
					"dualpipe-v"}).Draw(t, "schedule")
			}
			d.ContextParallelKind = rapid.SampledFrom([]string{"", "alltoall"}).Draw(t, "kind")
			d.WorldSize = d.TensorParallel * d.ContextParallel * d.PipelineParallel * of("data", 1, 2, 2)
			if d.TensorParallel*d.ContextParallel*d.PipelineParallel == 1 {
				u.Compile = rapid.SampledFrom([]*Compile{nil, {Model: true, Loss: true}, {Model: true}, {Loss: true}}).
					Draw(t, "compile")
				u.GradientCheckpointing = &Checkpointing{Mode: rapid.SampledFrom([]string{"none", "full", "selective-op"}).
					Draw(t, "keeps")}
			}
			d.Rank = new(rapid.Int64Range(0, d.WorldSize-1).Draw(t, "rank"))
		} else {
			family = rapid.SampledFrom([]string{"llama", "mistral", "qwen2"}).Draw(t, "family")
			d.WorldSize = d.TensorParallel
		}
		job.Model.HFConfig = fmt.Appendf(nil, `{"model_type":%q,"hidden_size":%d,"intermediate_size":704,`+
			`"num_hidden_layers":%d,"num_attention_heads":%d,"num_key_value_heads":%d,"vocab_size":4000,`+
			`"max_position_embeddings":2048}`, family, 64*heads, of("layers", 3, 7, 12), heads, of("kv", 4, heads))
		if d.WorldSize > 1 && valid(job) {
			return job
		}
	}
	t.Skip("fifty jobs that are not modelled")
	return Job{}
}

// TestFoldedEqualsPlainOnMeshes is TestFoldedEqualsPlain for GPUs that share layers, sequences or stages.
func TestFoldedEqualsPlainOnMeshes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { foldedEqualsPlain(t, onDrawnGPU(t, meshJob(t))) })
}

// TestLedgerEqualsReplayOnMeshes is TestLedgerEqualsReplay for them.
func TestLedgerEqualsReplayOnMeshes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { ledgerEqualsReplay(t, Input{Job: meshJob(t)}, true) })
}
