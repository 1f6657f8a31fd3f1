package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// expertParallel is a job whose GPUs share the experts of every layer, as torchtitan deals them out: rows go to the GPU
// that has their expert and come back.
type expertParallel struct {
	// within deals out what is not an expert, and the experts over the GPUs that have the same.
	within resolved.ManyGPUs
	r      *resolved.Job
	gpus   int64
	// same is how many GPUs have the same experts.
	same int64
}

// titanModels are the models that are replayed as torchtitan writes them, in words.
const titanModels = "torchtitan (framework torchtitan) and models of the families llama, and with data fsdp, in a half " +
	"precision, checkpointed in full or not at all and without compile qwen3, qwen3_moe, deepseek_v2 and deepseek_v3, " +
	"each without biases, dropout, tied embeddings and adapters"

// WriteAsTitan makes the model one of torchtitan's where its loop trains it. Of mixtures, and of Qwen3, what
// fully_shard computes in half precision has been seen, without what needs a graph of its own.
func (r Spreader) WriteAsTitan(t *job.Training) {
	if r.By.WritesLlama != frameworks.Yes || t.LoRA != nil {
		return
	}
	c := t.GradientCheckpointing
	fits := t.Shards() && t.Distributed.FSDPVersion != 1 && r.Numerics.Compute.Half() && t.Compile == nil &&
		(c == nil || c.Mode == "" || c.Mode == "none" || c.Mode == "full")
	tied := r.Arch.Tied
	rewritten.WriteAsTitan(&r.Arch, r.Shape.Tokens, fits)
	r.Unties = tied && !r.Arch.Tied
	r.OwnModules = r.OwnModules && !rewritten.Titan(&r.Arch)
}

// expertsFit reads training.distributed.expert_parallel: what is not modelled is refused.
func (r Spreader) expertsFit(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/expert_parallel"
	d, m, a := t.Distributed, t.Mesh(), &r.Arch
	n, count, share := d.ExpertParallel, a.RoutedExperts(), m.Shard*m.Tensor
	switch {
	case n <= 1:
	case count == 0 && a.Family != "":
		errs.Add(pointer, "conflict", "expert_parallel deals experts out to GPUs, and %s has none; leave the field out",
			a.Family)
	case !rewritten.Titan(a) || rewritten.TitanLlama(a):
		errs.Add(pointer, "unsupported", "GPUs that share experts are replayed for torchtitan (framework torchtitan, data "+
			"fsdp, a half precision) with Qwen3's and DeepSeek V3's mixtures, checkpointed in full or not at all, without "+
			"compile; DeepSpeed's and Megatron-LM's are not modelled yet")
	case count%n != 0:
		errs.Add(pointer, "not_divisible", "expert_parallel is %d, and a layer has %d experts, which is no multiple of it",
			n, count)
	case share%n != 0:
		errs.Add(pointer, "not_divisible", "expert_parallel is %d, and %d GPUs share one copy, which is no multiple of it: "+
			"torchtitan takes the GPUs for experts from those of fully_shard and those that share layers", n, share)
	case n%(m.Context*m.Tensor) != 0:
		errs.Add(pointer, "not_divisible", "expert_parallel is %d, and torchtitan takes a multiple of the %d GPUs that share "+
			"sequences (context_parallel) and layers (tensor_parallel), whose tokens are dealt out for the experts (its "+
			"expert_tensor_parallel_degree is taken to be 1, as it is where nothing is said)", n, m.Context*m.Tensor)
	case r.byColumns(t) && (a.Hidden%(share/n) != 0 || a.ExpertWidth()%(share/n) != 0):
		errs.Add(pointer, "not_divisible", "over more GPUs than there are experts (%d and %d) torchtitan deals an expert's "+
			"matrices out by columns, and the width of the model or of an expert, %d and %d, is no multiple of the %d GPUs "+
			"that have the same experts", m.Data*m.Context*m.Tensor, count, a.Hidden, a.ExpertWidth(), share/n)
	}
}

