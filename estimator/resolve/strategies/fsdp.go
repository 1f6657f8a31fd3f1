package strategies

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// FSDP is a job that is dealt out by one of the two FSDPs.
type FSDP struct {
	r *resolved.Job
	*resolved.Shards
}

// Strategy is what package step/parallel replays.
func (f *FSDP) Strategy() step.Strategy {
	if f.Flat {
		return parallel.FSDP1{Sharding: f.Sharding, Prefetches: f.Prefetches, Syncs: f.r.By.Syncs == frameworks.Yes,
			KeepsReruns: f.KeepsReruns, Lasting: f.r.Adapted && f.r.Recompute.Every == 0}
	}
	return parallel.FSDP2{Sharding: f.Sharding}
}

// Doubts widen the bounds.
func (f *FSDP) Doubts() []doubt.Doubt {
	plain, checkpointed := f.r.By.Amp != frameworks.Halves, f.r.Recipe.CheckpointEvery > 0
	switch {
	case f.Flat && f.r.Adapted && plain && f.Offloaded:
		return []doubt.Doubt{doubt.Sharded, doubt.FlatAdapters, doubt.OffloadedAdapters}
	case f.Flat && f.r.Adapted && plain:
		return []doubt.Doubt{doubt.Sharded, doubt.FlatAdapters}
	case f.Flat && plain && checkpointed, f.Flat && f.r.Adapted && !checkpointed:
		return []doubt.Doubt{doubt.Sharded, doubt.Flat}
	}
	return []doubt.Doubt{doubt.Sharded}
}

// MicroStep is the micro-step that the m-th of the ledger stands for: the third that is walked is the last.
func (f *FSDP) MicroStep(m int64) int64 {
	if f.Unsynced && m == 2 {
		return f.r.Recipe.Accumulation - 1
	}
	return m
}

// ShardedStates is training.states for parameters that are dealt out: weights are what is stored, gradients what they
// are summed in, and precision says what they are gathered and computed with in.
func (r Spreader) ShardedStates(
	t *job.Training,
	asked fields.Precision,
	given job.States,
	errs *invalid.List,
) (gathered step.DType) {
	sh := &resolved.Shards{Unsaid: t.Distributed.FSDPVersion == 0}
	r.Fsdp = sh
	sh.Stored = asked.Stored
	if d, ok := fields.ReadState("weights", given.Weights, false, errs); ok {
		sh.Stored = d
	}
	sh.Beside = sh.Stored
	if sh.Stored.Half() && asked.Autocast && r.By.Widens == frameworks.Yes && r.widens(t) {
		sh.Stored, sh.Widened = step.F32, true
	}
	gathered, sh.Reduced = asked.Compute, sh.Stored
	switch {
	case asked.Autocast && r.By.Amp == frameworks.Policy: // fully_shard's own mixed precision, without autocast
		sh.Reduced = step.F32
	case asked.Autocast && r.By.Amp == frameworks.Halves:
		sh.Reduced, sh.Halved, sh.CastsOutputs = asked.Compute, true, true
	case asked.Autocast:
		gathered = sh.Stored
	}
	if d, ok := fields.ReadState("gradients", given.Gradients, false, errs); ok {
		sh.Reduced = d
	}
	if d, ok := fields.ReadState("master_weights", given.MasterWeights, true, errs); ok && d != sh.Stored {
		errs.Add("/training/states/master_weights", "unsupported",
			"FSDP keeps no master weights beside the stored ones; give their type as weights")
	}
	if d, ok := fields.ReadState("optimizer", given.Optimizer, false, errs); ok && d != sh.Stored {
		errs.Add("/training/states/optimizer", "unsupported",
			"under FSDP the optimizer's state has the type of the stored weights, %s", result.Dtype(sh.Stored))
	}
	sh.Frozen = sh.Stored
	if sh.Stored.Half() && gathered != sh.Stored || sh.Reduced.Size() < gathered.Size() && !sh.Reduced.Half() {
		errs.Add("/training/states", "unsupported", "weights stored in %s, computed with in %s and summed in %s "+
			"are not modelled", result.Dtype(sh.Stored), result.Dtype(gathered), result.Dtype(sh.Reduced))
	}
	return gathered
}

