package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// leaving are the text encoders of a pipeline that read the prompt before training, and go; nil where none do.
func (r *player) leaving(rc step.Recipe) *play.Leaving {
	if !r.readFirst {
		return nil
	}
	a := r.arch
	net, parameters := pipelines.BuildReaders(a, rc.Compute)
	var t step.Tape
	t.Reset(rc, r.shape, parameters)
	t.Look = r.watch()
	return &play.Leaving{Parameters: parameters, Program: t.RecordReading(net.(pipelines.Reader).ReadPrompt)}
}

// readerParameters is how many parameters they have.
func (r *work) readerParameters() (count int64) {
	a := r.arch
	_, parameters := pipelines.BuildReaders(a, r.recipe.Compute)
	parameters.Each(func(p *step.Parameter) {
		if !p.Buffer {
			count += p.Numel
		}
	})
	return count
}

// readsFirst refuses what a script cannot do whose text encoders go before training.
func (r *work) readsFirst(t *Training, s *diffusionScript, errs *invalid.List) {
	o := t.Objective
	if pipelines.TextEncoders(&r.arch) == 0 {
		errs.Add("/model/diffusion/text_encoders", "required", "text_encoders are missing: %s has them all on the GPU "+
			"before training", s.name)
	}
	if o.TextEmbeddings == "each-step" {
		errs.Add(objectivePointer+"/text_embeddings", "conflict",
			"%s reads its prompt before training; cached is accepted", s.name)
	}
}
