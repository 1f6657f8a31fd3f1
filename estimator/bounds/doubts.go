package bounds

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// solvesDeltaRule is the gated delta rule that solves a triangular system for each chunk of tokens.
var solvesDeltaRule = release.Declare("solves-delta-rule", release.Change{
	Library: "transformers", After: "5.16", From: "5.17",
	What: "gated delta nets (Qwen3.5, Qwen3-Next) without the package fla solve a triangular system for each " +
		"chunk of tokens since transformers 5.17; before, a loop went through its rows, which is not replayed",
	Source: "models/qwen3_next/modeling_qwen3_next.py (torch_chunk_gated_delta_rule), 4.57.6, 5.0.0, 5.10.0, " +
		"5.16.0, 5.17.0 and 5.23.0",
	Shown: "traces of Qwen3.5 and Qwen3-Next with 5.23, and of Qwen3-Next with 4.57",
})

// Doubts are the reasons that apply to a run of the job.
func (r Bounder) Doubts(run *resolved.Replayed) []doubt.Doubt {
	list := []doubt.Doubt{doubt.Order}
	add := func(applies bool, d doubt.Doubt) {
		if applies {
			list = append(list, d)
		}
	}
	add(r.ProvenOn == "" || r.untracedAdapters(), doubt.Versions)
	add(hybrids.DeltaChunks(&r.Arch, 1) > 0 && !r.Arch.Software.Has(solvesDeltaRule), doubt.DeltaRule)
	if run.Applied.Kernels.DeltaRule {
		list = append(list, doubt.Tuning(run.Least()))
	}
	add(r.Recipe.Compile || r.Recipe.CompileBlocks, doubt.Compiled)
	add(r.Recipe.CheckpointsAround && !r.Recipe.CompileBlocks, doubt.UncompiledLayers)
	add(r.Recipe.Compile && r.Evaluation != nil, doubt.CompiledEvaluation)
	add(r.OwnModules, doubt.Modules)
	add(r.PackedByGPTQ(), doubt.Packed)
	if l := r.Arch.LoRA; l != nil && l.Returns && r.By.RunsTRL != frameworks.Yes {
		tables := r.Arch.Vocabulary * r.Arch.Hidden
		if !r.Arch.Tied {
			tables *= 2
		}
		list = append(list, doubt.TRLNamed(tables, run.Least()))
	}
	list = append(list, r.recordedDoubts(run.Ledger.Peak.Bytes)...)
	if r.Parallel != nil {
		list = append(list, r.Parallel.Doubts()...)
	}
	if r.Exchanges {
		list = append(list, doubt.Routing(max(float64(run.Uneven)/float64(run.Ledger.Peak.Bytes)-1, 0)))
	}
	add(r.KernelNames > 0, doubt.Kernels)
	add(r.KernelNames > 0 && r.Recipe.Loss.Kind == step.LossFused, doubt.FusedLoss)
	add(r.LikeLiger, doubt.LikeLiger)
	add(r.Arch.Generic, doubt.Generic)
	add(r.Arch.Uncounted, doubt.Uncounted)
	add(len(r.Arch.Unread) > 0, doubt.Unread)
	add(r.ByNumbers, doubt.Dimensions)
	add(run.Continued, doubt.Continued)
	list = append(list, r.objectiveDoubts(run)...)
	if r.Arch.Sees() && r.By.RunsTRL == frameworks.Yes {
		const width = 4 // of a float32
		list = append(list, doubt.SFTPictures(float64(r.Shape.N()*r.Arch.Vocabulary*width), run.Least()))
	}
	if r.Framework == "unsloth" && run.Ledger != nil {
		list = append(list, doubt.Unsloth(run.Ledger.Peak.Components[step.LogitsAndLoss], run.Least()))
	}
	if r.Framework == "lightning" && r.MicroSteps == 1 {
		gradients := r.Arch.TrainedCount() * 4 // in float32; fewer where they are narrower
		if r.Fsdp != nil {
			gradients /= max(r.Copies/max(r.Fsdp.Groups, 1), 1)
		}
		list = append(list, doubt.ClosureGradients(gradients, run.Least()))
	}
	if more := r.embeddingStates(run); more > 0 {
		list = append(list, doubt.EmbeddingStates(more, run.Ledger.Peak.Bytes))
	}
	if len(r.Missing) > 0 {
		list = append(list, doubt.Unproven(r.Arch.Family, r.Missing))
	}
	return list
}

// embeddingStates is how many bytes more the states of embeddings take under the Trainer if it makes the optimizer.
func (r Bounder) embeddingStates(run *resolved.Replayed) int64 {
	if r.By == nil || r.By.WideEmbeddings != frameworks.Yes || r.OwnLoop || r.Optimizer == nil || run.Ledger == nil {
		return 0
	}
	const scaled = 256 // values share a float32 scale where they have eight bits
	return r.Optimizer.QuantisedMoments * (3*run.Embeddings - 4*run.Embeddings/scaled)
}

// untracedAdapters says that no trace has shown the adapters: those on experts beside layers that are quantised.
func (r Bounder) untracedAdapters() bool {
	l := r.Arch.LoRA
	return l != nil && l.Folded() && l.Base != step.NotQuantised
}

// objectiveDoubts are those about a trainer.
func (r Bounder) objectiveDoubts(run *resolved.Replayed) []doubt.Doubt {
	if r.Recipe.Objective == nil {
		return nil
	}
	if _, contrasts := r.Recipe.Objective.(objective.Contrastive); contrasts {
		return []doubt.Doubt{doubt.Contrastive}
	}
	if _, unets := r.Recipe.Objective.(objective.Noise); unets {
		return []doubt.Doubt{doubt.Diffusion, doubt.Convolution}
	}
	if o, diffuses := r.Recipe.Objective.(objective.Diffusion); diffuses {
		m := &run.Ledger.Peak
		if o.CachedLatents || m.Backward || m.Stage == play.StageOptimizer { // where no convolution runs
			return []doubt.Doubt{doubt.Diffusion}
		}
		return []doubt.Doubt{doubt.Diffusion, doubt.Convolution}
	}
	list := []doubt.Doubt{doubt.Objective}
	if r.Arch.LoRA != nil && r.Arch.LoRA.Base != step.NotQuantised {
		list = append(list, doubt.QuantisedTrainer)
	}
	if g, writes := r.Recipe.Objective.(objective.GRPO); writes && g.Generates && r.Recipe.Strategy != nil {
		list = append(list, doubt.DealtGeneration)
	}
	if run.Ledger.Peak.Stage == play.StageGeneration {
		list = append(list, doubt.Generation)
	}
	return list
}

// recordedDoubts are those about a recording of which so many bytes are alive at the peak.
func (r Bounder) recordedDoubts(alive int64) []doubt.Doubt {
	rec := recordings.Recording(&r.Arch)
	if rec == nil {
		return nil
	}
	list := []doubt.Doubt{doubt.Recorded}
	if len(rec.Unexpressed) > 0 {
		list = append(list, doubt.Unexpressed(rec.Unexpressed))
	}
	if n := rec.LargestConvolution(recordings.RecordedPrecision(&r.Arch, &r.Numerics), r.Shape.Batch,
		r.Shape.Tokens); n > 0 && alive > 0 {
		list = append(list, doubt.RecordedConvolution(n, alive))
	}
	if r.Recipe.Compile {
		list = append(list, doubt.RecordedCompiled)
	}
	return list
}