var widensShards = resolved.Of(func(r *resolved.Job) bool {
	return r.Fsdp != nil && r.Fsdp.Widened
}, release.Declare("widens-shards", release.Change{
	Library: "accelerate", After: "0.29", From: "0.30",
	What: "accelerate from 0.30 brings trained parameters to float32 under FSDP with mixed precision, in " +
		"whichever type the model was loaded",
	Source: "accelerate/accelerator.py (prepare_model), 0.29.0, 0.30.0 and 1.15.0; " +
		"utils/fsdp_utils.py (fsdp2_prepare_model), 1.6.0, 1.12.0, 1.14.0 and 1.15.0",
	Shown: "traced ranks of transformers' Trainer whose model was loaded in bfloat16",
}))

var losesWideShards = resolved.Of(func(r *resolved.Job) bool {
	return r.Fsdp != nil && !r.Fsdp.Flat && r.Fsdp.Stored.Half() && r.Numerics.Stored.Half() &&
		r.By.Widens == frameworks.Yes
}, release.Declare("loses-wide-shards", release.Change{
	Library: "accelerate", After: "1.12", From: "1.13", To: "1.14",
	What: "accelerate 1.13 brings parameters to float32 under FSDP2 and drops the result: they stay in the type " +
		"in which they were loaded",
	Source: "accelerate/utils/fsdp_utils.py (fsdp2_prepare_model, param = param.to(torch.float32)), 1.12.0, " +
		"1.13.0 and 1.14.0",
	Shown: "none, from the source",
}))

// widens says whether the job's release of accelerate brings trained parameters to float32 under mixed precision.
func (r Spreader) widens(t *job.Training) bool {
	return r.Holds(widensShards) && (r.FlatShards(t) || !r.Holds(losesWideShards))
}

var dealsByFSDP2 = resolved.Of(func(r *resolved.Job) bool {
	return r.Fsdp != nil && r.Fsdp.Unsaid && r.By.Flat == frameworks.Formerly
}, release.Declare("deals-by-fsdp2", release.Change{
	Library: "transformers", After: "5.9", From: "5.10",
	What: "the Trainer's own arguments (fsdp, fsdp_config) mean FSDP2 where they do not name a version; accelerate's " +
		"file and its launcher still mean FSDP1",
	Source: "training_args.py (_process_fsdp_args), 5.9.0, 5.10.1 and 5.23.0; accelerate/utils/dataclasses.py " +
		"(FullyShardedDataParallelPlugin), 1.15.0",
	Shown: "ranks in the Trainer itself without a version",
}))

// FlatShards says whether it is FSDP1 that deals parameters out.
func (r Spreader) FlatShards(t *job.Training) bool {
	if v := t.Distributed.FSDPVersion; v != 0 {
		return v == 1
	}
	return r.By.Flat == frameworks.Yes || r.By.Flat == frameworks.Formerly && !r.Holds(dealsByFSDP2)
}

// CompilesBlocks says whether torch.compile is called on every layer, as torchtitan does before it shards them.
// Inductor's programs were seen with flash attention alone, which takes heads of some widths in half precision.
// Source: torchtitan/models/llama3/infra/parallelize.py (apply_compile), 0.2.0.
func (r Spreader) CompilesBlocks(t *job.Training) bool {
	sharded := rewritten.TitanLlama(&r.Arch) && t.Distributed != nil && t.Distributed.Data == "fsdp"
	return (sharded || rewritten.Torchtune(&r.Arch)) && r.Numerics.Compute.Half() &&
		r.Attention() != step.AttentionEager && r.Arch.FlashTakesHeads()
}

var carvesSections = resolved.Of(func(r *resolved.Job) bool {
	return r.Fsdp != nil && r.Fsdp.Apart && !r.Fsdp.Meta
}, release.Declare("carves-sections", release.Change{
	Library: "accelerate", After: "1.13", From: "1.14",
	What: "accelerate from 1.14 deals out embedding, and last norm and head, as units of their own under " +
		"FSDP2: layers are asked for again after the gradient of the logits",
	Source: "accelerate/utils/fsdp_utils.py (fsdp2_prepare_model), 1.13.0, 1.14.0 and 1.15.0",
	Shown:  "traced ranks of transformers' Trainer",
}))

