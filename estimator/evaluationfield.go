package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// evaluate is training.evaluation: a pass over batches of their own between two optimizer steps.
func (r *work) evaluate(t *Training, errs *invalid.List) {
	e := t.Evaluation
	if e == nil {
		return
	}
	const pointer = "/training/evaluation"
	if e.MicroBatch < 0 || e.MicroBatch > 1<<30 {
		errs.Add(pointer+"/micro_batch", "out_of_range", "micro_batch is %d; it is from 1 to %d", e.MicroBatch, 1<<30)
		return
	}
	if d := t.Distributed; r.compilation.Compiles() && (!r.compilation.Compile || d != nil && d.WorldSize > 1 ||
		recordings.Recording(&r.arch) != nil) {
		errs.Add(pointer, "unsupported", "an evaluation pass together with torch.compile is modelled on one GPU, of a "+
			"whole model that is described; leave one of them out")
	}
	own := *e
	if own.MicroBatch == 0 {
		own.MicroBatch = t.MicroBatch
	}
	own.MicroBatch *= max(r.arch.Choices, 1)
	r.evaluation = &own
}

// batchAt is the micro-batch of the pass that a moment lies in.
func (r *work) batchAt(m *play.Moment) int64 {
	if m.Stage == play.StageEvaluation && r.evaluation != nil {
		return r.evaluation.MicroBatch
	}
	return r.shape.Batch * max(r.sequences, 1)
}

// recordEvaluation records the evaluation of one batch.
func (r *player) recordEvaluation(w *replay.Workspace, rc step.Recipe, plain bool) *play.Evaluation {
	if prepares, ok := rc.Objective.(step.Prepares); ok {
		return r.recordBetween(w, rc, plain, prepares)
	}
	if r.evaluation == nil {
		return nil
	}
	a := *r.recorded(rc, plain)
	a.CheckpointEvery = 0
	rc = r.compose(composed{on: rc.Hardware, received: rc.Received, evaluates: true})
	shape := r.shape
	shape.Batch = r.evaluation.MicroBatch
	units, recorded, layers := recordedLayers(&a, plain || rc.Compile || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, nil)
	together := r.trainBeside(&parameters, rc)
	w.Evaluated.Reset(rc, shape, parameters)
	r.standBeside(&w.Evaluated, rc, len(parameters.List), together)
	w.Evaluated.Look = r.watch()
	return &play.Evaluation{Program: w.Evaluated.RecordEvaluation(net, r.evaluation.KeepLogits),
		Units: units, Recorded: recorded}
}
