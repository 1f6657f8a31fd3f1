package estimator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// pipelineParallel is one stage of a pipeline.
type pipelineParallel struct {
	r *resolved
	parallel.Pipeline
	layers []int64 // of each stage
	// within is the strategy of the GPUs of a stage; nil where there is one such GPU.
	within manyGPUs
}

// mostTurns bounds what is recorded for a step: layers of a stage times micro-batches.
const mostTurns = 1 << 13

// schedules says which of the pipeline schedules run all forwards before the first backward.
var schedules = map[string]bool{"": false, "1f1b": false, "gpipe": true}

// pipelineFits reads training.distributed.pipeline_parallel with the fields that go with it: what is not modelled is
// refused.
func (r *resolved) pipelineFits(t *Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m := t.Distributed, meshOf(t)
	if m.pipeline == 1 {
		if d.PipelineStage != nil && *d.PipelineStage > 0 {
			errs.Add(pointer+"pipeline_stage", "out_of_range", "pipeline_stage is %d, and there is one stage, 0",
				*d.PipelineStage)
		}
		return
	}
	if !r.arch.Titan() {
		errs.Add(pointer+"pipeline_parallel", "unsupported",
			"pipelines are replayed for torchtitan (framework torchtitan) and models of the family llama without "+
				"biases, dropout, tied embeddings and adapters; of other frameworks and models they are "+
				"not modelled yet")
		return
	}
	if _, known := schedules[strings.ToLower(d.PipelineSchedule)]; !known {
		errs.Add(pointer+"pipeline_schedule", "unsupported", "pipeline_schedule is %.40q; 1f1b and gpipe are modelled",
			d.PipelineSchedule)
	}
	if d.VirtualPipeline > 1 {
		errs.Add(pointer+"virtual_pipeline", "unsupported", "interleaved schedules are not modelled yet; "+
			"virtual_pipeline 1 is")
	}
	if m.context > 1 {
		errs.Add(pointer+"context_parallel", "unsupported",
			"sequences that GPUs share in a pipeline are not modelled yet; tensor_parallel and data fsdp are")
	}
	if m.data > 1 && (d.Data != "fsdp" || d.FSDPVersion == 1) {
		errs.Add(pointer+"data", "unsupported", "torchtitan deals the parameters of a stage out by fully_shard, which "+
			"is data fsdp with fsdp_version 2; %d GPUs have each stage", m.data*m.tensor)
	}
	if shards(t) && d.ReshardAfterForward != nil && *d.ReshardAfterForward {
		errs.Add(pointer+"reshard_after_forward", "unsupported", "in a pipeline parameters stay gathered between "+
			"micro-batches, torchtitan's default; letting go of them is not modelled")
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.recipe.Compile || r.recipe.CompileLoss, "compile",
			"torch.compile in a pipeline is not modelled yet; leave one of them out"},
		{r.recipe.SelectiveOps || r.recipe.SelectiveAttention || r.recipe.CheckpointEvery > 1, "gradient_checkpointing",
			"selective checkpointing in a pipeline is not modelled yet; none and full are"},
		{r.recipe.UpdatesInBackward, "optimizer/in_backward",
			"an optimizer in backward in a pipeline is not modelled; leave one of them out"},
		{r.evaluation != nil, "evaluation", "an evaluation pass in a pipeline is not modelled yet; " +
			"leave one of them out"},
		{r.recipe.Loss.Kind != step.LossStandard, "loss", "a loss other than standard in a pipeline is not modelled"},
		{t.HoldLogits != nil, "hold_logits", "in a pipeline the schedule keeps the logits of all micro-batches; " +
			"leave the field out"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	if d.PipelineStage != nil {
		stage := *d.PipelineStage
		if stage >= m.pipeline {
			errs.Add(pointer+"pipeline_stage", "out_of_range", "pipeline_stage is %d; stages are from 0 to %d", stage,
				m.pipeline-1)
		}
		if d.Rank != nil && m.stage(*d.Rank) != stage {
			errs.Add(pointer+"rank", "conflict", "rank is %d and pipeline_stage %d; %d GPUs are in a stage, and so "+
				"that GPU is in stage %d", *d.Rank, stage, m.world/m.pipeline, m.stage(*d.Rank))
		}
	}
	layers := model.StageLayers(r.arch.Layers, m.pipeline)
	if layers == nil || slices.Contains(layers, 0) {
		errs.Add(pointer+"pipeline_parallel", "out_of_range",
			"%d layers, the embedding and the head make fewer than %d stages with a layer each", r.arch.Layers,
			m.pipeline)
		return
	}
	if turns := float64(slices.Max(layers)) * float64(r.recipe.Accumulation); turns > mostTurns {
		errs.Add("/training/gradient_accumulation", "too_large",
			"%d micro-batches through %d layers are more than is replayed; their product is up to %d",
			r.recipe.Accumulation, slices.Max(layers), mostTurns)
	}
}

// stage cuts the model and puts the pipeline in place.
func (r *resolved) stage(t *Training) {
	m, d := meshOf(t), t.Distributed
	layers := model.StageLayers(r.arch.Layers, m.pipeline)
	if !r.arch.Titan() || m.pipeline == 1 || layers == nil {
		return
	}
	p := &pipelineParallel{r: r, layers: layers, within: r.parallel}
	p.Strategy, p.Sums = r.recipe.Spread(), shards(t)
	p.Stages, p.Micro, p.AllForward = m.pipeline, r.recipe.Accumulation, schedules[strings.ToLower(d.PipelineSchedule)]
	switch {
	case d.PipelineStage != nil:
		p.Stage = min(*d.PipelineStage, m.pipeline-1)
	case d.Rank != nil:
		p.Stage = min(m.stage(*d.Rank), m.pipeline-1)
	}
	first, last := p.Ends()
	r.arch.CutStage(layers[p.Stage], first, last)
	r.recipe.Accumulation = 1 // a recording is of all micro-batches
	r.parallel, r.recipe.Strategy = p, p.Pipeline
}

// how says where a component's bytes come from.
func (p *pipelineParallel) how(name, parameters string, run *run) (how string, ok bool) {
	if p.within != nil {
		how, ok = p.within.how(name, parameters, run)
	}
	if name != "communication" {
		return how, ok
	}
	buffers := fmt.Sprintf("buffers for what all %d micro-batches bring from the stages beside this one", p.Micro)
	if ok {
		return buffers + "; " + how, true
	}
	return fmt.Sprintf("%s, and %s for NCCL outside PyTorch's allocator", buffers, Bytes(p.r.nccl.Bytes)), true
}

// notes say what the job was taken to be.
func (p *pipelineParallel) notes() []Note {
	order := "1F1B"
	if p.AllForward {
		order = "GPipe"
	}
	first, last := p.Ends()
	also := ""
	switch {
	case first:
		also = " and the embedding"
	case last:
		also = " and the head, with the logits of all micro-batches, which the schedule puts together at the end"
	}
	text := fmt.Sprintf("stage %d of %d has %d layers%s; %d micro-batches (gradient_accumulation) go through it in "+
		"the order of %s, up to %d of them between forward and backward",
		p.Stage, p.Stages, p.layers[p.Stage], also, p.Micro, order, p.InFlight())
	notes := []Note{{Code: "pipeline-parallel", Text: text}}
	if p.within != nil {
		return append(notes, p.within.notes()...)
	}
	if p.r.widened {
		notes = append(notes, Note{Code: "no-mixed-precision",
			Text: "torchtitan leaves mixed precision alone in a pipeline without FSDP, so everything is " +
				"computed in float32"})
	}
	return notes
}

func (p *pipelineParallel) doubts() []doubt {
	if p.within != nil {
		return p.within.doubts()
	}
	return []doubt{shardedDoubt}
}

// microStep is the first: a recording is of the whole step.
func (p *pipelineParallel) microStep(int64) int64 { return 0 }