var checkpointsWrappers = resolved.Of(func(r *resolved.Job) bool {
	return r.Fsdp != nil && r.Fsdp.KeepsReruns
}, release.Declare("checkpoints-wrappers", release.Change{
	Library: "transformers", To: "4.53",
	What: "models of transformers before 4.53 (Llama's before 4.52) run FSDP1's wrapper of a layer again " +
		"where they checkpoint it: of a layer whose parameters are " +
		"frozen, it holds the input and its gradient until backward ends",
	Source: "transformers/modeling_layers.py (GradientCheckpointingLayer), 4.51 and 4.53; " +
		"torch/distributed/fsdp/_runtime_utils.py " +
		"(_register_post_backward_reshard_only_hook), 2.9",
	Shown: "a trace of Llama with adapters, published runs",
}))

// sharded is training.distributed with data fsdp: fully_shard on every layer and on the model.
func (r Spreader) sharded(t *job.Training, errs *invalid.List) {
	d, sh := t.Distributed, r.Fsdp
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{r.Arch.Undealt() != "", "distributed/data", r.Arch.Undealt()},
		{r.Compilation.Compile || r.Compilation.CompileLoss && !rewritten.TitanLlama(&r.Arch), "compile",
			"torch.compile under FSDP is modelled for torchtitan's Llama in half precision, block by block, as it was " +
				"seen with flash attention and torch 2.9.1; leave one of them out"},
		{r.UpdatesInBackward, "optimizer/in_backward", "an optimizer in backward under FSDP is not modelled; " +
			"leave one of them out"},
		{!r.Optimizer.Sharded, "optimizer/name", "under FSDP " +
			fields.Enumeration(fields.OptimizerNames(func(o *optim.Optimizer) bool {
				return o.Sharded
			})) + " are modelled"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	m := t.Mesh()
	sh.World = m.Shard
	if g := d.ShardGroup; g > 0 {
		switch {
		case m.World == m.Data && m.Data%g != 0:
			errs.Add("/training/distributed/shard_group", "not_divisible",
				"shard_group is %d, and world_size %d is no multiple of it", g, d.WorldSize)
		case m.Data%g != 0:
			errs.Add("/training/distributed/shard_group", "not_divisible",
				"shard_group is %d, and the %d GPUs that train on different data are no multiple of it", g, m.Data)
		}
		sh.Groups = max(m.Data/g, 1)
	}
	if r.FlatShards(t) {
		sh.Flat, sh.CastsOutputs = true, false
		sh.Prefetches = r.By.Amp != frameworks.Halves
		if l := d.LimitAllGathers; l != nil && !*l {
			errs.Add("/training/distributed/limit_all_gathers", "unsupported",
				"without the limit the processor may run ahead and gather any number of layers, which is not "+
					"modelled; leave the field out")
		}
	}
	whole := r.By.Whole == frameworks.Yes
	if d.NoSync != nil {
		whole = *d.NoSync
	}
	sh.Unsynced = whole && r.MicroSteps > 1
	if k := d.ReshardAfterForward; k != nil {
		sh.KeepsLayers, sh.KeepsRoot = !*k, !*k
		if r.By.Amp == frameworks.Halves {
			sh.KeepsRoot = true
		}
	} else {
		sh.KeepsRoot = true
	}
	if m.Pipeline > 1 {
		sh.Staged, sh.KeepsLayers, sh.KeepsRoot, sh.Unsynced = true, true, true, false
	}
	sh.Meta = rewritten.Titan(&r.Arch)
	sh.Apart = sh.Meta || !sh.Flat && r.By.Amp == frameworks.Halves && r.Criterion.Kind != step.LossFusedLinear &&
		r.Holds(carvesSections)
	sh.Offloaded = d.OffloadParameters
	r.offloadFits(t, errs)
	r.shardedAdapters(t, errs)
	sh.KeepsReruns = sh.Flat && r.Adapted && r.Recompute.Reentrant && r.Recompute.Every > 0 &&
		r.By.CallsCheckpoints == frameworks.Yes && r.Holds(checkpointsWrappers)
	r.Parallel = &FSDP{r: r.Job, Shards: sh}
}
