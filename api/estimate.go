package api

import (
	"net/http"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// estimate says what a job takes.
//
//	@Summary		Estimate the memory of a training job
//	@Description	Replays one optimizer step of the job and returns the peak by component, with bounds and a verdict for each GPU. "Does not fit" is an answer (200), not an error.
//	@ID				estimate
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			job			body		estimator.Job	true	"The job"
//	@Param			timeline	query		bool			false	"Add the live memory at every moment of the step"
//	@Param			tensors		query		bool			false	"Add the tensors that are alive at the peak"
//	@Param			calibration	query		string			false	"Answer with this calibration; the active one if not given"
//	@Success		200			{object}	estimator.Result
//	@Failure		400,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/estimate [post]
func (a *API) estimate() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		o, err := estimateOptions(q)
		if err != nil {
			return nil, err
		}
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		return a.estimateDocument(r, body, o)
	}
}

func estimateOptions(q query) (o service.EstimateOptions, err error) {
	if o.Timeline, err = q.flag("timeline"); err != nil {
		return o, err
	}
	if o.Tensors, err = q.flag("tensors"); err != nil {
		return o, err
	}
	o.Calibration, err = q.calibration()
	return o, err
}

// shortBytes is up to how long documents are read without a turn, which takes longer then than they do.
const shortBytes = 16 << 10

// decode reads a job document, a long one with a core of the client's: one of a mebibyte takes as long as an estimate.
func (a *API) decode(r *http.Request, document []byte) (estimator.Job, error) {
	if len(document) > shortBytes {
		defer a.place.Core(r.Context())()
	}
	return jobdoc.Decode(document)
}

// estimateDocument is one job in, one answer out; batches use it too.
func (a *API) estimateDocument(r *http.Request, document []byte, o service.EstimateOptions) (*estimator.Result, error) {
	job, err := a.decode(r, document)
	if err != nil {
		return nil, a.service.Names(r.Context(), err, job, "")
	}
	result, err := a.service.Estimate(r.Context(), job, o)
	if err != nil {
		return nil, err
	}
	for i := range result.GPUs {
		a.metrics.decided("estimate", result.GPUs[i].Verdict)
	}
	return result, nil
}
