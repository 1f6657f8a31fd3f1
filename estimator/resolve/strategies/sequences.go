package strategies

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// contextParallel is a job whose GPUs share each sequence.
type contextParallel struct {
	resolved.ManyGPUs // of the parameters
	ring              step.Ring
	tokens            int64 // of a whole sequence
	table             int64 // bytes of what turns the heads of one
}

// rotations says which ways to bring keys and values to all GPUs hand them on from one to the next. torchtitan gathers
// them where nothing is said. Source: torchtitan/config/job_config.py (context_parallel_rotate_method), 0.2.0.
var rotations = map[string]bool{"": false, "allgather": false, "all-gather": false, "alltoall": true,
	"all-to-all": true, "ring": true}

// contextFits reads training.distributed.context_parallel with the fields that go with it: what is not modelled is
// refused.
func (r Spreader) contextFits(t *job.Training, errs *invalid.List) {
	const pointer = "/training/distributed/"
	d, m := t.Distributed, t.Mesh()
	if m.Context == 1 {
		return
	}
	if rewritten.Megatron(&r.Arch) {
		return
	}
	if rewritten.Titan(&r.Arch) && !rewritten.TitanShares(&r.Arch) {
		errs.Add(pointer+"context_parallel", "unsupported", "torchtitan 0.2.0 cannot share sequences of %s: its loop asks "+
			"the model for freqs_cis, which is rope_cache there, and the run ends (torchtitan/train.py, "+
			"forward_backward_step)", r.Arch.Family)
		return
	}
	if !rewritten.TitanShares(&r.Arch) {
		errs.Add(pointer+"context_parallel", "unsupported", "sequences that GPUs share are replayed for %s, and for dense decoders of "+
			"Megatron-LM (framework megatron); of other frameworks and models they are not modelled yet", titanModels)
		return
	}
	if d.Data != "fsdp" || d.FSDPVersion == 1 {
		errs.Add(pointer+"data", "unsupported", "torchtitan deals parameters out by fully_shard to GPUs that share "+
			"sequences, which is data fsdp with fsdp_version 2; data is %.20q and fsdp_version %d", d.Data,
			d.FSDPVersion)
	}
	if _, known := rotations[strings.ToLower(d.ContextParallelKind)]; !known {
		errs.Add(pointer+"context_parallel_kind", "unsupported",
			"context_parallel_kind is %.40q; allgather and alltoall are modelled", d.ContextParallelKind)
	}
	if pieces := 2 * m.Context * m.Tensor; r.Shape.Tokens%pieces != 0 {
		errs.Add("/training/sequence_length", "not_divisible", "sequence_length is %d, and torchtitan takes "+
			"multiples of %d: each of %d GPUs has two pieces of a sequence, and tensor_parallel is %d",
			r.Shape.Tokens, pieces, m.Context, m.Tensor)
	}
	if m.Context > mostRing {
		errs.Add(pointer+"context_parallel", "too_large", "context_parallel is %d; up to %d are replayed", m.Context,
			mostRing)
	}
	a := &r.Arch
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{!r.Numerics.Compute.Half() || !a.FlashTakesHeads() || a.Heads/m.Tensor < 2, "precision",
			"sequences that GPUs share are replayed with flash attention, and of DeepSeek's with the memory-efficient " +
				"kernel; both want half precision, several heads on a GPU, and heads of a multiple of 8 and up to 256 elements"},
		{r.Attention() != step.AttentionSDPA, "attention", "sequences that GPUs share go through torch's own " +
			"attention; sdpa is modelled"},
		{r.Compilation.Compiles(), "compile", "torch.compile where GPUs share sequences is not modelled yet; leave one of " +
			"them out"},
		{r.Recompute.Selects(), "gradient_checkpointing",
			"selective checkpointing where GPUs share sequences is not modelled yet; none and full are"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
}

// mostRing bounds what is recorded for the attention of a layer.
const mostRing = 256

// share gives this GPU its part of each sequence.
func (r Spreader) share(t *job.Training) {
	m := t.Mesh()
	if !rewritten.TitanShares(&r.Arch) || m.Context == 1 || r.Parallel == nil {
		return
	}
	rank := int64(0)
	if d := t.Distributed; d.Rank != nil {
		rank = *d.Rank / m.Tensor % m.Context
	}
	c := &contextParallel{ManyGPUs: r.Parallel, tokens: r.Shape.Tokens,
		table: r.Shape.Tokens * r.Arch.HeadDim * step.F32.Size(), ring: step.Ring{GPUs: m.Context, Rank: rank,
			Passes: rotations[strings.ToLower(t.Distributed.ContextParallelKind)]}}
	r.Sequence, r.Ring = r.Shape.Tokens, m.Context
	r.Shape.Tokens /= m.Context
	r.Parallel = c
}

// Strategy is what package step/parallel replays.
func (c *contextParallel) Strategy() step.Strategy {
	return parallel.Ring{Strategy: within(c.ManyGPUs), Ring: c.ring, Table: c.table}
}

// How says where a component's bytes come from.
func (c *contextParallel) How(name, parameters string, run *resolved.Replayed) (how string, ok bool) {
	how, ok = c.ManyGPUs.How(name, parameters, run)
	if ok && name == "communication" {
		return how + "; keys and values of all GPUs that share sequences, while attention runs", true
	}
	return how, ok
}

// Notes say what the job was taken to be.
func (c *contextParallel) Notes() []result.Note {
	way := "gathered from all of them"
	if c.ring.Passes {
		way = "handed on from one to the next"
	}
	return append([]result.Note{{Code: "context-parallel", Text: fmt.Sprintf("%d GPUs share each sequence, %s tokens on each, "+
		"a piece of its beginning and one of its end; keys and values are %s, and outputs merged in float32 (ring "+
		"attention of torch.distributed.tensor, as torchtitan does); the figures are those of GPU %d of them",
		c.ring.GPUs, result.Grouped(c.tokens/c.ring.GPUs), way, c.ring.Rank)}}, c.ManyGPUs.Notes()...)
}
