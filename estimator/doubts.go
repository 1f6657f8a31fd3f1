package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
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

// doubts are the reasons that apply to a run of the job.
func (r *resolved) doubts(run *run) []doubt.Doubt {
	list := []doubt.Doubt{doubt.Order}
	add := func(applies bool, d doubt.Doubt) {
		if applies {
			list = append(list, d)
		}
	}
	add(r.provenOn == "" || r.untracedAdapters(), doubt.Versions)
	add(hybrids.DeltaChunks(&r.arch, 1) > 0 && !r.arch.Software.Has(solvesDeltaRule), doubt.DeltaRule)
	if run.applied.Kernels.DeltaRule {
		list = append(list, doubt.Tuning(run.least()))
	}
	add(r.recipe.Compile || r.recipe.CompileBlocks, doubt.Compiled)
	add(r.recipe.CheckpointsAround && !r.recipe.CompileBlocks, doubt.UncompiledLayers)
	add(r.recipe.Compile && r.evaluation != nil, doubt.CompiledEvaluation)
	add(r.ownModules, doubt.Modules)
	add(r.packedByGPTQ(), doubt.Packed)
	if l := r.arch.LoRA; l != nil && l.Returns && r.by.runsTRL != yes {
		tables := r.arch.Vocabulary * r.arch.Hidden
		if !r.arch.Tied {
			tables *= 2
		}
		list = append(list, doubt.TRLNamed(tables, run.least()))
	}
	list = append(list, r.recordedDoubts()...)
	if r.parallel != nil {
		list = append(list, r.parallel.doubts()...)
	}
	if r.exchanges {
		list = append(list, doubt.Routing(max(float64(run.uneven)/float64(run.ledger.Peak.Bytes)-1, 0)))
	}
	add(r.kernelNames > 0, doubt.Kernels)
	add(r.kernelNames > 0 && r.recipe.Loss.Kind == step.LossFused, doubt.FusedLoss)
	add(r.likeLiger, doubt.LikeLiger)
	add(r.arch.Generic, doubt.Generic)
	add(r.arch.Uncounted, doubt.Uncounted)
	add(len(r.arch.Unread) > 0, doubt.Unread)
	add(r.byNumbers, doubt.Dimensions)
	add(run.continued, doubt.Continued)
	list = append(list, r.objectiveDoubts(run)...)
	if r.arch.Sees() && r.by.runsTRL == yes {
		const width = 4 // of a float32
		list = append(list, doubt.SFTPictures(float64(r.shape.N()*r.arch.Vocabulary*width), run.least()))
	}
	if more := r.embeddingStates(run); more > 0 {
		list = append(list, doubt.EmbeddingStates(more, run.ledger.Peak.Bytes))
	}
	if len(r.missing) > 0 {
		list = append(list, doubt.Unproven(r.arch.Family, r.missing))
	}
	return list
}

// least is the least that the run reserves, which is known before it was played; never 0.
func (run *run) least() int64 { return max(run.base.Reserved, run.ledger.Peak.Bytes, 1) }

// explainDoubts says what each doubt comes to in bytes; the context's stands last.
func (r *resolved) explainDoubts(run *run) []DoubtSource {
	b, times := run.base, run.figures.Times
	out := r.measuredDoubt(run)
	for _, d := range r.doubts(run) {
		out = append(out, DoubtSource{Source: d.Source, How: d.How,
			BelowBytes: int64(times.Below * d.Below * float64(b.Limit)),
			AboveBytes: int64(times.Above * d.Above * float64(b.Reserved))})
	}
	if r.copies > 0 {
		out = append(out, DoubtSource{Source: "nccl",
			How: fmt.Sprintf("NCCL's communicator was not measured; NVIDIA's planner assumes %s, and nothing "+
				"to %s is allowed for", Bytes(r.nccl.Bytes), Bytes(r.nccl.High)),
			BelowBytes: int64(times.Below * float64(r.nccl.Bytes-r.nccl.Low)),
			AboveBytes: int64(times.Above * float64(r.nccl.High-r.nccl.Bytes))})
	}
	c := r.cudaContext(run.recipe)
	how := fmt.Sprintf("the context took %s to %s in published runs", Bytes(c.Low), Bytes(c.High))
	if c == memory.ContextHopper {
		how = fmt.Sprintf("the context took 751 to %s on one H200; the spread is that of published runs of other cards",
			Bytes(c.Bytes))
	}
	return append(out, DoubtSource{Source: "cuda-context", How: how,
		BelowBytes: int64(times.Below * float64(c.Bytes-c.Low)),
		AboveBytes: int64(times.Above * float64(c.High-c.Bytes))})
}

// answerFor begins an answer with what the job asks of it: the releases, and how sure its bounds shall be.
func answerFor(in *Input, errs *invalid.List) *resolved {
	r := &resolved{
		work: work{byNumbers: in.Job.Model.Dimensions != nil},
		software: software{held: in.held, given: in.Job.Training.Versions,
			stack: release.Assumed(in.Job.Training.Versions), ownLoop: in.OwnLoop},
		card: card{confidence: in.Job.Confidence, reserve: in.Job.ReserveBytes},
	}
	if r.confidence == 0 {
		r.confidence = defaultConfidence
	}
	if !(r.confidence >= 0.5 && r.confidence <= 0.999) {
		errs.Add("/confidence", "out_of_range", "confidence is %g; it is from 0.5 to 0.999", r.confidence)
	}
	if r.reserve < 0 {
		errs.Add("/reserve_bytes", "out_of_range", "reserve_bytes is %d; it is 0 or more", r.reserve)
	}
	return r
}
