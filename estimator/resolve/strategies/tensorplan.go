package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// tensorPlan is a job whose GPUs share the matrices of every layer by the plan that a model of transformers has:
// from_pretrained(tp_plan="auto") and a loop of one's own.
type tensorPlan struct {
	// within is the strategy that the job has besides; nil for none.
	within resolved.ManyGPUs
	r      *resolved.Job
	gpus   int64
}

// planned says that tensor parallelism is that of transformers' tp_plan.
func (r Spreader) planned() bool {
	return r.By.PlansTensors == frameworks.Yes && r.Arch.Planned()
}

// planFits reads training.distributed.tensor_parallel of such a job: what is not modelled is refused.
func (r Spreader) planFits(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m, a := t.Distributed, t.Mesh(), &r.Arch
	if m.World != m.Tensor {
		errs.Add(pointer+"tensor_parallel", "unsupported", "transformers' tp_plan is replayed with all GPUs sharing the "+
			"layers: tensor_parallel is %d and world_size %d", m.Tensor, m.World)
	}
	if d.SequenceParallel {
		errs.Add(pointer+"sequence_parallel", "unsupported", "transformers' tp_plan leaves all tokens on every GPU; "+
			"dealing them out is modelled for torchtitan")
	}
	for _, x := range []struct {
		what  string
		value int64
	}{{"the number of heads", a.Heads}, {"the number of key and value heads", a.KVHeads},
		{"the width of the MLP", a.FFN}} {
		if x.value%m.Tensor != 0 {
			errs.Add(pointer+"tensor_parallel", "not_divisible",
				"tensor_parallel is %d, and %s, %d, is no multiple of it; uneven parts are not modelled", m.Tensor,
				x.what, x.value)
		}
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.Compilation.Compiles(), "compile",
			"torch.compile together with tensor parallelism is not modelled yet; leave one of them out"},
		{r.Recompute.Selects(), "gradient_checkpointing",
			"selective checkpointing together with tensor parallelism is not modelled yet; none and full are"},
		{r.UpdatesInBackward, "optimizer/in_backward",
			"an optimizer in backward together with tensor parallelism is not modelled; leave one of them out"},
		{r.Evaluation != nil, "evaluation",
			"an evaluation pass together with tensor parallelism is not modelled yet; leave one of them out"},
		{r.Optimizer.Name != fields.DefaultOptimizer, "optimizer/name", "this optimizer together with " +
			"tensor parallelism is not modelled; adamw is"},
		{r.Criterion.Kind != step.LossStandard || t.Loss != nil && t.Loss.VocabParallel != nil &&
			*t.Loss.VocabParallel, "loss", "a loss other than standard, over the whole vocabulary, together with " +
			"transformers' tp_plan is not modelled"},
		{t.Objective != nil, "objective", "objectives together with tensor parallelism are not modelled yet"},
		{r.Numerics.Autocast || r.Numerics.GradScaler, "precision", "autocast together with transformers' tp_plan is not " +
			"modelled yet; bf16, fp16 and fp32 are"},
		{r.Attention() == step.AttentionEager, "attention", "eager attention together with transformers' tp_plan " +
			"is not modelled; sdpa is"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
}

// cutByPlan puts it in place.
func (r Spreader) cutByPlan(n int64) {
	r.Arch.CutPlan(n)
	r.Parallel = &tensorPlan{r.Parallel, r.Job, n}
}

// Strategy is what there is besides: what the layers do that GPUs share is their own.
func (p *tensorPlan) Strategy() step.Strategy {
	switch a := &p.r.Arch; {
	case p.within != nil:
		return p.within.Strategy()
	case a.SharesVocabulary() && !a.Tied:
		return parallel.Rows{All: a.Vocabulary * a.Hidden}
	}
	return nil
}

// How says where a component's bytes come from.
func (p *tensorPlan) How(name, _ string, _ *resolved.Replayed) (how string, ok bool) {
	if name != "communication" {
		return "", false
	}
	return fmt.Sprintf("%s for NCCL outside PyTorch's allocator", result.Bytes(p.r.Nccl.Bytes)), true
}

// Notes say what the job was taken to be.
func (p *tensorPlan) Notes() []result.Note {
	text := "%d GPUs share the projections of attention and MLP by transformers' tp_plan; "
	switch {
	case p.r.Arch.SharesVocabulary():
		text += "they share the rows of the embedding and the head, too, and each gathers all logits"
	case p.unshown():
		text += "the embedding, the norms, the head and the logits are taken as whole on each, though from transformers 5 on the " +
			"GPUs share the head, too, and gather the logits: the bounds are wider"
	default:
		text += "the embedding, the norms, the head and the logits are whole on each"
	}
	return []result.Note{{Code: "tensor-parallel", Text: fmt.Sprintf(text, p.gpus)}}
}

// unshown says that the plan deals out more than is replayed: the head in releases between two that are, and an
// embedding that scales itself. Source: transformers/models/llama/modeling_llama.py (_tp_plan), 4.57.6, 5.0.0 and
// 5.23.0; models/gemma3/modeling_gemma3.py (Gemma3TextScaledWordEmbedding), 5.23.0.
func (p *tensorPlan) unshown() bool {
	return !p.r.Arch.SharesVocabulary() &&
		!p.r.ReleaseOf("transformers", p.r.Defaults()).Before(release.Version{Major: 5})
}

// Doubts widen the bounds.
func (p *tensorPlan) Doubts() []doubt.Doubt {
	if p.unshown() {
		return []doubt.Doubt{doubt.Sharded, doubt.VocabularyPlan}
	}
	return []doubt.Doubt{doubt.Sharded}
}

// MicroStep is itself.
func (p *tensorPlan) MicroStep(m int64) int64 { return m }
