package planner

import (
	"sync/atomic"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

const mib = 1 << 20

// fake is an estimator with made-up bytes, so that tests of the planner can state
// what fits and what does not. Bytes grow in a straight line with the micro-batch.
type fake struct {
	base        int64 // weights, gradients, optimizer state, context
	activations int64 // a sequence
	logits      int64 // a sequence
	bumps       map[int64]int64
	refuseFrom  int64 // micro-batches that the fake does not answer; 0: none
	played      int64 // the work of an answer
	asked       atomic.Int64
}

func (f *fake) estimate(in estimator.Input) (*estimator.Result, error) {
	if !in.LeastOnly {
		f.asked.Add(1)
	}
	t := in.Job.Training
	if f.refuseFrom > 0 && t.MicroBatch >= f.refuseFrom {
		var v invalid.List
		v.Add("/training/micro_batch", "too_large", "%d is too large", t.MicroBatch)
		return nil, v.Err()
	}
	if t.Loss != nil && t.Loss.Kind == "chunked" {
		var v invalid.List
		v.Add("/training/loss", "unsupported", "not modelled")
		return nil, v.Err()
	}
	base, act, logits := f.base, f.activations, f.logits
	if m := in.Job.Model.NanoGPT; m != nil {
		act = act * m.Layers / 12 * m.Embedding / 768
	}
	if traits.CheckpointingMode(t) == "full" {
		act /= 4
	}
	if t.Loss != nil && t.Loss.Kind == "fused-linear" {
		logits = 0
	}
	if o := traits.OptimizerOf(t); o.Name == "sgd-momentum" || o.Name == "adamw-8bit" {
		base = base * 3 / 4
	}
	if t.SequenceLength > 0 {
		act, logits = act*t.SequenceLength/1024, logits*t.SequenceLength/1024
	}
	optimizerPeak := base
	if traits.OptimizerOf(t).Implementation == "foreach" {
		optimizerPeak += 10 * mib
	}
	if float64(t.MicroBatch)*float64(act+logits) > 4e18 {
		var v invalid.List
		v.Add("/training/micro_batch", "too_large", "%d is too large", t.MicroBatch)
		return nil, v.Err()
	}
	alive := base + t.MicroBatch*(act+logits)
	device, played := alive+f.bumps[t.MicroBatch], f.played
	if in.LeastOnly {
		device, played = alive, 0
	}
	r := &estimator.Result{
		Played: played, AliveBytes: alive,
		Model: estimator.ModelInfo{Name: "fake", Family: "nanogpt", Parameters: 124373760,
			TrainableParameters: 124373760},
		Peak: estimator.Peak{Phase: "backward", Where: "loss backward", MicroStep: new(int64), AllocatedBytes: alive,
			ReservedBytes: device, DeviceBytes: device, LowBytes: device - device/20, HighBytes: device + device/20},
		Phases: []estimator.Phase{{Name: "backward", AllocatedBytes: device},
			{Name: "optimizer", AllocatedBytes: optimizerPeak}},
		Components: []estimator.Component{
			{Name: "weights", Bytes: base}, {Name: "activations", Bytes: t.MicroBatch * act},
			{Name: "logits_and_loss", Bytes: t.MicroBatch * logits},
		},
	}
	for _, g := range in.GPUs {
		fit := estimator.GPUFit{GPU: g.ID, UsableBytes: g.UsableBytes, HeadroomBytes: g.UsableBytes - device}
		switch {
		case g.UsableBytes == 0:
			fit.Verdict, fit.HeadroomBytes = estimator.Unknown, 0
		case r.Peak.HighBytes <= g.UsableBytes:
			fit.Verdict = estimator.Fits
		case device <= g.UsableBytes:
			fit.Verdict = estimator.Tight
		case r.Peak.LowBytes <= g.UsableBytes:
			fit.Verdict = estimator.Unlikely
		default:
			fit.Verdict = estimator.DoesNotFit
		}
		r.GPUs = append(r.GPUs, fit)
	}
	return r, nil
}

// storyFake has about the bytes of the founding story: GPT-2 124M in nanoGPT.
func storyFake() *fake {
	return &fake{base: 2500 * mib, activations: 330 * mib, logits: 590 * mib}
}

// story is a plan of the founding story's job.
func story() Request { return Request{Input: samples.Story()} }
