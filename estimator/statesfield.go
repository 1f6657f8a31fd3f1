package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/step"
)

// storedTypes are the types that a state can be stored in.
var storedTypes = map[string]step.DType{"fp32": step.F32, "bf16": step.BF16, "fp16": step.F16}

// states is training.states: what is stored, apart from what is computed in. What the job leaves out follows the
// precision, or the framework where that has its own idea.
func (r *resolved) states(t *Training, errs *invalid.List) {
	given := States{}
	if t.States != nil {
		given = *t.States
	}
	if r.recipe.Stored != step.F32 {
		given = given.Or(*r.by.states)
	}
	if t.Shards() {
		r.shardedStates(t, given, errs)
		return
	}
	if t.ZeROStage() > 0 && !rewritten.Megatron(&r.arch) {
		r.zeroStates(given, errs)
		return
	}
	read := func(field, value string, none bool) (d step.DType, ok bool) {
		return readState(field, value, none, errs)
	}
	rc := &r.recipe
	if d, ok := read("weights", given.Weights, false); ok {
		rc.Stored = d
		if !rc.Autocast && d != rc.Compute {
			errs.Add("/training/states/weights", "conflict",
				"weights in %s are computed with in that type without autocast, and precision is %s", given.Weights,
				t.Precision)
		}
	}
	if t.LoRA != nil { // what is trained are the adapters, in a type of their own
		return
	}
	st := &rc.States
	if d, ok := read("gradients", given.Gradients, false); ok && d != rc.Stored {
		st.GradientBuffers, st.Gradients = true, d
	}
	gradients := rc.Stored
	if st.GradientBuffers {
		gradients = st.Gradients
	}
	optimized := rc.Stored
	if d, ok := read("master_weights", given.MasterWeights, true); ok && d != rc.Stored {
		st.MasterWeights, st.Master = true, d
		optimized = d
	}
	if d, ok := read("master_gradients", given.MasterGradients, true); ok {
		st.MasterGradients = st.MasterWeights && d != gradients
	}
	if d, ok := read("optimizer", given.Optimizer, false); ok && d != optimized {
		st.OwnMoments, st.Moments = true, d
	}
	if rewritten.Megatron(&r.arch) {
		r.megatronStates(t, errs)
	}
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
