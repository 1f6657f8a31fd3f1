package estimator

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// distributed is training.distributed: GPUs that each hold the whole job (DistributedDataParallel). Whatever splits the
// job is refused, field by field.
func (r *resolved) distributed(t *Training, errs *invalid.List) {
	d := t.Distributed
	if d == nil {
		return
	}
	const pointer = "/training/distributed/"
	for _, x := range []struct {
		field string
		given bool
	}{
		{"async_tensor_parallel", d.AsyncTensorParallel},
		{"virtual_pipeline", d.VirtualPipeline > 1 && d.PipelineParallel <= 1},
		{"offload_optimizer", d.OffloadOptimizer && t.ZeROStage() == 0 && !(d.OffloadParameters && t.Shards())},
		{"offload_parameters", d.OffloadParameters && t.ZeROStage() == 0 && !t.Shards()},
	} {
		if x.given {
			errs.Add(pointer+x.field, "unsupported", "a job that is split over GPUs in this way is not modelled yet; "+
				"copies of the whole job (ddp) and its state dealt out (fsdp) are")
		}
	}
	r.expertAdaptersFit(t, errs)
	r.tensorFits(t, errs)
	r.contextFits(t, errs)
	r.pipelineFits(t, errs)
	r.expertsFit(t, errs)
	if d.Rank != nil && *d.Rank >= max(d.WorldSize, 1) {
		errs.Add(pointer+"rank", "out_of_range", "rank is %d; it is from 0 to %d, one less than world_size", *d.Rank,
			max(d.WorldSize, 1)-1)
	}
	if d.DeepSpeed != nil && t.ZeROStage() == 0 {
		errs.Add(pointer+"deepspeed", "conflict", "deepspeed belongs to data zero1, zero2 or zero3, and data is %.20q",
			d.Data)
	}
	if d.WorldSize < 0 || d.WorldSize > 1<<20 {
		errs.Add(pointer+"world_size", "out_of_range", "world_size is %d; it is from 1 to %d", d.WorldSize, 1<<20)
	}
	if d.WorldSize == 0 && d.Data != "" {
		errs.Add(pointer+"world_size", "required", "data is %s, and over how many GPUs is not said: world_size is a "+
			"whole number from 1", d.Data)
	}
	if d.WorldSize > 1 {
		r.copies, r.nccl = d.WorldSize, ncclOf(t)
	}
	m := t.Mesh()
	if share := m.Tensor * m.Context * m.Pipeline; share > 1 && m.World%share != 0 {
		errs.Add(pointer+"world_size", "not_divisible", "world_size is %d, and it takes a multiple of %d, the product "+
			"of tensor_parallel, context_parallel and pipeline_parallel", d.WorldSize, share)
	}
	r.spreadState(t, errs) // and around it, from within:
	if d.ExpertParallel > 1 {
		r.dealExperts(t)
	}
	if m.Context > 1 {
		r.share(t)
	}
	if m.Tensor > 1 {
		r.cut(t)
	}
	if m.Pipeline > 1 {
		r.stage(t)
	}
}

// spreadState is what GPUs do that share neither experts, nor sequences, nor layers, nor stages: copies, and the
// engines that deal out parts of what stays. Those that do are around it.
func (r *resolved) spreadState(t *Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m := t.Distributed, t.Mesh()
	if rewritten.Megatron(&r.arch) {
		r.megatronLM(t, errs)
		return
	}
	if t.ZeROStage() > 0 && d.WorldSize > 0 {
		r.zero(t, errs)
		return
	}
	if m.Data*m.Context <= 1 {
		return
	}
	if name := r.by.engine; name != torchEngine {
		errs.Add(pointer+"world_size", "unsupported", "%s own engine over several GPUs is not modelled without ZeRO; "+
			"data zero1 and zero2, ddp and fsdp are", name)
	}
	if d.Data == "fsdp" {
		r.sharded(t, errs)
		return
	}
	if r.updatesInBackward {
		errs.Add("/training/optimizer/in_backward", "unsupported",
			"an optimizer in backward under DistributedDataParallel is not modelled; leave one of them out")
	}
	unused := r.by.looksForUnused == yes && (r.recompute.every == 0 || t.LoRA != nil)
	if d.FindUnusedParameters != nil {
		unused = *d.FindUnusedParameters
	}
	r.wraps, r.looksForUnused = r.by.amp == halves, unused
	r.parallel = ddp{world: d.WorldSize, views: d.GradientAsBucketView,
		DDP: parallel.DDP{FindUnused: unused && !d.StaticGraph, BucketBytes: d.BucketCapMB << 20}}
}

// manyGPUs is a strategy over several GPUs: what package step replays, and what an answer says of it.
type manyGPUs interface {
	// strategy is what is replayed; nil is what one GPU does.
	strategy() step.Strategy
	// how says where a component's bytes come from in a job that trains p parameters; ok is false where that is no
	// different from one GPU.
	how(component, p string, run *run) (how string, ok bool)
	// notes say what the job was taken to be, and doubts what is less sure than on one GPU.
	notes() []Note
	doubts() []doubt.Doubt
	// microStep is the micro-step that the m-th of the ledger stands for.
	microStep(m int64) int64
}

// within is what is replayed of the strategy that another one stands around; nil is one GPU.
func within(m manyGPUs) step.Strategy {
	if m != nil {
		if s := m.strategy(); s != nil {
			return s
		}
	}
	return step.OneGPU{}
}

// microStep is the micro-step that the m-th of the ledger stands for.
func (r *layout) microStep(m int64) int64 {
	if r.parallel == nil {
		return m
	}
	return r.parallel.microStep(m)
}
