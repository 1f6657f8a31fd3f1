package strategies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// pipelineParallel is one stage of a pipeline.
type pipelineParallel struct {
	r *resolved.Job
	parallel.Pipeline
	layers []rewritten.StageOf // of each of the GPU's stages
	// within is the strategy of the GPUs of a stage; nil where there is one such GPU.
	within resolved.ManyGPUs
}

// mostTurns bounds what is recorded for a step: layers of a GPU times micro-batches.
const mostTurns = 1 << 13

// schedules are those that are replayed.
var schedules = map[string]parallel.Order{"": parallel.OneForwardOneBackward, "1f1b": parallel.OneForwardOneBackward,
	"gpipe": parallel.AllForward, "interleaved-1f1b": parallel.Interleaved, "interleaved1f1b": parallel.Interleaved,
	"interleaved-zero-bubble": parallel.ZeroBubble, "interleavedzerobubble": parallel.ZeroBubble,
	"zb-v": parallel.ZeroBubbleV, "zbvzerobubble": parallel.ZeroBubbleV, "dualpipe-v": parallel.DualPipeV,
	"dualpipev": parallel.DualPipeV}

// namesOfSchedules are the names of those that are modelled.
const namesOfSchedules = "1f1b, gpipe, interleaved-1f1b, interleaved-zero-bubble, zb-v and dualpipe-v"

// scheduleOf is the schedule of a job and how many stages each GPU has: one, or where they interleave two unless the
// job says how many. Source: torchtitan/distributed/pipeline_parallel.py (pipeline_llm), 0.2.0.
// Megatron-LM interleaves where there are several: megatron/core/pipeline_parallel/schedules.py, 0.14.
func (r Spreader) scheduleOf(d *job.Distributed) (order parallel.Order, chunks int64, known bool) {
	order, known = schedules[strings.ToLower(d.PipelineSchedule)]
	if rewritten.Megatron(&r.Arch) && order == parallel.OneForwardOneBackward && d.VirtualPipeline > 1 {
		order = parallel.Interleaved
	}
	switch {
	case !order.Interleaves():
		return order, 1, known
	case d.VirtualPipeline == 0:
		return order, 2, known
	}
	return order, d.VirtualPipeline, known
}

// stagesOf are the layers of a GPU's stages; nil where there are more stages than torchtitan makes, or where some GPU
// would have none. One of several stages may have the embedding or the head alone.
func (r Spreader) stagesOf(order parallel.Order, stages, chunks, stage int64) []rewritten.StageOf {
	if chunks > r.Arch.Layers || stages > r.Arch.Layers {
		return nil
	}
	all := rewritten.StageLayers(r.Arch.Layers, stages*chunks)
	if rewritten.Megatron(&r.Arch) {
		all = evenly(r.Arch.Layers, stages*chunks)
	}
	if all == nil || chunks == 1 && slices.Contains(all, 0) {
		return nil
	}
	each, before := make([]rewritten.StageOf, len(all)), int64(0)
	for i, layers := range all {
		each[i] = rewritten.StageOf{First: before, Layers: layers}
		before += layers
	}
	own := make([]rewritten.StageOf, 0, chunks)
	for i := stage; i < int64(len(each)); i += stages {
		own = append(own, each[i])
	}
	if order.V() {
		own = append(own[:1], each[int64(len(each))-1-stage])
	}
	if layersOf(own) == 0 {
		return nil
	}
	return own
}

