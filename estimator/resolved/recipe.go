package resolved

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// decisions are what the parts of a job decide of its recipe: values, each of which one part makes and nobody changes.
// What a part needs of another it reads here; what they come to together, compose says.
type decisions struct {
	Numerics step.Numerics
	// Base is that of adapters.
	Base    Base
	Outputs Outputs
	// MicroSteps is how many micro-steps an optimizer step has.
	MicroSteps  int64
	Compilation step.Compilation
	// Recompute is what gradient_checkpointing asks for.
	Recompute Recompute
	// HooksEmbeddings says that peft's hook is on the embeddings though nothing is checkpointed.
	HooksEmbeddings bool
	// Padded says that attention_mask asks for a mask.
	Padded            bool
	Criterion         Criterion
	UpdatesInBackward bool
	Fused             step.Kernels
	// Objective is nil for the loss that the model returns.
	Objective step.Objective
	// ZeroesGradients says that the loop's zero_grad fills gradients with zeros, whatever the release.
	ZeroesGradients bool
	// RepeatsKV says that the releases repeat grouped keys and values for the kernel that was asked for.
	RepeatsKV bool
}

// Recompute is gradient checkpointing, as it is asked for.
type Recompute struct {
	Mode               string // of the word; "" is none
	Every              int64  // 0 where no layer is run again from its input
	Reentrant, Offload bool
}

// Criterion is the loss over the vocabulary.
type Criterion struct {
	step.Loss
	LogitsFloat, LossFloat bool
	// Smooths says that the Trainer smooths the labels, and computes the loss itself.
	Smooths bool
}

// Outputs is what the loop does with what the model returns.
type Outputs struct{ Held, Widened, Unpacked bool }

// Composed says where and for what a recipe is composed: on which card, with how many rows that come to its experts
// for each that goes, for the step or for the evaluation after it.
type Composed struct {
	On        step.Hardware
	Received  float64
	Evaluates bool
}

// Compose is the recipe, of what the parts have decided.
func (r *Job) Compose(c Composed) step.Recipe {
	strategy := r.Strategy()
	_, whole := strategy.(step.Pipelined) // a recording is of all micro-batches
	trainer := r.By.GroupsByDecay == frameworks.Yes && !r.OwnLoop
	compiled, autocast := r.Compilation.Compile, r.Numerics.Autocast
	rc := step.Recipe{
		Numerics: r.Numerics,
		Loop: step.Loop{
			LinearKeepsInput: r.LinearKeepsInput,
			Evaluation:       c.Evaluates,
			GroupsByDecay: trainer ||
				r.Objective != nil && r.By.RunsTRL == frameworks.Yes, // whose trainers are transformers'
			ExplicitMask:  r.Padded || r.Attention() != step.AttentionFlash && inOneRow(r.Objective),
			Loss:          r.Criterion.Loss,
			LogitsFloat:   r.Criterion.LogitsFloat,
			LossFloat:     r.Criterion.LossFloat,
			SmoothsLabels: r.Criterion.Smooths,
			AddsNoise:     r.AddsNoise,
			HoldLogits:    r.Outputs.Held,
			HoldFloat32:   r.Outputs.Widened,
			// accelerate wraps the model; what is compiled has the copies in it
			WidensOutputs: autocast && (trainer && !compiled || r.Wraps && (!compiled || r.LooksForUnused)),
			// accelerate/utils/operations.py (convert_outputs_to_fp32), 1.15
			FloatsOutputs:  r.Wraps && compiled && autocast && !r.Outputs.Widened,
			UnpacksOutputs: r.Outputs.Unpacked,
			Trainer:        trainer,
			NextBatchEarly: r.Outputs.Held,
			InputGradients: r.HooksEmbeddings || r.Adapted && r.Recompute.Every > 0,
			Accumulation:   r.MicroSteps,
			UseCache:       r.fillsCache(c.Evaluates),
		},
		Checkpointing: r.Recomputes(c.Evaluates),
		Compilation:   r.Compilation,
		Versions: step.Versions{
			PacksHalf:   r.By.Rewritten == frameworks.Yes,
			LossInModel: r.Arch.LosesInModel(),
			RepeatsKV:   r.RepeatsKV,
			KeepsGradients: r.ZeroesGradients || r.Arch.Software.Has(play.KeepsGradients) &&
				!r.Arch.NanoGPT(), // whose train.py asks for None
			Software: r.Arch.Software,
		},
		Hardware:          c.On,
		Attention:         r.Attention(),
		Kernels:           r.Fused,
		UpdatesInBackward: r.UpdatesInBackward,
		Objective:         r.pursues(c.Evaluates),
		Strategy:          strategy,
		Received:          c.Received,
	}
	if whole {
		rc.Accumulation = 1
	}
	if r.UpdatesInBackward {
		rc.Updates = r.Optimizer
	}
	return rc
}

// Attention is the implementation that the model has, of those the one that is asked for.
func (r *Work) Attention() step.Attention { return attentionOf(&r.Arch, r.Asked) }

// Strategy is how the job is spread over several GPUs; nil is one GPU.
func (r *Layout) Strategy() step.Strategy {
	if r.Parallel == nil {
		return nil
	}
	return r.Parallel.Strategy()
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

// Recomputes is what is dropped in forward and made again in backward. PPOTrainer's own loop never switches it on, and
// layers are not checkpointed in an evaluation.
func (r *Work) Recomputes(evaluates bool) step.Checkpointing {
	asked := r.Recompute
	_, ownLoop := r.Objective.(objective.PPO)
	if ownLoop || evaluates {
		asked.Every, asked.Reentrant = 0, false
	}
	return step.Checkpointing{
		CheckpointEvery:    asked.Every,
		Reentrant:          asked.Reentrant,
		CheckpointOffload:  asked.Offload && !evaluates,
		RunsToEnd:          rewritten.Titan(&r.Arch), // activation_checkpoint.early_stop is false
		SelectiveAttention: asked.Mode == Selective,
		SelectiveOps:       asked.Mode == SelectiveOps,
	}
}

// The modes of gradient checkpointing that keep a part of what a layer saves.
const (
	Selective    = "selective"
	SelectiveOps = "selective-op"
)

// Selects says that one of them is asked for.
func (c Recompute) Selects() bool { return c.Mode == Selective || c.Mode == SelectiveOps }

// pursues is what the trainer makes of the step, or of a batch of the evaluation.
func (r *Work) pursues(evaluates bool) step.Objective {
	if o, ok := r.Objective.(step.Evaluable); ok && evaluates {
		return o.Evaluating(r.Evaluation.MicroBatch)
	}
	return r.Objective
}

// ReadsCache says whether the model, as its configuration and its framework have it, fills a key/value cache in
// training: for one that is checkpointed transformers sets use_cache to false.
func (r *Job) ReadsCache() bool {
	return r.Arch.UseCache && !r.OwnModules && r.Recomputes(false).CheckpointEvery == 0
}

// fillsCache says the same of what is replayed, with what the job's releases do: the trainers of an objective send
// use_cache=False. In an evaluation the cache is on again that transformers gives up for checkpointing.
func (r *Job) fillsCache(evaluates bool) bool {
	if evaluates {
		_, said := r.Objective.(step.Evaluable) // whose trainers say what is cached
		return !said && (r.Arch.UseCache || r.Arch.CachesInEvaluation) && !r.OwnModules
	}
	later := r.Arch.CachesInTrainingLater && r.Arch.Software.Has(arch.CachesInTraining)
	return r.ReadsCache() && r.Objective == nil || later && !r.OwnModules && r.Recomputes(false).CheckpointEvery == 0
}
