package layouts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/planner/launch"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// dealers are the ways to share state that each framework can be asked for; what the estimator does not model, it
// refuses. Sources: torchtitan/config/job_config.py 0.2.0 (Parallelism), Megatron-LM megatron/training/arguments.py
// (--use-distributed-optimizer is ZeRO-1), DeepSpeed runtime/zero/config.py, accelerate 1.15 (DistributedType).
var dealers = map[string][]string{
	"torchtitan": {"fsdp"}, "torchtune": {"fsdp"}, "nanogpt": {"ddp"}, "litgpt": {"ddp", "fsdp"},
	"llm-foundry": {"ddp", "fsdp"}, "deepspeed": {"zero1", "zero2", traits.ZeRO3}, "megatron": {"ddp", "zero1"},
	"nanotron": {"ddp", "zero1"},
}

// everyDealer is what the others take.
var everyDealer = []string{"ddp", "fsdp", "zero1", "zero2", traits.ZeRO3}

// meshes are the frameworks that lay GPUs out on a mesh of data, tensor, pipeline, context and expert parallelism.
var meshes = map[string]bool{"torchtitan": true, "megatron": true, "nanotron": true}

// layoutTools are the frameworks whose layouts are looked at: the job's, and torchtitan where the job names none and
// torchtitan writes the model itself and has the optimizer.
func layoutTools(in estimator.Input) []string {
	own := traits.ToolOf(in)
	if in.Job.Training.Framework != "" || own != "hf-trainer" || in.Job.Training.LoRA != nil ||
		!launch.TitanRuns(in.Job.Training.Optimizer) {
		return []string{own}
	}
	a, ok := traits.ArchitectureOf(in)
	if !ok {
		return []string{own}
	}
	if rewritten.WriteAsTitan(&a, traits.SequenceLength(in, traits.Shape{Context: a.MaxPositions}),
		true); !rewritten.Titan(&a) {
		return []string{own}
	}
	return []string{own, "torchtitan"}
}

// structures are the layouts of so many GPUs in hosts of perNode.
func structures(in estimator.Input, gpus, perNode int64) []structure {
	var out []structure
	for _, tool := range layoutTools(in) {
		tensors, stages, contexts, experts := []int64{1}, []int64{1}, []int64{1}, []int64{1}
		if meshes[tool] {
			// Layers are shared within a host: what they exchange waits for the slowest link, four times a layer.
			tensors, stages = powers(min(perNode, gpus)), powers(min(gpus, mostStages))
			contexts = powers(min(perNode, gpus))
			if s := traits.ReadShape(in); s.ExpertsPerToken > 0 {
				experts = dividing(s.Experts, powers(min(gpus, s.Experts)))
			}
		}
		for _, t := range tensors {
			for _, p := range stages {
				for _, c := range contexts {
					for _, e := range experts {
						out = append(out, meshed(in, tool, gpus, perNode, t, p, c, e)...)
					}
				}
			}
		}
	}
	return out
}

// mostStages bounds what is tried; longer pipelines idle.
const mostStages = 16

// meshed are the ways to share state on one mesh.
func meshed(in estimator.Input, tool string, gpus, perNode, tensor, stages, context, experts int64) []structure {
	share := tensor * stages * context
	if gpus%share != 0 || context > 1 && (tensor*context > perNode || !longSequence(in)) {
		return nil
	}
	data := gpus / share
	if experts > 1 && (data*context*tensor%experts != 0 || experts%(tensor*context) != 0) {
		return nil // torchtitan takes the GPUs that share layers and sequences, and some of the data's
	}
	one := structure{tool: tool, data: data, tensor: tensor, stages: stages, context: context, experts: experts,
		shard: 1}
	one.d = estimator.Distributed{WorldSize: gpus}
	for _, x := range []struct {
		to *int64
		n  int64
	}{{&one.d.TensorParallel, tensor}, {&one.d.PipelineParallel, stages}, {&one.d.ContextParallel, context},
		{&one.d.ExpertParallel, experts}} {
		if x.n > 1 {
			*x.to = x.n
		}
	}
	// Megatron-LM's GPUs that share layers share the tokens between them, too: as many bytes are sent, less is kept.
	// Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.
	if tool == "megatron" && tensor > 1 {
		n := traits.SequenceLength(in, traits.ReadShape(in))
		one.d.SequenceParallel = n > 0 && n%(tensor*context) == 0
	}
	if data*context == 1 {
		if experts > 1 {
			return nil
		}
		return []structure{one}
	}
	ways := dealers[tool]
	if ways == nil {
		ways = everyDealer
	}
	var out []structure
	for _, way := range ways {
		x := one
		x.d.Data = way
		x.shard = data * context
		if way == "ddp" {
			x.shard = 1
		}
		own := in.Job.Training.Distributed
		if own != nil && traits.OnZeRO(own) && strings.HasPrefix(way, "zero") {
			x.d.DeepSpeed, x.d.OffloadOptimizer, x.d.ZeroInit = traits.Restage(own.DeepSpeed, way),
				own.OffloadOptimizer, nil
			if way == traits.ZeRO3 {
				x.d.OffloadParameters, x.d.ZeroInit = own.OffloadParameters, own.ZeroInit
			}
		}
		if way != "fsdp" {
			out = append(out, x)
			continue
		}
		if x.d.FSDPVersion = 2; own != nil && own.FSDPVersion > 0 && own.Data == "fsdp" {
			x.d.FSDPVersion = own.FSDPVersion
		}
		out = append(out, x)
		if stages == 1 {
			once := x
			once.d.ReshardAfterForward = new(bool)
			out = append(out, once)
		}
		// HSDP: a copy in each host, or in each group of hosts.
		for group := max(perNode/tensor/context, 1); group < data; group *= 2 {
			if group > 1 && data%group == 0 && group*context*tensor%experts == 0 {
				copies := x
				copies.d.ShardGroup, copies.shard = group, group*context
				out = append(out, copies)
			}
		}
	}
	return out
}

// longSequence says whether a sequence is long enough for several GPUs to share one: below, ring attention sends keys
// and values for longer than it computes (Liu et al. 2023, arXiv 2310.01889, section 3.1: some 1,500 tokens a GPU on
// an A100 with NVLink and 25,000 with InfiniBand).
func longSequence(in estimator.Input) bool {
	return cmp.Or(in.Job.Training.SequenceLength, 1<<20) >= 16384
}

// dividing are those of the parts that divide a whole.
func dividing(whole int64, parts []int64) []int64 {
	return slices.DeleteFunc(parts, func(n int64) bool { return whole%n != 0 })
}

// powers are 1, 2, 4, … up to most.
func powers(most int64) []int64 {
	var out []int64
	for n := int64(1); n <= most; n *= 2 {
		out = append(out, n)
	}
	return out
}

// modes are the kinds of checkpointing that a layout may take, the fastest first: the job's own beside the common ones.
func modes(in estimator.Input, tool string) []*estimator.Checkpointing {
	out := []*estimator.Checkpointing{{Mode: "none"}}
	if tool == "torchtitan" {
		out = append(out, &estimator.Checkpointing{Mode: "selective-op"})
	}
	own := in.Job.Training.GradientCheckpointing
	if own != nil && own.Mode != "" && (own.Mode == "selective" || own.Offload || own.Every > 1 ||
		own.Reentrant != nil) {
		out = append(out, own)
	}
	return append(out, &estimator.Checkpointing{Mode: "full"})
}
