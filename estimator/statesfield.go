package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
)

// storedTypes are the types that a state can be stored in.
var storedTypes = map[string]step.DType{"fp32": step.F32, "bf16": step.BF16, "fp16": step.F16}

// precision is what training.precision says: the type of the parameters, that of matrix products, whether the forward
// runs under autocast and the loss is scaled.
type precision struct {
	stored, compute  step.DType
	autocast, scaled bool
}

// precisionOf reads it.
func precisionOf(t *Training, errs *invalid.List) precision {
	switch t.Precision {
	case "", PrecisionAMPBF16:
		return precision{stored: step.F32, compute: step.BF16, autocast: true}
	case PrecisionAMPFP16:
		return precision{stored: step.F32, compute: step.F16, autocast: true, scaled: true}
	case PrecisionFP32, PrecisionTF32:
		return precision{stored: step.F32, compute: step.F32}
	case PrecisionBF16:
		return precision{stored: step.BF16, compute: step.BF16}
	case PrecisionFP16:
		return precision{stored: step.F16, compute: step.F16}
	case PrecisionFP8:
		errs.Add("/training/precision", "unsupported", "fp8 is not modelled yet; amp-bf16, amp-fp16, fp32, tf32, "+
			"bf16 and fp16 are")
	default:
		errs.Add("/training/precision", "unknown_value", "precision is %.40q; amp-bf16, amp-fp16, fp32, tf32, bf16 "+
			"and fp16 are accepted", t.Precision)
	}
	return precision{}
}

// numericsOf is in which types numbers are stored and computed: as the precision asks, but for what training.states
// says of what is stored, an engine that deals out of autocast, and the base of adapters, which is stored in a type of
// its own and computed in it where nothing runs under autocast.
func (r *resolved) numericsOf(t *Training, asked precision, errs *invalid.List) step.Numerics {
	given := States{}
	if t.States != nil {
		given = *t.States
	}
	if asked.stored != step.F32 {
		given = given.Or(*r.by.states)
	}
	zero, halved := t.ZeROStage() > 0 && !rewritten.Megatron(&r.arch), false
	stored, kept := asked.compute, step.States{}
	switch {
	case t.Shards():
		stored = r.shardedStates(t, asked, given, errs)
		halved = asked.autocast && r.by.amp == halves
	case zero:
		zeroStates(given, asked.compute, errs)
	default:
		stored = weightsOf(t, asked, given, errs)
		if t.LoRA == nil { // what is trained are the adapters otherwise, in a type of their own
			kept = r.statesOf(t, stored, given, errs)
		}
	}
	autocast := asked.autocast && !zero && !(t.Shards() && r.by.amp == policy)
	compute := asked.compute
	if ranked(t.LoRA) {
		r.base = r.baseOf(t, asked.compute, autocast)
		if stored = r.base.stored; r.base.gathered || halved {
			stored = compute
		} else if !autocast {
			compute = stored
		}
	}
	return step.Numerics{Stored: stored, Compute: compute, States: kept, GradScaler: asked.scaled && !zero,
		// fully_shard's mixed precision alone: what accelerate puts around the forward it puts there in prepare_model,
		// which FSDP2 does without. Source: accelerate/accelerator.py (_prepare_fsdp2, prepare_model), 1.15.
		Autocast: autocast && !(halved && !r.flatShards(t))}
}

// weightsOf is in which type states.weights stores them: that of the precision where the job does not say.
func weightsOf(t *Training, asked precision, given States, errs *invalid.List) step.DType {
	d, ok := readState("weights", given.Weights, false, errs)
	if !ok {
		return asked.stored
	}
	if !asked.autocast && d != asked.compute {
		errs.Add("/training/states/weights", "conflict",
			"weights in %s are computed with in that type without autocast, and precision is %s", given.Weights,
			t.Precision)
	}
	return d
}

// statesOf is training.states but for the weights: what is stored, apart from what is computed in. What the job leaves
// out follows the precision, or the framework where that has its own idea.
func (r *resolved) statesOf(t *Training, stored step.DType, given States, errs *invalid.List) step.States {
	beside := func(field, value string, none bool, other step.DType) (d step.DType, is bool) {
		d, ok := readState(field, value, none, errs)
		if !ok || d == other {
			return 0, false
		}
		return d, true
	}
	gradients, buffers := beside("gradients", given.Gradients, false, stored)
	master, masters := beside("master_weights", given.MasterWeights, true, stored)
	summed, optimized := stored, stored
	if buffers {
		summed = gradients
	}
	if masters {
		optimized = master
	}
	_, copies := beside("master_gradients", given.MasterGradients, true, summed)
	moments, own := beside("optimizer", given.Optimizer, false, optimized)
	copies = copies && masters
	if rewritten.Megatron(&r.arch) {
		if !buffers {
			gradients = stored
		}
		m := r.megatronStates(t, copies, masters && master == step.F32 && !own, errs)
		buffers, masters, copies = m.Engine, masters && !m.dealt(), copies && m.Engine && !m.dealt()
	}
	return step.States{GradientBuffers: buffers, Gradients: gradients, MasterWeights: masters, Master: master,
		MasterGradients: copies, OwnMoments: own, Moments: moments}
}

// readState is the type that a field of states names; ok is false where it names none.
func readState(field, value string, none bool, errs *invalid.List) (d step.DType, ok bool) {
	if value == "" || value == "none" && none {
		return 0, false
	}
	d, ok = storedTypes[value]
	if !ok {
		errs.Add("/training/states/"+field, "unsupported", "%s is %.40q; fp32, bf16 and fp16 are modelled", field,
			value)
	}
	return d, ok
}
