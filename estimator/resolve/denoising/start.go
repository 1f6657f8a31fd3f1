package denoising

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
)

// ReadsFirst refuses what a script cannot do whose text encoders go before training.
func (r Denoiser) ReadsFirst(t *job.Training, s *DiffusionScript, errs *invalid.List) {
	o := t.Objective
	if pipelines.TextEncoders(&r.Arch) == 0 {
		errs.Add("/model/diffusion/text_encoders", "required", "text_encoders are missing: %s has them all on the GPU "+
			"before training", s.Name)
	}
	if o.TextEmbeddings == "each-step" {
		errs.Add(fields.ObjectivePointer+"/text_embeddings", "conflict",
			"%s reads its prompt before training; cached is accepted", s.Name)
	}
}
