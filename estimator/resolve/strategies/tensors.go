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
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// tensorParallel is a job whose GPUs share the matrices of every layer, by DTensor.
type tensorParallel struct {
	// within is the strategy of the GPUs that hold the same part; nil where there is one such GPU.
	within resolved.ManyGPUs
	r      *resolved.Job
	gpus   int64
	whole  bool // logits
	staged bool // by a pipeline
	// widened says that the job asked for half precision, which torchtitan does not compute in without FSDP.
	widened bool
}

// tensorFits reads training.distributed.tensor_parallel with the fields that go with it: what is not modelled is
// refused.
func (r Spreader) tensorFits(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, n := t.Distributed, t.Mesh().Tensor
	if n == 1 {
		if d.SequenceParallel {
			errs.Add(pointer+"sequence_parallel", "conflict",
				"sequence_parallel deals tokens out to GPUs that share layers, and tensor_parallel is 1 or not given")
		}
		return
	}
	if r.planned() {
		r.planFits(t, errs)
		return
	}
	if rewritten.Megatron(&r.Arch) {
		return
	}
	if !rewritten.Titan(&r.Arch) {
		errs.Add(pointer+"tensor_parallel", "unsupported", "tensor parallelism is replayed for %s, for "+
			"transformers' tp_plan (framework pytorch) of Llama, Mistral, Qwen2 and 3, Gemma, Granite, Cohere, OLMo and "+
			"SmolLM3, and for dense decoders of Megatron-LM (framework megatron); of other frameworks and models it is not modelled yet", titanModels)
		return
	}
	if d.Data == "ddp" && t.Mesh().Data > 1 || t.ZeROStage() > 0 {
		errs.Add(pointer+"data", "unsupported", "torchtitan shares layers with fsdp or with nothing "+
			"besides, and data is %s", d.Data)
	}
	a := &r.Arch
	for _, x := range []struct {
		what  string
		value int64
	}{{"the number of heads", a.Heads}, {"the number of key and value heads", a.KVHeads},
		{"the width of the MLP", a.FFN}, {"the vocabulary", a.Vocabulary}, {"sequence_length", r.Shape.Tokens}} {
		if x.value%n != 0 {
			errs.Add(pointer+"tensor_parallel", "not_divisible",
				"tensor_parallel is %d, and %s, %d, is no multiple of it; uneven parts are not modelled", n, x.what,
				x.value)
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
			"an evaluation pass together with tensor parallelism is not modelled yet; " +
				"leave one of them out"},
		{!r.Optimizer.Sharded, "optimizer/name", "this optimizer together with tensor parallelism is not " +
			"modelled; adamw is"},
		{r.Criterion.Kind != step.LossStandard, "loss", "a loss other than standard together with tensor " +
			"parallelism is not modelled"},
		{r.Numerics.GradScaler, "precision", "amp-fp16 together with tensor parallelism is not modelled; amp-bf16, " +
			"bf16 and fp32 are"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
}

// cut puts tensor parallelism around the strategy that the job has besides.
func (r Spreader) cut(t *job.Training) {
	n := t.Mesh().Tensor
	if n == 1 {
		return
	}
	if r.planned() {
		r.cutByPlan(n)
		return
	}
	if !rewritten.Titan(&r.Arch) {
		return
	}
	rewritten.CutTensor(&r.Arch, n)
	whole := t.Loss != nil && t.Loss.VocabParallel != nil && !*t.Loss.VocabParallel
	r.Parallel = &tensorParallel{within: r.Parallel, r: r.Job, gpus: n, whole: whole, staged: t.Mesh().Pipeline > 1,
		widened: r.Widened}
}

// Strategy is what package step/parallel replays.
func (p *tensorParallel) Strategy() step.Strategy {
	return parallel.DTensor{Strategy: within(p.within), GPUs: p.gpus, WholeLogits: p.whole, Later: p.staged}
}

// WideWithoutFSDP are the words of a job in which torchtitan computes: without FSDP it leaves mixed precision alone
// where GPUs share layers or layers are dealt out to stages, and everything is computed in the type in which weights
// are stored. Source: torchtitan/distributed/utils.py (maybe_enable_amp), 0.2.0.
func (r Spreader) WideWithoutFSDP(t *job.Training) job.Training {
	m := t.Mesh()
	if r.By.WritesLlama == frameworks.No || m.Tensor*m.Pipeline == 1 || t.Shards() {
		return *t
	}
	wide := *t
	stored := job.PrecisionFP32
	if t.States != nil && t.States.Weights == "bf16" || t.States == nil && t.Precision == job.PrecisionBF16 {
		stored = job.PrecisionBF16
	}
	r.Widened = stored == job.PrecisionFP32 && t.Precision != job.PrecisionFP32 && t.Precision != job.PrecisionTF32
	wide.Precision = stored
	return wide
}

// How says where a component's bytes come from.
func (p *tensorParallel) How(name, parameters string, run *resolved.Replayed) (how string, ok bool) {
	if p.within != nil {
		if how, ok = p.within.How(name, parameters, run); ok && name != "communication" {
			return fmt.Sprintf("of the part that one of %s GPUs has of every layer: %s", result.Grouped(p.gpus), how), true
		}
	}
	switch name {
	case "weights", "gradients", "optimizer_state":
		return "", false
	case "communication":
		return fmt.Sprintf("buffers of collectives between the %s GPUs that share layers, and %s for NCCL outside "+
			"PyTorch's allocator", result.Grouped(p.gpus), result.Bytes(p.r.Nccl.Bytes)), true
	}
	return "", false
}

// Notes say what the job was taken to be.
func (p *tensorParallel) Notes() []result.Note {
	loss := "the loss is computed on the part of the vocabulary that each has (loss parallel)"
	if p.whole {
		loss = "all logits are gathered for the loss"
	}
	notes := []result.Note{{Code: "tensor-parallel", Text: fmt.Sprintf("%d GPUs share the matrices of every layer, the "+
		"embedding and the head (DTensor, as torchtitan does): tokens are dealt out between the blocks and gathered "+
		"before them, and %s", p.gpus, loss)}}
	if p.widened {
		notes = append(notes, result.Note{Code: "no-mixed-precision",
			Text: "torchtitan leaves mixed precision alone where GPUs share layers without FSDP, so everything is " +
				"computed in float32; more GPUs with data fsdp compute in half precision"})
	}
	if p.within != nil {
		notes = append(notes, p.within.Notes()...)
	}
	return notes
}

// Doubts widen the bounds.
func (p *tensorParallel) Doubts() []doubt.Doubt {
	if p.within != nil {
		return p.within.Doubts()
	}
	return []doubt.Doubt{doubt.Sharded}
}

// MicroStep is the micro-step that the m-th of the ledger stands for.
func (p *tensorParallel) MicroStep(m int64) int64 {
	if p.within != nil {
		return p.within.MicroStep(m)
	}
	return m
}
