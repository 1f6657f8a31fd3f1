package api

import (
	"context"
	"net/http"

	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// plan lists the ways to reach an effective batch.
//
//	@Summary		Plan micro-batch and accumulation for a GPU
//	@Description	The job plus effective_batch. Returns every exact pair of micro-batch and accumulation with the bytes that estimate gives for it, a recommendation, and a ranked table of ways out. micro_batch and gradient_accumulation, where given, are what runs today. Where measured_steps says how long steps of it took, the relative step times are fitted to them.
//	@ID				plan
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			request		body		jobdoc.Plan	true	"The job, and the batch that its optimizer step should see"
//	@Param			frontier	query		bool		false	"Add the largest micro-batch by sequence length, the longest sequence by micro-batch, a grid of both and the largest model"
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
		pinned, err := q.calibration()
		if err != nil {
			return nil, err
		}
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		request, err := jobdoc.DecodePlan(body)
		if err != nil {
			return nil, a.service.Names(err, request.Job, "")
		}
		plan, err := work(a, r, func(ctx context.Context) (*planner.Plan, error) {
			return a.service.Plan(ctx, service.PlanRequest{Job: request.Job, EffectiveBatch: request.EffectiveBatch, MeasuredSteps: request.MeasuredSteps}, service.PlanOptions{Frontier: frontier, Calibration: pinned})
		})
		if err != nil {
			return nil, err
		}
		for i := range plan.Pairs {
			a.metrics.decided("plan", plan.Pairs[i].Verdict)
		}
		return plan, nil
	}
}
