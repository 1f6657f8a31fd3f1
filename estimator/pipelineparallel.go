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
	if m.world != m.pipeline || m.tensor*m.context > 1 {
		errs.Add(pointer+"pipeline_parallel", "unsupported",
			"a pipeline together with other ways to share a job is not modelled yet; pipeline_parallel is %d "+
				"and world_size %d", m.pipeline, m.world)
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
	stage, from := int64(0), "pipeline_stage"
	switch {
	case d.PipelineStage != nil:
		stage = *d.PipelineStage
		if d.Rank != nil && *d.Rank != stage {
			errs.Add(pointer+"rank", "conflict", "rank is %d and pipeline_stage %d; on a mesh of stages alone "+
				"they are the same", *d.Rank, stage)
		}
	case d.Rank != nil:
		stage, from = *d.Rank, "rank"
	}
	if stage >= m.pipeline {
		errs.Add(pointer+from, "out_of_range", "%s is %d; stages are from 0 to %d", from, stage, m.pipeline-1)
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
	p := &pipelineParallel{r: r, layers: layers}
	p.Stages, p.Micro, p.AllForward = m.pipeline, r.recipe.Accumulation, schedules[strings.ToLower(d.PipelineSchedule)]
	switch {
	case d.PipelineStage != nil:
		p.Stage = min(*d.PipelineStage, m.pipeline-1)
	case d.Rank != nil:
		p.Stage = min(*d.Rank, m.pipeline-1)
	}
	first, last := p.Ends()
	r.arch.CutStage(layers[p.Stage], first, last)
	r.recipe.Accumulation = 1 // a recording is of all micro-batches
	r.parallel, r.recipe.Strategy = p, p.Pipeline
}

// asksForStages says whether the job is a pipeline and names no stage.
func asksForStages(t *Training) bool {
	d := t.Distributed
	return d != nil && d.PipelineParallel > 1 && d.PipelineStage == nil && d.Rank == nil
}

// estimateStages answers for the stage that takes most, and lists them all.
func estimateStages(in Input, limits bool, replays *Replays) (*Result, error) {
	var fullest *Result
	var list []string
	stages := int64(1)
	for stage := int64(0); stage < stages; stage++ {
		one := in
		d := *in.Job.Training.Distributed
		d.PipelineStage = &stage
		one.Job.Training.Distributed = &d
		res, err := estimate(one, limits, replays)
		if err != nil {
			return nil, err
		}
		stages = d.PipelineParallel // which has been found to be as many as are modelled
		list = append(list, fmt.Sprintf("stage %d: %s allocated, %s reserved", stage, Bytes(res.Peak.AllocatedBytes),
			Bytes(res.Peak.ReservedBytes)))
		played := res.Played
		if fullest != nil {
			played += fullest.Played
		}
		if fullest == nil || res.Peak.DeviceBytes > fullest.Peak.DeviceBytes {
			fullest = res
		}
		fullest.Played = played
	}
	fullest.Notes = append(fullest.Notes, Note{Code: "pipeline-stages", Text: "the figures are those of " +
		"the fullest stage; " + strings.Join(list, "; ")})
	return fullest, nil
}

// how says where a component's bytes come from.
func (p *pipelineParallel) how(name, _ string, _ *run) (how string, ok bool) {
	if name != "communication" {
		return "", false
	}
	return fmt.Sprintf("buffers for what all %d micro-batches bring from the stages beside this one, and %s for NCCL "+
		"outside PyTorch's allocator", p.Micro, Bytes(p.r.nccl.Bytes)), true
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
	if p.r.widened {
		notes = append(notes, Note{Code: "no-mixed-precision",
			Text: "torchtitan leaves mixed precision alone in a pipeline without FSDP, so everything is " +
				"computed in float32"})
	}
	return notes
}

func (p *pipelineParallel) doubts() []doubt { return []doubt{shardedDoubt} }

// microStep is the first: a recording is of the whole step.
func (p *pipelineParallel) microStep(int64) int64 { return 0 }
