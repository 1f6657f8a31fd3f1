package api

import (
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// plan lists the ways to reach an effective batch.
//
//	@Summary		Plan micro-batch and accumulation for a GPU
//	@Description	The job plus effective_batch. Returns every exact pair of micro-batch and accumulation with the bytes that estimate gives for it, a recommendation, and a ranked table of ways out. micro_batch and gradient_accumulation, where given, are what runs today. Where measured_steps says how long steps of it took, the relative step times are fitted to them. Where cluster names a number of GPUs, the answer ranks layouts on them instead: data, tensor, pipeline, context and expert parallelism with what is dealt out, checkpointing and pairs, by expected step time, each with the launcher's own files. With reading in place of model and training, as /v1/read takes it, the job is that of the files, and patch changes them.
//	@ID				plan
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			request		body		jobdoc.Plan	true	"The job, and the batch that its optimizer step should see"
//	@Param			frontier	query		bool		false	"Add the largest micro-batch by sequence length, the longest sequence by micro-batch, a grid of both and the largest model"
//	@Param			brief		query		bool		false	"Leave low_bytes out, and of what cannot fit what the allocator would reserve: at_least says so. It takes a fraction of the time; verdicts and the figures of what may fit are the same"
//	@Param			calibration	query		string		false	"Answer with this calibration; the active one if not given"
//	@Success		200			{object}	planner.Plan
//	@Failure		400,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/plan [post]
func (a *API) plan() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		frontier, err := q.flag("frontier")
		if err != nil {
			return nil, err
		}
		brief, err := q.flag("brief")
		if err != nil {
			return nil, err
		}
		pinned, err := q.calibration()
		if err != nil {
			return nil, err
		}
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		files, body, err := a.fromFiles(r, body)
		if err != nil {
			return nil, err
		}
		request, err := jobdoc.DecodePlan(body)
		if err != nil {
			return nil, a.service.Names(r.Context(), err, request.Job, "")
		}
		plan, err := a.service.Plan(r.Context(),
			service.PlanRequest{Job: request.Job, EffectiveBatch: request.EffectiveBatch,
				MeasuredSteps: request.MeasuredSteps, Cluster: request.Cluster},
			service.PlanOptions{Frontier: frontier, Brief: brief, Calibration: pinned})
		if err == nil && files != nil {
			plan, err = files.WithPatch(r.Context(), plan)
		}
		if err != nil {
			return nil, err
		}
		for i := range plan.Pairs {
			a.metrics.decided("plan", plan.Pairs[i].Verdict)
		}
		return plan, nil
	}
}

// fromFiles is the job of the files in a request, and the request with that job in their place; nil and the request
// itself where there are none.
func (a *API) fromFiles(r *http.Request, body []byte) (*service.FileJob, []byte, error) {
	job, err := a.fileJob(r, body, "model", "training")
	if job == nil || err != nil {
		return nil, body, err
	}
	body, err = job.Over(body)
	return job, body, err
}

// fileJob is the job of a request's reading, nil where it has none; beside are the fields that say the same in another
// way.
func (a *API) fileJob(r *http.Request, body []byte, beside ...string) (*service.FileJob, error) {
	given := gjson.GetBytes(body, "reading")
	if !given.Exists() || !gjson.ValidBytes(body) {
		return nil, nil
	}
	var errs invalid.List
	for _, key := range beside {
		if gjson.GetBytes(body, key).Exists() {
			errs.Add("/"+key, "conflict", "the files of reading say it; give what they leave open in reading.known")
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	request, err := jobdoc.Read[jobdoc.Reading]([]byte(given.Raw))
	if err != nil {
		return nil, err
	}
	return a.service.FileJob(r.Context(), request)
}
