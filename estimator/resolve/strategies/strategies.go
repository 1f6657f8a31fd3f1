package strategies

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// What NCCL takes outside PyTorch's allocator for one communicator over two GPUs and over more, as NVIDIA's planner for
// inference assumes (ai-dynamo/aiconfigurator, systems/*.yaml at 095f58a5, measured on 2, 4 and 8 GPUs of one host). No
// published training run states it by itself; the bounds say so: communicators are made when they are first used, and
// channels grow with the links of a host.
var (
	NcclTwo  = memory.Context{Bytes: 358_612_992, Low: 0, High: 1 << 30}
	NcclMore = memory.Context{Bytes: 411_041_792, Low: 0, High: 1 << 30}
)

// What raises the upper bound, and nothing else: these are reports of single hosts, and releases of NCCL differ.
const (
	// furtherCommunicatorBytes is what each communicator beside the first may take: one that had reduced took 1.6 GB of
	// a card and three 6 GB. It grows with the channels, and beyond two hosts not with their number. Source:
	// NVIDIA/nccl issues 864 and 986 (2023), of unnamed cards and releases.
	furtherCommunicatorBytes = 2_200_000_000
	// allToAllBytes is what the first all-to-all of eight H100 of a host added, 4.34 GB from 1.06: 32 channels to every
	// other GPU, with buffers of 2 and of 10 MiB. Source: NVIDIA/nccl issue 1685 (2025).
	allToAllBytes = 3_280_000_000
)

// Communicators is how many groups of GPUs the GPU of a job speaks in: one for every way in which they share it.
// Source: torch/distributed/device_mesh.py (_init_process_groups), 2.9.
func Communicators(t *job.Training) int64 {
	m := t.Mesh()
	n := int64(0)
	for _, gpus := range [...]int64{m.Tensor, m.Context, m.Pipeline, m.Shard, m.Data * m.Context / m.Shard} {
		if gpus > 1 {
			n++
		}
	}
	if t.Distributed.ExpertParallel > 1 { // those that share experts, and those that have the same
		n += 2
	}
	return max(n, 1)
}

// NCCLOf is what NCCL takes on a GPU of a job.
func NCCLOf(t *job.Training) memory.Context {
	c := NcclMore
	if t.Distributed.WorldSize == 2 {
		c = NcclTwo
	}
	c.High += (Communicators(t) - 1) * furtherCommunicatorBytes
	if d := t.Distributed; d.ExpertParallel > 1 ||
		t.Mesh().Context > 1 && rotations[strings.ToLower(d.ContextParallelKind)] {
		c.High += allToAllBytes
	}
	return c
}

// Distributed is training.distributed: GPUs that each hold the whole job (DistributedDataParallel). Whatever splits the
// job is refused, field by field.
func (r Spreader) Distributed(t *job.Training, errs *invalid.List) {
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
		r.Copies, r.Nccl = d.WorldSize, NCCLOf(t)
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
func (r Spreader) spreadState(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m := t.Distributed, t.Mesh()
	if rewritten.Megatron(&r.Arch) {
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
	if name := r.By.Engine; name != frameworks.TorchEngine {
		errs.Add(pointer+"world_size", "unsupported", "%s own engine over several GPUs is not modelled without ZeRO; "+
			"data zero1 and zero2, ddp and fsdp are", name)
	}
	if d.Data == "fsdp" {
		r.sharded(t, errs)
		return
	}
	if r.UpdatesInBackward {
		errs.Add("/training/optimizer/in_backward", "unsupported",
			"an optimizer in backward under DistributedDataParallel is not modelled; leave one of them out")
	}
	unused := r.By.LooksForUnused == frameworks.Yes && (r.Recompute.Every == 0 || t.LoRA != nil)
	if d.FindUnusedParameters != nil {
		unused = *d.FindUnusedParameters
	}
	r.Wraps, r.LooksForUnused = r.By.Amp == frameworks.Halves, unused
	r.Parallel = DDP{world: d.WorldSize, views: d.GradientAsBucketView,
		DDP: parallel.DDP{FindUnused: unused && !d.StaticGraph, BucketBytes: d.BucketCapMB << 20}}
}

// within is what is replayed of the strategy that another one stands around; nil is one GPU.
func within(m resolved.ManyGPUs) step.Strategy {
	if m != nil {
		if s := m.Strategy(); s != nil {
			return s
		}
	}
	return step.OneGPU{}
}
