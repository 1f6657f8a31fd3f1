package lever

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// How far a change moves the result of training, for the order among those that
// do: rounding before the optimizer, what is trained before what is seen, the model last. Only
// the order counts; a halved effective batch stands at 3 (rank.go).
const (
	disturbsRounding     = 1
	disturbsMoments      = 2
	disturbsWeights      = 3.5
	disturbsTrainable    = 4
	disturbsQuantised    = 5
	disturbsAdafactor    = 5.5
	disturbsSequence     = 6
	disturbsLion         = 7
	disturbsNoMoments    = 8
	disturbsArchitecture = 10
)

// ampere is the first compute capability with bfloat16 matrix units.
const ampere = 80

// Changing are the levers that change the result of training, in the order
// in which they disturb it, least first within a group.
func Changing(in estimator.Input, shape traits.Shape, tool string) []Lever {
	ls := precisions(in)
	ls = append(ls, optimizers(in.Job.Training)...)
	ls = append(ls, Adapters(in)...)
	ls = append(ls, objectives(in.Job.Training, true)...)
	length := traits.SequenceLength(in, shape)
	for _, n := range []int64{length / 2, length / 4} {
		if n < 64 {
			break
		}
		ls = append(ls, AtLength(n, length))
	}
	return append(Worded(ls, tool), SmallerModels(in)...)
}

// changes makes a lever one that changes training.
func (l Lever) changing(effect string, disturbs float64) Lever {
	l.Effect, l.Disturbs = effect, disturbs
	return l
}

// precisions offers to compute in half precision, and to store in it.
func precisions(in estimator.Input) []Lever {
	t := in.Job.Training
	old := len(in.GPUs) > 0 && in.GPUs[0].ComputeCapability > 0 && in.GPUs[0].ComputeCapability < ampere
	set := func(p estimator.Precision, title string) Lever {
		return trainingLever("precision-"+string(p), "precision", title, "precision", p,
			func(t *estimator.Training) { t.Precision = p })
	}
	switch t.Precision {
	case estimator.PrecisionFP32, estimator.PrecisionTF32:
		if old {
			return []Lever{set(estimator.PrecisionAMPFP16, "Compute in float16 (mixed precision, with a GradScaler)").
				changing("other rounding: matrix products in float16, weights stay float32", disturbsRounding)}
		}
		return []Lever{set(estimator.PrecisionAMPBF16, "Compute in bfloat16 (mixed precision)").
			changing("other rounding: matrix products in bfloat16, weights stay float32", disturbsRounding)}
	case "", estimator.PrecisionAMPBF16, estimator.PrecisionAMPFP16:
		if !old && t.States == nil && t.LoRA == nil {
			return []Lever{set(estimator.PrecisionBF16, "Store weights, gradients and optimizer state in bfloat16").
				changing("weights are rounded to 8 bits of mantissa, so that small updates are lost", disturbsWeights)}
		}
	}
	return nil
}

// optimizers offers those that keep less for each parameter than AdamW.
func optimizers(t estimator.Training) []Lever {
	if !traits.TrainsLike(t, estimator.DefaultOptimizer) {
		return nil
	}
	const anew = "another optimizer: learning rate and schedule have to be found again"
	var ls []Lever
	for _, x := range []struct {
		code, title, effect string
		optimizer           estimator.Optimizer
		disturbs            float64
	}{
		{"8bit", "Keep the optimizer state in 8 bits", "the moments of AdamW are rounded to 8 bits",
			estimator.Optimizer{Name: "adamw-8bit"}, disturbsMoments},
		{"adafactor", "Train with Adafactor", anew, estimator.Optimizer{Name: "adafactor"}, disturbsAdafactor},
		{"lion", "Train with Lion", anew, estimator.Optimizer{Name: "lion", Implementation: "bitsandbytes"}, disturbsLion},
		{"sgd", "Train with SGD and momentum", anew, estimator.Optimizer{Name: "sgd-momentum"}, disturbsNoMoments},
	} {
		ls = append(ls, trainingLever("optimizer-"+x.code, "optimizer", x.title, "optimizer", x.optimizer,
			func(t *estimator.Training) { t.Optimizer = &x.optimizer }).changing(x.effect, x.disturbs))
	}
	return ls
}

// adapterRank is the rank of the adapters that are offered: between the 8 of peft's default and the 64 of the QLoRA
// paper. It hardly moves memory: what is frozen does.
const adapterRank = 16

// Adapters offers to train low-rank adapters instead of the model, where it may be a published one that is fine-tuned,
// and to store a frozen base in 4 bits.
func Adapters(in estimator.Input) []Lever {
	t := in.Job.Training
	set := func(code, title string, l estimator.LoRA) Lever {
		added := trainingLever(code, "adapters", title, "lora", l, func(t *estimator.Training) { t.LoRA = &l })
		if t.LoRA == nil && traits.CheckpointingMode(t) == "full" && reentrantFails(in) {
			return notReentrant(added, *t.GradientCheckpointing)
		}
		return added
	}
	const frozen = "only adapters are trained: for fine-tuning a published model"
	if l := t.LoRA; l != nil {
		if l.BasePrecision != "" && l.BasePrecision != "bf16" && l.BasePrecision != "fp16" &&
			l.BasePrecision != "fp32" {
			return nil
		}
		packed := *l
		packed.BasePrecision, packed.DoubleQuantization = "nf4", new(true)
		return []Lever{set("adapters-nf4", "Store the frozen base in 4 bits (QLoRA)", packed).
			changing("the frozen weights are rounded to 4 bits", disturbsQuantised)}
	}
	if traits.FromScratch(in) {
		return nil
	}
	return []Lever{
		set("adapters-lora", "Train adapters only (LoRA)",
			estimator.LoRA{Rank: adapterRank, TargetModules: estimator.Targets{"all-linear"}}).
			changing(frozen, disturbsTrainable),
		set("adapters-qlora", "Train adapters on a base in 4 bits (QLoRA)",
			estimator.LoRA{Rank: adapterRank, TargetModules: estimator.Targets{"all-linear"}, BasePrecision: "nf4",
				DoubleQuantization: new(true)}).
			changing(frozen+", whose weights are rounded to 4 bits", disturbsQuantised),
	}
}

func AtLength(n, today int64) Lever {
	return trainingLever(fmt.Sprintf("sequence-%d", n), "sequence", "Shorten the sequence", "sequence_length", n,
		func(t *estimator.Training) { t.SequenceLength = n }).
		changing(fmt.Sprintf("the model sees %d tokens at a time instead of %d, and fewer in a step", n, today),
			disturbsSequence)
}