// byColumns says whether the GPUs that have the same experts deal their matrices out by the second dimension, as they
// do where there are more GPUs in all copies together than experts.
// Source: torchtitan/models/llama4/infra/parallelize.py (apply_fsdp, _experts_shard_placement_fn), 0.2.0.
func (r Spreader) byColumns(t *job.Training) bool {
	m := t.Mesh()
	return t.Distributed.ExpertParallel > 1 && m.Data*m.Context*m.Tensor > r.Arch.RoutedExperts()
}

// dealExperts deals the experts out, inside what fully_shard does.
func (r Spreader) dealExperts(t *job.Training) {
	n := t.Distributed.ExpertParallel
	if !rewritten.Titan(&r.Arch) || rewritten.TitanLlama(&r.Arch) || r.Fsdp == nil || r.Parallel == nil || n <= 1 {
		return
	}
	rewritten.CutExperts(&r.Arch, n)
	r.Exchanges = true
	r.Fsdp.InnerWorld = max(r.Fsdp.World*t.Mesh().Tensor/n, 1)
	r.Fsdp.InnerColumns = r.byColumns(t)
	r.Parallel = &expertParallel{within: r.Parallel, r: r.Job, gpus: n, same: r.Fsdp.InnerWorld}
}

// How says where a component's bytes come from.
func (p *expertParallel) How(name, parameters string, run *resolved.Replayed) (how string, ok bool) {
	how, ok = p.within.How(name, parameters, run)
	if ok && name == "weights" {
		how = fmt.Sprintf("of every layer's experts one of %s parts: %s", result.Grouped(p.gpus), how)
	}
	return how, ok
}

// Notes say what the job was taken to be.
func (p *expertParallel) Notes() []result.Note {
	same := "one GPU alone has each of them"
	if p.same > 1 {
		same = fmt.Sprintf("%d GPUs deal the same ones out among them (FSDP2)", p.same)
	}
	text := fmt.Sprintf("%d GPUs share the experts of every layer, and %s; every token's rows go to the GPUs of its "+
		"experts and come back (all-to-all), as many to each GPU, so that the first and the last hold the same; the "+
		"products of the experts are grouped, which takes a card of compute capability 9.0 or higher", p.gpus, same)
	return append([]result.Note{{Code: "expert-parallel", Text: text}}, p.within.Notes()...)
}

// Strategy is what package step/parallel replays.
func (p *expertParallel) Strategy() step.Strategy { return p.within.Strategy() }

// Doubts widen the bounds.
func (p *expertParallel) Doubts() []doubt.Doubt { return p.within.Doubts() }

// MicroStep is the micro-step that the m-th of the ledger stands for.
func (p *expertParallel) MicroStep(m int64) int64 { return p.within.MicroStep(m) }

// elsewhere is what a job does whose experts cannot get adapters.
const elsewhere = "; name target_modules without those that mean the experts (q_proj, k_proj, v_proj, o_proj)"

// expertAdaptersFit refuses adapters on a mixture's tensors where every module gathers its own parameters: the wrapper
// reads the adapters' weights outside of their modules. FSDP2 gathers a layer at once, ZeRO-1, ZeRO-2 and ddp leave
// parameters whole. Source: peft/tuners/lora/layer.py (ParamWrapper.get_delta_factors), 0.21.
func (r Spreader) expertAdaptersFit(t *job.Training, errs *invalid.List) {
	d, l := t.Distributed, r.Arch.LoRA
	if d == nil || l == nil || !l.Folded() {
		return
	}
	if t.ZeROStage() == 3 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture under zero3 are not modelled; ddp, zero1, zero2 and FSDP2 are"+elsewhere)
	}
	if max(d.TensorParallel, d.PipelineParallel, d.ContextParallel, d.ExpertParallel) > 1 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture are not modelled together with tensor, pipeline, context or expert "+
				"parallelism"+elsewhere)
	}
}
