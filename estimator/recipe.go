package estimator

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// decisions are what the parts of a job decide of its recipe: values, each of which one part makes and nobody changes.
// What a part needs of another it reads here; what they come to together, compose says.
type decisions struct {
	numerics step.Numerics
	// base is that of adapters.
	base    base
	outputs outputs
	// microSteps is how many micro-steps an optimizer step has.
	microSteps  int64
	compilation step.Compilation
	// recompute is what gradient_checkpointing asks for.
	recompute recompute
	// hooksEmbeddings says that peft's hook is on the embeddings though nothing is checkpointed.
	hooksEmbeddings bool
	// padded says that attention_mask asks for a mask.
	padded            bool
	criterion         criterion
	updatesInBackward bool
	fused             step.Kernels
	// objective is nil for the loss that the model returns.
	objective step.Objective
	// zeroesGradients says that the loop's zero_grad fills gradients with zeros, whatever the release.
	zeroesGradients bool
	// repeatsKV says that the releases repeat grouped keys and values for the kernel that was asked for.
	repeatsKV bool
}

// recompute is gradient checkpointing, as it is asked for.
type recompute struct {
	mode               string // of the word; "" is none
	every              int64  // 0 where no layer is run again from its input
	reentrant, offload bool
}

// criterion is the loss over the vocabulary.
type criterion struct {
	step.Loss
	logitsFloat, lossFloat bool
}

// outputs is what the loop does with what the model returns.
type outputs struct{ held, widened, unpacked bool }

// composed says where and for what a recipe is composed: on which card, with how many rows that come to its experts
// for each that goes, for the step or for the evaluation after it.
type composed struct {
	on        step.Hardware
	received  float64
	evaluates bool
}

// compose is the recipe, of what the parts have decided.
func (r *resolved) compose(c composed) step.Recipe {
	strategy := r.strategy()
	_, whole := strategy.(step.Pipelined) // a recording is of all micro-batches
	trainer := r.by.groupsByDecay == yes && !r.ownLoop
	compiled, autocast := r.compilation.Compile, r.numerics.Autocast
	rc := step.Recipe{
		Numerics: r.numerics,
		Loop: step.Loop{
			LinearKeepsInput: r.linearKeepsInput,
			Evaluation:       c.evaluates,
			GroupsByDecay:    trainer || r.objective != nil && r.by.runsTRL == yes, // whose trainers are transformers'
			ExplicitMask:     r.padded || r.attention() != step.AttentionFlash && inOneRow(r.objective),
			Loss:             r.criterion.Loss,
			LogitsFloat:      r.criterion.logitsFloat,
			LossFloat:        r.criterion.lossFloat,
			HoldLogits:       r.outputs.held,
			HoldFloat32:      r.outputs.widened,
			// accelerate wraps the model; what is compiled has the copies in it
			WidensOutputs: autocast && (trainer && !compiled || r.wraps && (!compiled || r.looksForUnused)),
			// accelerate/utils/operations.py (convert_outputs_to_fp32), 1.15
			FloatsOutputs:  r.wraps && compiled && autocast && !r.outputs.widened,
			UnpacksOutputs: r.outputs.unpacked,
			Trainer:        trainer,
			NextBatchEarly: r.outputs.held,
			InputGradients: r.hooksEmbeddings || r.adapted && r.recompute.every > 0,
			Accumulation:   r.microSteps,
			UseCache:       r.fillsCache(c.evaluates),
		},
		Checkpointing: r.recomputes(c.evaluates),
		Compilation:   r.compilation,
		Versions: step.Versions{
			PacksHalf:   r.by.rewritten == yes,
			LossInModel: r.arch.LosesInModel(),
			RepeatsKV:   r.repeatsKV,
			KeepsGradients: r.zeroesGradients || r.arch.Software.Has(play.KeepsGradients) &&
				!r.arch.NanoGPT(), // whose train.py asks for None
			Software: r.arch.Software,
		},
		Hardware:          c.on,
		Attention:         r.attention(),
		Kernels:           r.fused,
		UpdatesInBackward: r.updatesInBackward,
		Objective:         r.pursues(c.evaluates),
		Strategy:          strategy,
		Received:          c.received,
	}
	if whole {
		rc.Accumulation = 1
	}
	if r.updatesInBackward {
		rc.Updates = r.optimizer
	}
	return rc
}

// attention is the implementation that the model has, of those the one that is asked for.
func (r *work) attention() step.Attention { return attentionOf(&r.arch, r.asked) }

// strategy is how the job is spread over several GPUs; nil is one GPU.
func (r *layout) strategy() step.Strategy {
	if r.parallel == nil {
		return nil
	}
	return r.parallel.strategy()
}

// inOneRow says that a trainer makes one row of a batch, whose attention sdpa masks.
func inOneRow(o step.Objective) bool {
	switch o := o.(type) {
	case objective.SFT:
		return o.Packed
	case objective.DPO:
		return o.OneRow
	}
	return false
}

// recomputes is what is dropped in forward and made again in backward. PPOTrainer's own loop never switches it on, and
// layers are not checkpointed in an evaluation.
func (r *work) recomputes(evaluates bool) step.Checkpointing {
	asked := r.recompute
	_, ownLoop := r.objective.(objective.PPO)
	if ownLoop || evaluates {
		asked.every, asked.reentrant = 0, false
	}
	return step.Checkpointing{
		CheckpointEvery:    asked.every,
		Reentrant:          asked.reentrant,
		CheckpointOffload:  asked.offload && !evaluates,
		RunsToEnd:          rewritten.Titan(&r.arch), // activation_checkpoint.early_stop is false
		SelectiveAttention: asked.mode == selective,
		SelectiveOps:       asked.mode == selectiveOps,
	}
}

// The modes of gradient checkpointing that keep a part of what a layer saves.
const (
	selective    = "selective"
	selectiveOps = "selective-op"
)

// selects says that one of them is asked for.
func (c recompute) selects() bool { return c.mode == selective || c.mode == selectiveOps }

// pursues is what the trainer makes of the step, or of a batch of the evaluation.
func (r *work) pursues(evaluates bool) step.Objective {
	if o, ok := r.objective.(step.Evaluable); ok && evaluates {
		return o.Evaluating(r.evaluation.MicroBatch)
	}
	return r.objective
}

// readsCache says whether the model, as its configuration and its framework have it, fills a key/value cache in
// training: for one that is checkpointed transformers sets use_cache to false.
func (r *resolved) readsCache() bool {
	return r.arch.UseCache && !r.ownModules && r.recomputes(false).CheckpointEvery == 0
}

// fillsCache says the same of what is replayed, with what the job's releases do: the trainers of an objective send
// use_cache=False. In an evaluation the cache is on again that transformers gives up for checkpointing.
func (r *resolved) fillsCache(evaluates bool) bool {
	if evaluates {
		_, said := r.objective.(step.Evaluable) // whose trainers say what is cached
		return !said && (r.arch.UseCache || r.arch.CachesInEvaluation) && !r.ownModules
	}
	later := r.arch.CachesInTrainingLater && r.arch.Software.Has(arch.CachesInTraining)
	return r.readsCache() && r.objective == nil || later && !r.ownModules && r.recomputes(false).CheckpointEvery == 0
}
