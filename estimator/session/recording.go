package session

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// standBeside lets a tape pass something through other models: those that are trained beside the first of so many
// parameters, and the companions.
func (r *Player) standBeside(t *step.Tape, rc step.Recipe, first int, trained []step.Companion) {
	t.Companions = trained
	for i := range r.Beside {
		c := &r.Beside[i]
		if !c.Passed {
			continue
		}
		net, parameters := c.Whole(rc).BuildBehind(first, c.Dtype)
		t.Beside(parameters)
		t.Companions = append(t.Companions, step.Companion{Network: net, Stored: c.Dtype, First: int32(first),
			Parameters: parameters})
		first += len(parameters)
	}
}

// trainBeside puts the parameters of the model that is trained together with the first behind those of that one.
func (r *Player) trainBeside(p *step.Parameters, rc step.Recipe) []step.Companion {
	if r.Together == nil {
		return nil
	}
	first := len(p.List)
	net, parameters := r.Together.Whole(rc).BuildBehind(first, rc.Stored)
	p.List = append(p.List, parameters...)
	return []step.Companion{{Network: net, Stored: rc.Stored, First: int32(first), Parameters: parameters}}
}

// besides are the parameters of the models that stand beside the trained one, as this GPU holds them.
func (r *Player) besides(rc step.Recipe, plain bool) []step.Parameters {
	deals, dealt := rc.Spread().(step.Deals)
	list := make([]step.Parameters, 0, len(r.Beside))
	for i := range r.Beside {
		p := r.Beside[i].Parameters(plain)
		if dealt {
			p = deals.BesideModel(p, rc.Stored)
		}
		list = append(list, p)
	}
	return list
}

// leaving are the text encoders of a pipeline that read the prompt before training, and go; nil where none do.
func (r *Player) leaving(rc step.Recipe) *play.Leaving {
	if !r.ReadFirst {
		return nil
	}
	a := r.Arch
	net, parameters := pipelines.BuildReaders(a, rc.Compute)
	var t step.Tape
	t.Reset(rc, r.Shape, parameters)
	t.Look = r.watch()
	return &play.Leaving{Parameters: parameters, Program: t.RecordReading(net.(pipelines.Reader).ReadPrompt)}
}

// recordEvaluation records the evaluation of one batch.
func (r *Player) recordEvaluation(w *replay.Workspace, rc step.Recipe, plain bool) *play.Evaluation {
	if prepares, ok := rc.Objective.(step.Prepares); ok {
		return r.recordBetween(w, rc, plain, prepares)
	}
	if r.Evaluation == nil {
		return nil
	}
	a := *r.recorded(rc, plain)
	a.CheckpointEvery = 0
	rc = r.Compose(resolved.Composed{On: rc.Hardware, Received: rc.Received, Evaluates: true})
	shape := r.Shape
	shape.Batch = r.Evaluation.MicroBatch
	units, recorded, layers := resolved.RecordedLayers(&a, plain || rc.Compile || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, nil)
	together := r.trainBeside(&parameters, rc)
	w.Evaluated.Reset(rc, shape, parameters)
	r.standBeside(&w.Evaluated, rc, len(parameters.List), together)
	w.Evaluated.Look = r.watch()
	return &play.Evaluation{Program: w.Evaluated.RecordEvaluation(net, r.Evaluation.KeepLogits),
		Units: units, Recorded: recorded}
}

// unevenly is what is alive at the peak of a GPU whose experts get as many rows as fullestExpert says; 0 where rows go
// to no other GPU.
func (r *Player) unevenly(w *replay.Workspace, rc step.Recipe) (int64, error) {
	if !r.Exchanges {
		return 0, nil
	}
	rc = r.Compose(resolved.Composed{On: rc.Hardware, Received: doubt.FullestExpert})
	s, err := r.Begin(w, rc)
	if err != nil {
		return 0, err
	}
	peak := s.Account(false, false).Peak.Bytes
	if r.in.Took != nil {
		r.in.Took.Requests += int64(len(s.Program.Events))
	}
	return peak, r.Look()
}

// recordBetween records what an objective does before the micro-steps of an optimizer step.
func (r *Player) recordBetween(w *replay.Workspace, rc step.Recipe, plain bool, o step.Prepares) *play.Evaluation {
	a := r.recorded(rc, plain)
	units, recorded, layers := resolved.RecordedLayers(a, plain || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, nil)
	together := r.trainBeside(&parameters, rc)
	w.Evaluated.Reset(rc, r.Shape, parameters)
	r.standBeside(&w.Evaluated, rc, len(parameters.List), together)
	w.Evaluated.Look = r.watch()
	w.Evaluated.Another = func() step.Network {
		same, _ := a.Build(layers, rc.Stored, nil)
		return same
	}
	var evaluated step.Prepares
	if e, ok := o.(step.Evaluable); ok && r.Evaluation != nil {
		evaluated, _ = e.Evaluating(r.Evaluation.MicroBatch).(step.Prepares)
	}
	return &play.Evaluation{Program: w.Evaluated.RecordBetween(net, o, evaluated), Units: units, Recorded: recorded,
		Prepares: true}
}
