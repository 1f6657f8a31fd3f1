package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// How says where a component's bytes come from in a job whose p parameters are dealt out to several GPUs; ok is false
// where that is no different from one GPU.
func (sh *FSDP) How(name, p string, run *resolved.Replayed) (how string, ok bool) {
	r, rc := sh.r, &run.Recipe
	if how, ok = sh.howOffloaded(name, p); ok {
		return how, ok
	}
	dealt := fmt.Sprintf("%s parameters dealt out to %s GPUs", p, result.Grouped(sh.World))
	computed := rc.Stored
	if l := r.Arch.LoRA; l != nil {
		computed = l.Dtype
	}
	switch name {
	case "weights":
		if r.Arch.LoRA != nil {
			if base := r.Arch.LoRA.Base; base != step.NotQuantised {
				return fmt.Sprintf("%s frozen parameters, those of linear layers packed in %s, and adapters of %s × "+
					"%s, dealt out to %s GPUs, those of the layers at work put together as they are, and scales, "+
					"which every GPU holds",
					result.Grouped(run.Parameters-run.Trained), sh.base(), p, result.InBytes(sh.Stored),
					result.Grouped(sh.World)), true
			}
			return fmt.Sprintf("%s frozen parameters × %s and adapters of %s × %s, dealt out to %s GPUs, and those of "+
				"the layers at work put together, × %s and × %s",
				result.Grouped(run.Parameters-run.Trained), result.InBytes(sh.Frozen), p, result.InBytes(sh.Stored),
				result.Grouped(sh.World), result.InBytes(rc.Stored), result.InBytes(computed)), true
		}
		return fmt.Sprintf("%s, × %s, and those of the layers at work put together, × %s", dealt, result.InBytes(sh.Stored),
			result.InBytes(rc.Stored)), true
	case "gradients":
		if run.Ledger.Peak.Components[step.Gradients] == 0 {
			return "", false
		}
		if sh.Unsynced {
			return fmt.Sprintf("whole ones of the model, accumulated until the last micro-step, × %s, and this GPU's "+
				"part of those that are summed, × %s", result.InBytes(sh.accumulated()), result.InBytes(sh.Stored)), true
		}
		return fmt.Sprintf("whole ones of the layers at work, × %s, and this GPU's part of those that are summed, × %s",
			result.InBytes(computed), result.InBytes(sh.Stored)), true
	case "optimizer_state":
		return r.HowStates(dealt, sh.Stored), true
	case "communication":
		return fmt.Sprintf("FSDP's buffers for all-gathers and reduce-scatters that are under way, and %s for NCCL "+
			"outside PyTorch's allocator", result.Bytes(r.Nccl.Bytes)), true
	}
	return "", false
}

// base is how the base under adapters is quantised, as base_precision names it.
func (sh *FSDP) base() string {
	switch sh.r.Arch.LoRA.Base {
	case step.GPTQ4:
		return "gptq-int4"
	case step.GPTQ8:
		return "gptq-int8"
	}
	return "nf4"
}

// accumulated is the type of whole gradients that are accumulated.
func (sh *FSDP) accumulated() step.DType {
	if sh.Flat {
		return sh.r.Recipe.Stored
	}
	return sh.Reduced
}

// Notes say what the job was taken to be.
func (sh *FSDP) Notes() []result.Note {
	r := sh.r
	kept := "layers are put together for forward and again for backward"
	if sh.KeepsLayers {
		kept = "layers stay together from forward to backward"
	}
	wrapped := "FSDP2 (fully_shard on each layer and on the model)"
	if sh.Flat {
		wrapped = "FSDP1 (FullyShardedDataParallel around each layer and the model)"
	}
	weights := fmt.Sprintf("weights are stored in %s, gathered in %s", result.Dtype(sh.Stored), result.Dtype(r.Recipe.Stored))
	if l := r.Arch.LoRA; l != nil {
		weights = fmt.Sprintf("the frozen weights are stored in %s and gathered in %s, adapters in %s and %s",
			result.Dtype(sh.Frozen), result.Dtype(r.Recipe.Stored), result.Dtype(sh.Stored), result.Dtype(l.Dtype))
	}
	if l := r.Arch.LoRA; l != nil && l.Base != step.NotQuantised {
		weights = fmt.Sprintf("the frozen weights of linear layers are packed in %s, in %s as their storage "+
			"(bnb_4bit_quant_storage), and gathered packed, all others are in %s, adapters in %s and %s",
			sh.base(), result.Dtype(l.Half), result.Dtype(sh.Frozen), result.Dtype(sh.Stored), result.Dtype(l.Dtype))
		if !sh.Flat { // accelerate/utils/fsdp_utils.py 1.15 (fsdp2_prepare_model, incompatible_params4bit)
			weights += " (under FSDP2 this follows the source and was not traced; with bitsandbytes' default storage, " +
				"uint8, accelerate leaves the whole base on every GPU)"
		}
	}
	notes := []result.Note{{Code: "sharded", Text: fmt.Sprintf("weights, gradients and optimizer state are dealt out to %d "+
		"GPUs with %s: %s; %s and gradients summed in %s; the figures are those of the first GPU, whose part is never "+
		"smaller than another's",
		sh.World, wrapped, kept, weights, result.Dtype(sh.Reduced))}}
	if sh.Widened {
		notes = append(notes, result.Note{Code: "widened-shards", Text: "accelerate brings trained parameters to float32 under " +
			"FSDP with mixed precision, in whichever type the model was loaded: weights, gradients and states of each " +
			"GPU's part take 4 B; precision bf16 without mixed precision (bf16 off in the arguments, the model loaded " +
			"in bf16) keeps them at 2 B"})
	}
	if sh.Offloaded {
		notes = append(notes, sh.offloadNote())
	}
	if sh.Groups > 1 {
		notes = append(notes, result.Note{Code: "hybrid-sharding", Text: fmt.Sprintf("%d groups of %d GPUs hold the state "+
			"each (HSDP); the sum over the groups is made in place", sh.Groups, sh.World)})
	}
	if sh.Unsynced {
		notes = append(notes, result.Note{Code: "whole-gradients", Text: "gradients are accumulated whole on every GPU and " +
			"summed in the last micro-step (no_sync): each GPU holds those of the whole model; no_sync false holds a " +
			"part of them, for a reduce-scatter in every micro-step"})
	}
	if r.Recipe.Reentrant && r.Recipe.CheckpointEvery > 0 && !sh.KeepsLayers && !sh.Flat {
		notes = append(notes, result.Note{Code: "reentrant-sharded",
			Text: "reentrant checkpointing under FSDP2 leaves the buffer of every layer's last all-gather until " +
				"backward ends, together the layers in the gathered type; checkpointing that is not reentrant " +
				"(use_reentrant=False, or FSDP's activation_checkpointing) does not"})
	}
	return notes
}
