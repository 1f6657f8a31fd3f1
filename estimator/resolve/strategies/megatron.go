package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// megatronLM is a job that Megatron-LM spreads over GPUs.
type megatronLM struct {
	r        *resolved.Job
	mesh     job.Mesh
	sequence bool
	parallel.Megatron
}

// WriteAsMegatron takes Megatron-LM's own layers where several GPUs share a job.
func (r Spreader) WriteAsMegatron(t *job.Training) {
	if d := t.Distributed; r.Framework == "megatron" && d != nil && d.WorldSize > 1 && t.LoRA == nil &&
		d.Data != "fsdp" && t.ZeROStage() <= 1 {
		rewritten.WriteAsMegatron(&r.Arch)
		r.OwnModules = r.OwnModules && !rewritten.Megatron(&r.Arch)
	}
}

// formerMegatron says that a job names a release of Megatron-LM before there was a buffer for all gradients.
func (r Spreader) formerMegatron() bool {
	const core = "2022"
	v := r.Given["megatron"]
	return len(v) > len(core) && v[0] == '2' && v[:len(core)] < core
}

// MegatronStates is what Megatron-LM does otherwise than a loop of PyTorch's: gradients always have a buffer, and the
// distributed optimizer has masters and moments of a part. copies says that gradients are copied for the masters, and
// plain that both masters and moments are in float32.
func (r Spreader) MegatronStates(t *job.Training, copies, plain bool, errs *invalid.List) *megatronLM {
	former := r.formerMegatron()
	m := &megatronLM{r: r.Job, mesh: t.Mesh(), sequence: t.Distributed.SequenceParallel}
	m.Megatron = parallel.Megatron{World: 1, Engine: !former, Former: former && copies}
	if t.ZeROStage() == 1 && m.mesh.Data*m.mesh.Context > 1 {
		m.World, m.Widens = m.mesh.Data*m.mesh.Context, copies && !former
		if !plain {
			errs.Add("/training/states", "unsupported", "Megatron-LM's distributed optimizer is modelled with masters "+
				"and moments in fp32 beside weights in half precision")
		}
	}
	r.Parallel = m
	return m
}

// Dealt says that the distributed optimizer has masters and moments of a part.
func (m *megatronLM) Dealt() bool { return m.World > 1 }

// Strategy is what package step/parallel replays.
func (m *megatronLM) Strategy() step.Strategy { return m.Megatron }

// megatronFits says what is not modelled.
func (r Spreader) megatronFits(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	m, a, d := t.Mesh(), &r.Arch, t.Distributed
	for _, x := range []struct {
		field, what string
		value, over int64
	}{
		{"tensor_parallel", "the number of heads", a.Heads, m.Tensor},
		{"tensor_parallel", "the width of the MLP", a.FFN, m.Tensor},
		{"context_parallel", "sequence_length", r.Shape.Tokens, m.Context},
	} {
		if x.value%x.over != 0 {
			errs.Add(pointer+x.field, "not_divisible", "%s, %d, is no multiple of %d", x.what, x.value, x.over)
		}
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.Compilation.Compiles(), "compile", "torch.compile of Megatron-LM's layers is not modelled; leave it out"},
		{r.UpdatesInBackward, "optimizer/in_backward", "an optimizer in backward is not Megatron-LM's"},
		{r.Recompute.Mode == resolved.SelectiveOps, "gradient_checkpointing", "Megatron-LM checkpoints layers or the core of attention: " +
			"full and selective are modelled"},
		{r.Evaluation != nil, "evaluation", "an evaluation pass of Megatron-LM over several GPUs is not modelled yet; " +
			"leave it out"},
		{r.Criterion.Kind != step.LossStandard && r.Criterion.Kind != step.LossFused, "loss", "with Megatron-LM " +
			"the losses standard and fused are modelled"},
		{!r.Optimizer.Sharded, "optimizer/name", "with Megatron-LM adam, adamw and sgd are modelled"},
		{m.Context > 1 && r.Attention() == step.AttentionEager, "attention", "sequences that GPUs share go " +
			"through fused attention; leave the field out"},
		{d.OffloadOptimizer || d.OffloadParameters, "distributed/offload_optimizer", "offloading of Megatron-LM's " +
			"states is not modelled"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
}

// megatronLM cuts the model for the GPU.
func (r Spreader) megatronLM(t *job.Training, errs *invalid.List) {
	r.megatronFits(t, errs)
	m := t.Mesh()
	rewritten.CutMegatron(&r.Arch, m.Tensor, t.Distributed.SequenceParallel)
	if m.Context > 1 {
		r.Sequence = r.Shape.Tokens
		r.Shape.Tokens /= m.Context
	}
}

// evenly deals layers out to stages.
func evenly(layers, stages int64) []int64 {
	all := make([]int64, stages)
	for i := range all {
		all[i] = layers / stages
	}
	return all
}

// How says where a component's bytes come from.
func (m *megatronLM) How(name, p string, _ *resolved.Replayed) (how string, ok bool) {
	switch name {
	case "optimizer_state":
		if m.World > 1 {
			return m.r.HowStates(fmt.Sprintf("%s parameters dealt out to %s GPUs: master weights of 4 B (fp32) and", p,
				result.Grouped(m.World)), step.F32), true
		}
	case "communication":
		return fmt.Sprintf("what GPUs that share layers send each other, and %s for NCCL outside PyTorch's allocator",
			result.Bytes(m.r.Nccl.Bytes)), true
	}
	return "", false
}

// Notes say what the job was taken to be.
func (m *megatronLM) Notes() []result.Note {
	text := fmt.Sprintf("Megatron-LM's own layers, as their sources allocate (0.14 with TransformerEngine; nothing of "+
		"it was traced): %s share every matrix", gpus(m.mesh.Tensor))
	if m.sequence && m.mesh.Tensor > 1 {
		text += " and the tokens between the blocks (sequence parallel)"
	}
	if m.World > 1 {
		text += fmt.Sprintf("; %s share masters and moments (distributed optimizer)", gpus(m.World))
	}
	if m.mesh.Context > 1 {
		text += fmt.Sprintf("; %s share each sequence, of which attention is counted as on one", gpus(m.mesh.Context))
	}
	return []result.Note{{Code: "megatron", Text: text}}
}

func gpus(n int64) string {
	if n == 1 {
		return "one GPU"
	}
	return result.Grouped(n) + " GPUs"
}

// Doubts widen the bounds.
func (m *megatronLM) Doubts() []doubt.Doubt { return []doubt.Doubt{doubt.Megatron} }

// MicroStep is the micro-step that the m-th of the ledger stands for.
func (m *megatronLM) MicroStep(i int64) int64 { return i }
