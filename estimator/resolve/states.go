package resolve

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/step"
)

// numericsOf is in which types numbers are stored and computed: as the precision asks, but for what training.states
// says of what is stored, an engine that deals out of autocast, and the base of adapters, which is stored in a type of
// its own and computed in it where nothing runs under autocast.
func (r resolver) numericsOf(t *job.Training, asked fields.Precision, errs *invalid.List) step.Numerics {
	given := job.States{}
	if t.States != nil {
		given = *t.States
	}
	if asked.Stored != step.F32 {
		given = given.Or(*r.By.States)
	}
	zero, halved := t.ZeROStage() > 0 && !rewritten.Megatron(&r.Arch), false
	stored, kept := asked.Compute, step.States{}
	switch {
	case t.Shards():
		stored = strategies.On(r.Job).ShardedStates(t, asked, given, errs)
		halved = asked.Autocast && r.By.Amp == frameworks.Halves
	case zero:
		strategies.ZeroStates(given, asked.Compute, errs)
	default:
		stored = weightsOf(t, asked, given, errs)
		if t.LoRA == nil { // what is trained are the adapters otherwise, in a type of their own
			kept = r.statesOf(t, stored, given, errs)
		}
	}
	autocast := asked.Autocast && !zero && !(t.Shards() && r.By.Amp == frameworks.Policy)
	compute := asked.Compute
	if ranked(t.LoRA) {
		r.Base = r.baseOf(t, asked.Compute, autocast)
		if stored = r.Base.Stored; r.Base.Gathered || halved {
			stored = compute
		} else if !autocast {
			compute = stored
		}
	}
	return step.Numerics{Stored: stored, Compute: compute, States: kept, GradScaler: asked.Scaled && !zero,
		// fully_shard's mixed precision alone: what accelerate puts around the forward it puts there in prepare_model,
		// which FSDP2 does without. Source: accelerate/accelerator.py (_prepare_fsdp2, prepare_model), 1.15.
		Autocast: autocast && !(halved && !strategies.On(r.Job).FlatShards(t))}
}

// weightsOf is in which type states.weights stores them: that of the precision where the job does not say.
func weightsOf(t *job.Training, asked fields.Precision, given job.States, errs *invalid.List) step.DType {
	d, ok := fields.ReadState("weights", given.Weights, false, errs)
	if !ok {
		return asked.Stored
	}
	if !asked.Autocast && d != asked.Compute {
		errs.Add("/training/states/weights", "conflict",
			"weights in %s are computed with in that type without autocast, and precision is %s", given.Weights,
			t.Precision)
	}
	return d
}

// statesOf is training.states but for the weights: what is stored, apart from what is computed in. What the job leaves
// out follows the precision, or the framework where that has its own idea.
func (r resolver) statesOf(t *job.Training, stored step.DType, given job.States, errs *invalid.List) step.States {
	beside := func(field, value string, none bool, other step.DType) (d step.DType, is bool) {
		d, ok := fields.ReadState(field, value, none, errs)
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
	if rewritten.Megatron(&r.Arch) {
		if !buffers {
			gradients = stored
		}
		m := strategies.On(r.Job).MegatronStates(t, copies, masters && master == step.F32 && !own, errs)
		buffers, masters, copies = m.Engine, masters && !m.Dealt(), copies && m.Engine && !m.Dealt()
	}
	return step.States{GradientBuffers: buffers, Gradients: gradients, MasterWeights: masters, Master: master,
		MasterGradients: copies, OwnMoments: own, Moments: moments}
}
