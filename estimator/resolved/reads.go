package resolved

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// ReadyTwice says whether a run ends in an error of DistributedDataParallel: reentrant checkpoints run the hooks of a
// parameter within the backward of their layer, where find_unused_parameters has counted it as ready already. The
// Trainer asks for the latter where the model has adapters. Runs of the Trainer of transformers 4.57 and 5.23 with
// adapters, of 4.57 without, and of trl 0.26 end so.
// Sources: torch/csrc/distributed/c10d/reducer.cpp (Reducer::mark_variable_ready), 2.9; transformers/trainer.py
// (Trainer._wrap_model), 4.57.
func (r *Job) ReadyTwice() bool {
	d, copied := r.Strategy().(parallel.DDP)
	return copied && d.FindUnused && r.Recompute.Reentrant && r.Recompute.Every > 0
}

// ReaderParameters is how many parameters they have.
func (r *Work) ReaderParameters() (count int64) {
	a := r.Arch
	_, parameters := pipelines.BuildReaders(a, r.Recipe.Compute)
	parameters.Each(func(p *step.Parameter) {
		if !p.Buffer {
			count += p.Numel
		}
	})
	return count
}

// BatchAt is the micro-batch of the pass that a moment lies in.
func (r *Work) BatchAt(m *play.Moment) int64 {
	if m.Stage == play.StageEvaluation && r.Evaluation != nil {
		return r.Evaluation.MicroBatch
	}
	return r.Shape.Batch * max(r.Sequences, 1)
}

// Base is the frozen model below adapters.
type Base struct {
	// Loaded is in which type it is loaded, and Stored in which it is stored when it was prepared.
	Loaded, Stored step.DType
	// Adapters is in which type adapters are stored.
	Adapters step.DType
	// Upcast says that it was brought to float32, Leaves that trl's trainer left it as it was loaded.
	Upcast, Leaves bool
	// Gathered says that FSDP's own mixed precision gathers a float32 base and its adapters in the half precision of
	// the job, which computes in that type without autocast.
	// Source: torch/distributed/fsdp/_fully_shard (MixedPrecisionPolicy.param_dtype), torch 2.9 and 2.15.
	Gathered bool
}

// TrainsOnQuantised says whether the job trains adapters on a base that bitsandbytes quantised.
func (r *Job) TrainsOnQuantised() bool {
	return r.Arch.LoRA != nil && r.By.RunsTRL == frameworks.Yes && r.Arch.LoRA.Base != step.NotQuantised
}

// PackedByGPTQ says that the base comes packed.
func (r *Work) PackedByGPTQ() bool {
	l := r.Arch.LoRA
	return l != nil && (l.Base == step.GPTQ4 || l.Base == step.GPTQ8)
}

// HowStates says where the optimizer's state comes from: that of p, which are of type d.
func (r *Work) HowStates(p string, d step.DType) string {
	st := &r.Recipe.States
	masters := ""
	if st.MasterWeights {
		masters, d = " and master weights of "+result.InBytes(st.Master), st.Master
	}
	if st.OwnMoments {
		d = st.Moments
	}
	o := r.Optimizer
	switch {
	case o.Stateless() && masters != "":
		return p + " × nothing" + masters + ": plain SGD keeps none"
	case o.Stateless():
		return "plain SGD keeps none"
	case o.Factored:
		return o.Words + masters
	}
	words := strings.Replace(o.Words, "%s", result.InBytes(d), 1)
	if o.Ranked {
		words += result.Grouped(r.Rank)
	}
	return p + " × " + words + masters
}
