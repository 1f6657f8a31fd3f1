package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// megatronLM is a job that Megatron-LM spreads over GPUs.
type megatronLM struct {
	r        *resolved
	mesh     job.Mesh
	sequence bool
	parallel.Megatron
}

// writeAsMegatron takes Megatron-LM's own layers where several GPUs share a job.
func (r *resolved) writeAsMegatron(t *Training) {
	if d := t.Distributed; r.framework == "megatron" && d != nil && d.WorldSize > 1 && t.LoRA == nil &&
		d.Data != "fsdp" && t.ZeROStage() <= 1 {
		rewritten.WriteAsMegatron(&r.arch)
		r.ownModules = r.ownModules && !rewritten.Megatron(&r.arch)
	}
}

// formerMegatron says that a job names a release of Megatron-LM before there was a buffer for all gradients.
func (r *software) formerMegatron() bool {
	const core = "2022"
	v := r.given["megatron"]
	return len(v) > len(core) && v[0] == '2' && v[:len(core)] < core
}

// megatronStates is what Megatron-LM does otherwise than a loop of PyTorch's: gradients always have a buffer, and the
// distributed optimizer has masters and moments of a part. copies says that gradients are copied for the masters, and
// plain that both masters and moments are in float32.
func (r *resolved) megatronStates(t *Training, copies, plain bool, errs *invalid.List) *megatronLM {
	former := r.formerMegatron()
	m := &megatronLM{r: r, mesh: t.Mesh(), sequence: t.Distributed.SequenceParallel}
	m.Megatron = parallel.Megatron{World: 1, Engine: !former, Former: former && copies}
	if t.ZeROStage() == 1 && m.mesh.Data*m.mesh.Context > 1 {
		m.World, m.Widens = m.mesh.Data*m.mesh.Context, copies && !former
		if !plain {
			errs.Add("/training/states", "unsupported", "Megatron-LM's distributed optimizer is modelled with masters "+
				"and moments in fp32 beside weights in half precision")
		}
	}
	r.parallel = m
	return m
}

// dealt says that the distributed optimizer has masters and moments of a part.
func (m *megatronLM) dealt() bool { return m.World > 1 }

func (m *megatronLM) strategy() step.Strategy { return m.Megatron }

// megatronFits says what is not modelled.
func (r *work) megatronFits(t *Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	m, a, d := t.Mesh(), &r.arch, t.Distributed
	for _, x := range []struct {
		field, what string
		value, over int64
	}{
		{"tensor_parallel", "the number of heads", a.Heads, m.Tensor},
		{"tensor_parallel", "the width of the MLP", a.FFN, m.Tensor},
		{"context_parallel", "sequence_length", r.shape.Tokens, m.Context},
	} {
		if x.value%x.over != 0 {
			errs.Add(pointer+x.field, "not_divisible", "%s, %d, is no multiple of %d", x.what, x.value, x.over)
		}
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.compilation.Compiles(), "compile", "torch.compile of Megatron-LM's layers is not modelled; leave it out"},
		{r.updatesInBackward, "optimizer/in_backward", "an optimizer in backward is not Megatron-LM's"},
		{r.recompute.mode == selectiveOps, "gradient_checkpointing", "Megatron-LM checkpoints layers or the core of attention: " +
			"full and selective are modelled"},
		{r.evaluation != nil, "evaluation", "an evaluation pass of Megatron-LM over several GPUs is not modelled yet; " +
			"leave it out"},
		{r.criterion.Kind != step.LossStandard && r.criterion.Kind != step.LossFused, "loss", "with Megatron-LM " +
			"the losses standard and fused are modelled"},
		{!r.optimizer.Sharded, "optimizer/name", "with Megatron-LM adam, adamw and sgd are modelled"},
		{m.Context > 1 && r.attention() == step.AttentionEager, "attention", "sequences that GPUs share go " +
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
func (r *work) megatronLM(t *Training, errs *invalid.List) {
	r.megatronFits(t, errs)
	m := t.Mesh()
	rewritten.CutMegatron(&r.arch, m.Tensor, t.Distributed.SequenceParallel)
	if m.Context > 1 {
		r.sequence = r.shape.Tokens
		r.shape.Tokens /= m.Context
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

// how says where a component's bytes come from.
func (m *megatronLM) how(name, p string, _ *run) (how string, ok bool) {
	switch name {
	case "optimizer_state":
		if m.World > 1 {
			return m.r.howStates(fmt.Sprintf("%s parameters dealt out to %s GPUs: master weights of 4 B (fp32) and", p,
				result.Grouped(m.World)), step.F32), true
		}
	case "communication":
		return fmt.Sprintf("what GPUs that share layers send each other, and %s for NCCL outside PyTorch's allocator",
			Bytes(m.r.nccl.Bytes)), true
	}
	return "", false
}

// notes say what the job was taken to be.
func (m *megatronLM) notes() []Note {
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
	return []Note{{Code: "megatron", Text: text}}
}

func gpus(n int64) string {
	if n == 1 {
		return "one GPU"
	}
	return result.Grouped(n) + " GPUs"
}

func (m *megatronLM) doubts() []doubt.Doubt { return []doubt.Doubt{doubt.Megatron} }

func (m *megatronLM) microStep(i int64) int64 { return i }
