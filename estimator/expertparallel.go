package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/memory"
)

// expertParallel is a job whose GPUs share the experts of every layer, as torchtitan deals them out: rows go to the GPU
// that has their expert and come back.
type expertParallel struct {
	// within deals out what is not an expert, and the experts over the GPUs that have the same.
	within manyGPUs
	r      *resolved
	gpus   int64
	// same is how many GPUs have the same experts.
	same int64
}

// routingDoubt: how many rows a GPU gets is data, which no trace has. Its upper width is a guess, and says so where it
// is shown: a GPU that gets r times its share holds r times the rows; the losses and corrections that balance experts
// keep r near 1, and nothing in torchtitan bounds it (no capacity: torchtitan/models/moe/moe.py, 0.2.0).
var routingDoubt = doubt{"routing", memory.Doubt{Below: 0.03, Above: 0.25},
	"rows are taken evenly divided among the experts; a GPU whose experts are chosen more often holds more, how much " +
		"is data, and the width is a guess: no measured routing stands behind it"}

// writeAsTitan makes the model one of torchtitan's where its loop trains it. Of mixtures, and of Qwen3, what
// fully_shard computes in half precision has been seen, without what needs a graph of its own.
func (r *resolved) writeAsTitan(t *Training) {
	if r.by.writesLlama != yes || t.LoRA != nil {
		return
	}
	d, m, c := t.Distributed, meshOf(t), t.GradientCheckpointing
	fits := shards(t) && d.FSDPVersion != 1 && r.recipe.Compute.Half() && m.tensor*m.context*m.pipeline == 1 &&
		t.Compile == nil && (c == nil || c.Mode == "" || c.Mode == "none" || c.Mode == "full")
	r.arch.WriteAsTitan(r.shape.Tokens, fits)
	r.ownModules = r.ownModules && !r.arch.Titan()
	r.recipe.RunsToEnd = r.arch.Titan() // activation_checkpoint.early_stop is false
}

// expertsFit reads training.distributed.expert_parallel: what is not modelled is refused.
func (r *resolved) expertsFit(t *Training, errs *invalid.List) {
	const pointer = "/training/distributed/expert_parallel"
	d, m, a := t.Distributed, meshOf(t), &r.arch
	n, count := d.ExpertParallel, a.RoutedExperts()
	switch {
	case n <= 1:
	case count == 0 && a.Family != "":
		errs.Add(pointer, "conflict", "expert_parallel deals experts out to GPUs, and %s has none; leave the field out",
			a.Family)
	case !a.Titan() || a.TitanLlama():
		errs.Add(pointer, "unsupported", "GPUs that share experts are replayed for torchtitan (framework torchtitan, data "+
			"fsdp, a half precision) with Qwen3's and DeepSeek V3's mixtures, checkpointed in full or not at all, without "+
			"compile and without GPUs that share layers, sequences or stages; DeepSpeed's and Megatron-LM's are not "+
			"modelled yet")
	case count%n != 0:
		errs.Add(pointer, "not_divisible", "expert_parallel is %d, and a layer has %d experts, which is no multiple of it",
			n, count)
	case m.shard%n != 0:
		errs.Add(pointer, "not_divisible", "expert_parallel is %d, and %d GPUs share one copy, which is no multiple of it: "+
			"torchtitan takes the GPUs for experts from those of fully_shard", n, m.shard)
	case r.byColumns(t) && (a.Hidden%(m.shard/n) != 0 || a.ExpertWidth()%(m.shard/n) != 0):
		errs.Add(pointer, "not_divisible", "over more GPUs than there are experts (%d and %d) torchtitan deals an expert's "+
			"matrices out by columns, and the width of the model or of an expert, %d and %d, is no multiple of the %d GPUs "+
			"that have the same experts", m.data*m.context, count, a.Hidden, a.ExpertWidth(), m.shard/n)
	}
}

// byColumns says whether the GPUs that have the same experts deal their matrices out by the second dimension, as they
// do where there are more GPUs in all copies together than experts.
// Source: torchtitan/models/llama4/infra/parallelize.py (apply_fsdp, _experts_shard_placement_fn), 0.2.0.
func (r *resolved) byColumns(t *Training) bool {
	m := meshOf(t)
	return t.Distributed.ExpertParallel > 1 && m.data*m.context > r.arch.RoutedExperts()
}

// dealExperts deals the experts out, inside what fully_shard does.
func (r *resolved) dealExperts(t *Training) {
	n := t.Distributed.ExpertParallel
	if !r.arch.Titan() || r.arch.TitanLlama() || r.fsdp == nil || r.parallel == nil || n <= 1 {
		return
	}
	r.arch.CutExperts(n)
	r.fsdp.InnerWorld = max(r.fsdp.World/n, 1)
	r.fsdp.InnerColumns = r.byColumns(t)
	r.recipe.Strategy = r.fsdp.strategy()
	r.parallel = &expertParallel{within: r.parallel, r: r, gpus: n, same: r.fsdp.InnerWorld}
}

// how says where a component's bytes come from.
func (p *expertParallel) how(name, parameters string, run *run) (how string, ok bool) {
	how, ok = p.within.how(name, parameters, run)
	if ok && name == "weights" {
		how = fmt.Sprintf("of every layer's experts one of %s parts: %s", grouped(p.gpus), how)
	}
	return how, ok
}

// notes say what the job was taken to be.
func (p *expertParallel) notes() []Note {
	same := "one GPU alone has each of them"
	if p.same > 1 {
		same = fmt.Sprintf("%d GPUs deal the same ones out among them (FSDP2)", p.same)
	}
	text := fmt.Sprintf("%d GPUs share the experts of every layer, and %s; every token's rows go to the GPUs of its "+
		"experts and come back (all-to-all), as many to each GPU, so that the first and the last hold the same; the "+
		"products of the experts are grouped, which takes a card of compute capability 9.0 or higher", p.gpus, same)
	return append([]Note{{Code: "expert-parallel", Text: text}}, p.within.notes()...)
}

func (p *expertParallel) doubts() []doubt { return append(p.within.doubts(), routingDoubt) }

func (p *expertParallel) microStep(m int64) int64 { return p.within.microStep(m) }
