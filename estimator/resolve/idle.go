package resolve

import (
	"fmt"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// idleFields notes what the job asks for and what changes nothing, with the reason: no field is passed over in silence.
func (r resolver) idleFields(t *job.Training) {
	rc := &r.Recipe
	for _, x := range []struct {
		idle bool
		text string
	}{
		{t.Precision == job.PrecisionTF32, "precision tf32 changes how matrices are multiplied and not what is stored: " +
			"the figures are those of fp32"},
		{(t.Attention == "sdpa" || t.Attention == "flash") && r.Arch.EagerOnly, "attention " + t.Attention +
			": transformers has eager attention alone for " + r.Arch.Family + ", and the figures are its"},
		{t.Attention == "eager" && r.Arch.SDPAOnly, "attention eager is not modelled for " + r.Arch.Family +
			" and its figures are those of sdpa, which may be too low"},
		{t.Attention == "flash" && r.Arch.SDPAOnly, "attention flash: the figures for " + r.Arch.Family +
			" are those of sdpa"},
		{(t.Attention == "eager" || t.Attention == "flash") && rewritten.OfLitGPT(&r.Arch), "attention " + t.Attention +
			": litgpt's models call sdpa"},
		{(t.Attention == "eager" || t.Attention == "flash") && rewritten.Torchtune(&r.Arch), "attention " + t.Attention +
			": torchtune's models call sdpa, and flex_attention where sequences are packed"},
		{t.Loss != nil && t.Loss.Head == "chunked" && rewritten.Torchtune(&r.Arch), "loss head chunked: the recipes of torchtune 0.6 " +
			"have the logits of all chunks in a list before the loss begins"},
		{len(t.Kernels) > 0 && rewritten.Torchtune(&r.Arch), "kernels are not torchtune's: its models use PyTorch's alone"},
		{t.AttentionMask == "explicit" && rewritten.OfLitGPT(&r.Arch), "attention_mask explicit: litgpt's models take no mask"},
		{len(t.Kernels) > 0 && rewritten.OfLitGPT(&r.Arch), "kernels are not litgpt's: its models use PyTorch's alone"},
		{t.SequenceLength != 0 && r.Arch.FixedTokens > 0 && !r.Arch.TargetTokens(),
			fmt.Sprintf("sequence_length is ignored: every input of %s makes %d tokens", r.Arch.Family,
				r.Arch.FixedTokens)},
		{t.SequenceLength != 0 && r.Arch.FixedTokens > 0 && t.TargetSequenceLength != 0,
			fmt.Sprintf("sequence_length is ignored: every input of %s makes %d tokens, and target_sequence_length "+
				"says how many its decoder has", r.Arch.Family, r.Arch.FixedTokens)},
		{t.ClipGradNorm != nil && *t.ClipGradNorm && rc.UpdatesInBackward,
			"clip_grad_norm: an optimizer in backward leaves no gradients to clip"},
		{t.LogitsDtype == "fp32" && rc.Compute == step.F32, "logits_dtype fp32: the logits are float32 already"},
		{t.LogitsDtype == "fp32" && rc.Compute != step.F32 && rc.LossFloat && rc.Loss.Kind == step.LossStandard,
			"logits_dtype fp32: the loss of transformers' decoders makes that copy anyway"},
		{rc.CheckpointEvery > r.Arch.Layers && r.Arch.Layers > 0,
			fmt.Sprintf("gradient_checkpointing every %d: the model has %d layers, and none is checkpointed",
				rc.CheckpointEvery, r.Arch.Layers)},
		{r.PackedByGPTQ() && t.LoRA.UpcastBase != nil && *t.LoRA.UpcastBase,
			"lora.upcast_base: prepare_model_for_kbit_training leaves the types of a GPTQ model as they are"},
	} {
		if x.idle {
			r.Idle = append(r.Idle, x.text)
		}
	}
	r.idleStates(t)
	r.idleDistributed(t)
	r.idleVersions(t)
}

func (r resolver) idleStates(t *job.Training) {
	s := t.States
	if s == nil || t.Shards() {
		return
	}
	note := func(format string, args ...any) { r.Idle = append(r.Idle, fmt.Sprintf(format, args...)) }
	if l := r.Arch.LoRA; l != nil {
		var given []string
		for _, f := range [...]struct{ name, value string }{{"gradients", s.Gradients},
			{"master_weights", s.MasterWeights},
			{"master_gradients", s.MasterGradients}, {"optimizer", s.Optimizer}} {
			if f.value != "" && f.value != "none" && f.value != result.Dtype(l.Dtype) {
				given = append(given, "states."+f.name)
			}
		}
		if base := t.LoRA.BasePrecision; s.Weights != "" && base != "" && base != s.Weights {
			note("states.weights: lora.base_precision %s says how the frozen base is stored", base)
		}
		if len(given) > 0 {
			note("%s: what is trained are the adapters, and lora.adapter_dtype, here %s, is the type of them, their "+
				"gradients and the optimizer's state", strings.Join(given, ", "), result.Dtype(l.Dtype))
		}
		return
	}
	switch {
	case s.Optimizer == "":
	case r.Optimizer.Stateless():
		note("states.optimizer: this optimizer keeps no state")
	case r.Optimizer.OwnTypes:
		note("states.optimizer: this optimizer keeps its state in types of its own, whatever the weights are stored in")
	}
	if d, ok := fields.StoredTypes[s.MasterGradients]; ok && !r.Recipe.States.MasterWeights {
		gradients := r.Recipe.Stored
		if r.Recipe.States.GradientBuffers {
			gradients = r.Recipe.States.Gradients
		}
		if d != gradients {
			note("states.master_gradients: there are no master weights that they could belong to; states.gradients is " +
				"the type of the gradients themselves")
		}
	}
}

func (r resolver) idleDistributed(t *job.Training) {
	d := t.Distributed
	if d == nil {
		return
	}
	sharded := t.Shards()
	flat := r.Fsdp != nil && r.Fsdp.Flat
	for _, x := range []struct {
		idle bool
		text string
	}{
		{d.Data != "" && d.WorldSize == 1 && t.ZeROStage() == 0, "distributed.data: on one GPU nothing is shared"},
		{(d.FindUnusedParameters != nil || d.StaticGraph || d.GradientAsBucketView || d.BucketCapMB != 0) &&
			(d.WorldSize <= 1 || d.Data != "" && d.Data != "ddp"),
			"distributed.find_unused_parameters, static_graph, gradient_as_bucket_view and bucket_cap_mb belong to " +
				"data ddp over several GPUs"},
		{d.ShardGroup != 0 && !sharded, "distributed.shard_group belongs to data fsdp over several GPUs"},
		{d.ZeroInit != nil && t.ZeROStage() == 0, "distributed.zero_init belongs to data zero3"},
		{d.FSDPVersion != 0 && !sharded, "distributed.fsdp_version belongs to data fsdp over several GPUs"},
		{d.ReshardAfterForward != nil && !sharded, "distributed.reshard_after_forward belongs to data fsdp " +
			"over several GPUs"},
		{d.LimitAllGathers != nil && !sharded, "distributed.limit_all_gathers belongs to data fsdp over several GPUs"},
		{d.LimitAllGathers != nil && sharded && !flat, "distributed.limit_all_gathers is an option of FSDP1, and the " +
			"figures are those of FSDP2"},
		{d.NoSync != nil && d.WorldSize > 1 && r.Recipe.Accumulation == 1,
			"distributed.no_sync: with one micro-step there is none whose gradients could stay unsummed"},
		{d.NoSync != nil && d.WorldSize > 1 && r.Recipe.Accumulation > 1 && !sharded && t.ZeROStage() == 0,
			"distributed.no_sync saves time and no memory: the buckets of DistributedDataParallel are there in " +
				"every micro-step"},
		{d.NoSync != nil && d.WorldSize <= 1, "distributed.no_sync: on one GPU nothing is summed"},
		{d.PipelineSchedule != "" || d.PipelineStage != nil,
			"distributed.pipeline_schedule and pipeline_stage belong to pipeline_parallel"},
		{d.ContextParallelKind != "", "distributed.context_parallel_kind belongs to context_parallel"},
	} {
		if x.idle {
			r.Idle = append(r.Idle, x.text)
		}
	}
}

// versionsRead are the names in training.versions on which something depends.
var versionsRead = map[string]bool{"torch": true, "transformers": true, "cuda": true, "trl": true, "bitsandbytes": true,
	"deepspeed": true}

func (r resolver) idleVersions(t *job.Training) {
	var unread, without []string
	for name, version := range t.Versions {
		switch _, ok := release.Parse(version); {
		case !versionsRead[name]:
			without = append(without, name)
		case !ok:
			unread = append(unread, fmt.Sprintf("%s %.40q", name, version))
		}
	}
	sort.Strings(unread)
	sort.Strings(without)
	if len(unread) > 0 {
		r.Idle = append(r.Idle, "versions: "+strings.Join(unread, ", ")+
			" is not read as a version such as 2.9.1, and counts as not given")
	}
	if len(without) > 0 {
		r.Idle = append(r.Idle, fmt.Sprintf("versions: nothing that is replayed depends on %.200s",
			strings.Join(without, ", ")))
	}
}