// pipelineFits reads training.distributed.pipeline_parallel with the fields that go with it: what is not modelled is
// refused.
func (r Spreader) pipelineFits(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m := t.Distributed, t.Mesh()
	if m.Pipeline == 1 {
		if d.PipelineStage != nil && d.PipelineStage.Of(1) != 0 {
			errs.Add(pointer+"pipeline_stage", "out_of_range", "pipeline_stage is %d, and there is one stage, 0",
				d.PipelineStage.Of(1))
		}
		return
	}
	if !rewritten.Titan(&r.Arch) && !rewritten.Megatron(&r.Arch) {
		errs.Add(pointer+"pipeline_parallel", "unsupported",
			"pipelines are replayed for %s, and for dense decoders of Megatron-LM (framework megatron); of other "+
				"frameworks and models they are not modelled yet", titanModels)
		return
	}
	order, chunks, known := r.scheduleOf(d)
	if known && rewritten.Megatron(&r.Arch) && order != parallel.OneForwardOneBackward &&
		order != parallel.Interleaved {
		errs.Add(pointer+"pipeline_schedule", "unsupported", "pipeline_schedule is %.40q; Megatron-LM runs 1f1b, "+
			"which is interleaved where virtual_pipeline is above 1", d.PipelineSchedule)
	}
	if !known {
		errs.Add(pointer+"pipeline_schedule", "unsupported", "pipeline_schedule is %.40q; %s are modelled",
			d.PipelineSchedule, namesOfSchedules)
	}
	switch {
	case known && !order.Interleaves() && d.VirtualPipeline > 1:
		errs.Add(pointer+"virtual_pipeline", "conflict", "virtual_pipeline is %d, and in the schedule %s each GPU has "+
			"one stage; interleaved-1f1b takes more", d.VirtualPipeline, cmp.Or(d.PipelineSchedule, "1f1b"))
	case order.V() && chunks != 2:
		errs.Add(pointer+"virtual_pipeline", "out_of_range", "virtual_pipeline is %d, and in the schedule %s each GPU "+
			"has two stages", chunks, d.PipelineSchedule)
	case order == parallel.DualPipeV && r.MicroSteps < m.Pipeline*chunks:
		errs.Add("/training/gradient_accumulation", "out_of_range", "%d micro-batches are fewer than the %d stages, "+
			"which the schedule %s needs at least", r.MicroSteps, m.Pipeline*chunks, d.PipelineSchedule)
	case order.V():
	case order.Interleaves() && chunks == 1:
		errs.Add(pointer+"virtual_pipeline", "out_of_range", "virtual_pipeline is 1, and in the schedule %s each GPU "+
			"has two stages or more", d.PipelineSchedule)
	case order.Interleaves():
		if each, ok := parallel.RoundOf(r.MicroSteps, m.Pipeline); !ok {
			errs.Add("/training/gradient_accumulation", "not_divisible",
				"the %d micro-batches do not come in rounds of "+
					"%d, which the schedule %s takes with %d GPUs; a multiple of %d does", r.MicroSteps, each,
				d.PipelineSchedule, m.Pipeline, m.Pipeline)
		}
	}
	if m.Context > 1 && rewritten.Titan(&r.Arch) {
		errs.Add(pointer+"context_parallel", "unsupported",
			"sequences that GPUs share in a pipeline are not modelled yet; tensor_parallel and data fsdp are")
	}
	if rewritten.Titan(&r.Arch) && m.Data > 1 && (d.Data != "fsdp" || d.FSDPVersion == 1) {
		errs.Add(pointer+"data", "unsupported", "torchtitan deals the parameters of a stage out by fully_shard, which "+
			"is data fsdp with fsdp_version 2; %d GPUs have each stage", m.Data*m.Tensor)
	}
	if t.Shards() && d.ReshardAfterForward != nil && *d.ReshardAfterForward {
		errs.Add(pointer+"reshard_after_forward", "unsupported", "in a pipeline parameters stay gathered between "+
			"micro-batches, torchtitan's default; letting go of them is not modelled")
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.Compilation.Compiles(), "compile",
			"torch.compile in a pipeline is not modelled yet; leave one of them out"},
		{r.Recompute.Mode == resolved.SelectiveOps ||
			r.Recompute.Mode == resolved.Selective && rewritten.Titan(&r.Arch) ||
			r.Recompute.Every > 1, "gradient_checkpointing",
			"selective checkpointing in a pipeline is not modelled yet; none and full are"},
		{r.UpdatesInBackward, "optimizer/in_backward",
			"an optimizer in backward in a pipeline is not modelled; leave one of them out"},
		{order.Splits() && r.Recompute.Every > 0, "gradient_checkpointing",
			"checkpointing where a backward comes in two halves is not modelled: PyTorch runs a layer " +
				"again for each of " +
				"its parameters; none is"},
		{r.Evaluation != nil, "evaluation", "an evaluation pass in a pipeline is not modelled yet; " +
			"leave one of them out"},
		{r.Criterion.Kind != step.LossStandard && !rewritten.Megatron(&r.Arch), "loss",
			"a loss other than standard in a pipeline is not modelled"},
		{t.HoldLogits != nil, "hold_logits", "in a pipeline the schedule keeps the logits of all micro-batches; " +
			"leave the field out"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	if d.PipelineStage != nil {
		stage := d.PipelineStage.Of(m.Pipeline)
		if stage >= m.Pipeline {
			errs.Add(pointer+"pipeline_stage", "out_of_range", "pipeline_stage is %d; stages are from 0 to %d", stage,
				m.Pipeline-1)
		}
		if d.Rank != nil && m.Stage(*d.Rank) != stage {
			errs.Add(pointer+"rank", "conflict", "rank is %d and pipeline_stage %d; %d GPUs are in a stage, and so "+
				"that GPU is in stage %d", *d.Rank, stage, m.World/m.Pipeline, m.Stage(*d.Rank))
		}
	}
	if rewritten.Megatron(&r.Arch) && r.Arch.Layers%(m.Pipeline*chunks) != 0 {
		errs.Add(pointer+"pipeline_parallel", "not_divisible", "%d layers are dealt out evenly to %d stages; uneven "+
			"ones are not modelled", r.Arch.Layers, m.Pipeline*chunks)
		return
	}
	if r.stagesOf(order, m.Pipeline, chunks, 0) == nil {
		errs.Add(pointer+"pipeline_parallel", "out_of_range",
			"%d layers, the embedding and the head make fewer than %d stages with a layer each", r.Arch.Layers,
			m.Pipeline*chunks)
		return
	}
	most := int64(0) // of a GPU
	for i := range m.Pipeline {
		most = max(most, layersOf(r.stagesOf(order, m.Pipeline, chunks, i)))
	}
	if turns := float64(most) * float64(r.MicroSteps); turns > mostTurns {
		errs.Add("/training/gradient_accumulation", "too_large",
			"%d micro-batches through %d layers are more than is replayed; their product is up to %d",
			r.MicroSteps, most, mostTurns)
	}
}

// layersOf is how many layers stages have together.
func layersOf(stages []rewritten.StageOf) (total int64) {
	for _, s := range stages {
		total += s.Layers
	}
	return total
}

// stage cuts the model and puts the pipeline in place.
func (r Spreader) stage(t *job.Training) {
	m, d := t.Mesh(), t.Distributed
	if !rewritten.Titan(&r.Arch) && !rewritten.Megatron(&r.Arch) || m.Pipeline == 1 {
		return
	}
	p := &pipelineParallel{r: r.Job, within: r.Parallel}
	p.Each = rewritten.Megatron(&r.Arch)
	p.Sums, p.Stages, p.Micro = t.Shards(), m.Pipeline, r.MicroSteps
	p.Order, p.Chunks, _ = r.scheduleOf(d)
	switch {
	case d.PipelineStage != nil:
		p.Stage = min(d.PipelineStage.Of(m.Pipeline), m.Pipeline-1)
	case d.Rank != nil:
		p.Stage = min(m.Stage(*d.Rank), m.Pipeline-1)
	}
	if p.layers = r.stagesOf(p.Order, m.Pipeline, p.Chunks, p.Stage); p.layers == nil {
		return
	}
	first, last := p.Ends()
	if p.Each {
		rewritten.CutMegatronStages(&r.Arch, p.layers, first, last)
	} else {
		rewritten.CutStages(&r.Arch, p.layers, first, last)
	}
	r.Parallel = p
}

// Strategy is what package step/parallel replays.
func (p *pipelineParallel) Strategy() step.Strategy {
	s := p.Pipeline
	s.Strategy = within(p.within)
	return s
}

// How says where a component's bytes come from.
func (p *pipelineParallel) How(name, parameters string, run *resolved.Replayed) (how string, ok bool) {
	if p.within != nil {
		how, ok = p.within.How(name, parameters, run)
	}
	if name != "communication" {
		return how, ok
	}
	buffers := fmt.Sprintf("buffers for what all %d micro-batches bring from the stages beside this one", p.Micro)
	if p.Each {
		buffers = "what the stages beside this one send"
	}
	if ok {
		return buffers + "; " + how, true
	}
	return fmt.Sprintf("%s, and %s for NCCL outside PyTorch's allocator", buffers, result.Bytes(p.r.Nccl.Bytes)), true
}

// Notes say what the job was taken to be.
func (p *pipelineParallel) Notes() []result.Note {
	first, last := p.Ends()
	also := ""
	if first {
		also = " and the embedding"
	}
	switch {
	case last && p.Each:
		also += " and the head"
	case last:
		also += " and the head, with the logits of all micro-batches, which the schedule puts together at the end"
	}
	order, stages, has := "1F1B", fmt.Sprintf("stage %d of %d", p.Stage, p.Stages), fmt.Sprint(p.layers[0].Layers,
		" layers")
	switch p.Order {
	case parallel.AllForward:
		order = "GPipe"
	case parallel.Interleaved, parallel.ZeroBubble, parallel.ZeroBubbleV, parallel.DualPipeV:
		order = map[parallel.Order]string{parallel.Interleaved: "interleaved 1F1B",
			parallel.ZeroBubble: "the interleaved zero-bubble schedule", parallel.ZeroBubbleV: "ZB-V",
			parallel.DualPipeV: "DualPipe-V"}[p.Order]
		stages = fmt.Sprintf("GPU %d of the %d of a pipeline", p.Stage, p.Stages)
		has = fmt.Sprintf("%d stages with %d layers", p.Chunks, layersOf(p.layers))
	}
	text := fmt.Sprintf("%s has %s%s; %d micro-batches (gradient_accumulation) go through it in "+
		"the order of %s, up to %d of them between forward and backward",
		stages, has, also, p.Micro, order, p.InFlight())
	notes := []result.Note{{Code: "pipeline-parallel", Text: text}}
	if p.within != nil {
		return append(notes, p.within.Notes()...)
	}
	if p.r.Widened {
		notes = append(notes, result.Note{Code: "no-mixed-precision",
			Text: "torchtitan leaves mixed precision alone in a pipeline without FSDP, so everything is " +
				"computed in float32"})
	}
	return notes
}

// Doubts widen the bounds.
func (p *pipelineParallel) Doubts() []doubt.Doubt {
	if p.within != nil {
		return p.within.Doubts()
	}
	return []doubt.Doubt{doubt.Sharded}
}

// MicroStep is the first: a recording is of the whole step.
func (p *pipelineParallel) MicroStep(int64) int64 { return 0 }
