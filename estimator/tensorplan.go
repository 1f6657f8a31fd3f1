package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// tensorPlan is a job whose GPUs share the matrices of every layer by the plan that a model of transformers has:
// from_pretrained(tp_plan="auto") and a loop of one's own.
type tensorPlan struct {
	// within is the strategy that the job has besides; nil for none.
	within manyGPUs
	r      *resolved
	gpus   int64
}

// planned says that tensor parallelism is that of transformers' tp_plan.
func (r *resolved) planned() bool {
	return r.by.plansTensors == yes && r.arch.Planned()
}

// planFits reads training.distributed.tensor_parallel of such a job: what is not modelled is refused.
func (r *work) planFits(t *Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m, a := t.Distributed, t.Mesh(), &r.arch
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
		{r.compilation.Compiles(), "compile",
			"torch.compile together with tensor parallelism is not modelled yet; leave one of them out"},
		{r.recompute.selects(), "gradient_checkpointing",
			"selective checkpointing together with tensor parallelism is not modelled yet; none and full are"},
		{r.updatesInBackward, "optimizer/in_backward",
			"an optimizer in backward together with tensor parallelism is not modelled; leave one of them out"},
		{r.evaluation != nil, "evaluation",
			"an evaluation pass together with tensor parallelism is not modelled yet; leave one of them out"},
		{r.optimizer.Name != DefaultOptimizer, "optimizer/name", "this optimizer together with " +
			"tensor parallelism is not modelled; adamw is"},
		{r.criterion.Kind != step.LossStandard || t.Loss != nil && t.Loss.VocabParallel != nil &&
			*t.Loss.VocabParallel, "loss", "a loss other than standard, over the whole vocabulary, together with " +
			"transformers' tp_plan is not modelled"},
		{t.Objective != nil, "objective", "objectives together with tensor parallelism are not modelled yet"},
		{r.numerics.Autocast || r.numerics.GradScaler, "precision", "autocast together with transformers' tp_plan is not " +
			"modelled yet; bf16, fp16 and fp32 are"},
		{r.attention() == step.AttentionEager, "attention", "eager attention together with transformers' tp_plan " +
			"is not modelled; sdpa is"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
}

// cutByPlan puts it in place.
func (r *resolved) cutByPlan(n int64) {
	r.arch.CutPlan(n)
	r.parallel = &tensorPlan{r.parallel, r, n}
}

// strategy is what there is besides: what the layers do that GPUs share is their own.
func (p *tensorPlan) strategy() step.Strategy {
	if p.within == nil {
		return nil
	}
	return p.within.strategy()
}

// how says where a component's bytes come from.
func (p *tensorPlan) how(name, _ string, _ *run) (how string, ok bool) {
	if name != "communication" {
		return "", false
	}
	return fmt.Sprintf("%s for NCCL outside PyTorch's allocator", Bytes(p.r.nccl.Bytes)), true
}

// notes say what the job was taken to be.
func (p *tensorPlan) notes() []Note {
	text := "%d GPUs share the projections of attention and MLP by transformers' tp_plan; the embedding, the norms, the " +
		"head and the logits are whole on each"
	if p.sharesVocabulary() {
		text += ", though from transformers 5 on they share the embedding and the head, too, and gather the logits: the bounds are " +
			"wider"
	}
	return []Note{{Code: "tensor-parallel", Text: fmt.Sprintf(text, p.gpus)}}
}

// sharesVocabulary says that the plan deals out the embedding and the head, which is replayed of no release.
// Source: transformers/models/llama/modeling_llama.py (_tp_plan), 4.57.6, 5.0.0 and 5.23.0;
// distributed/tensor_parallel.py (apply_tensor_parallelism), 5.23.0.
func (p *tensorPlan) sharesVocabulary() bool {
	return !p.r.releaseOf("transformers", p.r.defaults()).Before(release.Version{Major: 5})
}

func (p *tensorPlan) doubts() []doubt.Doubt {
	if p.sharesVocabulary() {
		return []doubt.Doubt{doubt.Sharded, doubt.VocabularyPlan}
	}
	return []doubt.Doubt{doubt.Sharded}
}

// microStep is itself.
func (p *tensorPlan) microStep(m int64) int64 { return m }
