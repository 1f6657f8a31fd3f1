package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog/hlog"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/decision"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/kubernetes"
)

// The API server waits a second (timeoutSeconds in hooks/kubernetes) and goes on without an answer
// then. Ours comes before that: after this time without a verdict, after another third of it
// without advice.
const admissionTimeout = 600 * time.Millisecond

// maxReviewBytes holds two versions of the largest object that etcd takes (1.5 MiB), in JSON.
const maxReviewBytes = 8 << 20

// admit answers an admission webhook in the mode that the service was given.
//
//	@Summary		Judge a Kubernetes workload
//	@Description	An AdmissionReview of admission.k8s.io/v1 about a Job, CronJob, JobSet, PyTorchJob, TrainJob, RayJob or Pod with a job document in the annotation vramplan.dev/job. Every well-formed review gets 200. A workload is refused only in mode enforce, where its job fits none of its GPUs; whatever goes wrong, it is let in with a warning. The annotation vramplan.dev/override with a reason lets it in, too. The mode is the one that the service was started with.
//	@ID				admit
//	@Tags			hooks
//	@Accept			json
//	@Produce		json
//	@Param			review	body		kubernetes.Review	true	"The review"
//	@Success		200		{object}	kubernetes.Answer
//	@Failure		400,408,413,415,429,500,503	{object}	problem.Problem
//	@Router			/v1/admission/kubernetes [post]
func (a *API) admit() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return a.review(w, r, a.options.admissionMode())
	}
}

// admitIn answers an admission webhook in the mode that its path names.
//
//	@Summary		Judge a Kubernetes workload in a mode
//	@Description	As /v1/admission/kubernetes, in mode audit (record, say nothing), warn or enforce: one webhook for the namespaces of each.
//	@ID				admitIn
//	@Tags			hooks
//	@Accept			json
//	@Produce		json
//	@Param			mode	path		string				true	"audit, warn or enforce"
//	@Param			review	body		kubernetes.Review	true	"The review"
//	@Success		200		{object}	kubernetes.Answer
//	@Failure		400,404,408,413,415,429,500,503	{object}	problem.Problem
//	@Router			/v1/admission/kubernetes/{mode} [post]
func (a *API) admitIn() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		mode := decision.Mode(chi.URLParam(r, "mode"))
		if !mode.Valid() {
			return nil, problem.New(problem.NotFound, "%q is not a mode; accepted: audit, warn, enforce.",
				clip(string(mode)))
		}
		return a.review(w, r, mode)
	}
}

func (o *Options) admissionMode() decision.Mode {
	if o.AdmissionMode == "" {
		return decision.Warn
	}
	return o.AdmissionMode
}

func (o *Options) admissionTimeout() time.Duration {
	return cmp.Or(o.AdmissionTimeout, admissionTimeout)
}

// review reads a review and answers it.
func (a *API) review(w http.ResponseWriter, r *http.Request, mode decision.Mode) (any, error) {
	body, release, err := a.readUpTo(w, r, maxReviewBytes, "application/json")
	if err != nil {
		return nil, err
	}
	defer release()
	request, err := kubernetes.Decode(body)
	if err != nil {
		return nil, problem.New(problem.InvalidDocument, "%s.", capital(err.Error()))
	}
	record := decision.Record{Hook: "kubernetes", Mode: mode, Verdict: decision.NoVerdict, Action: "allow",
		User: request.UserInfo.Username}
	if !request.IsDryRun() {
		record.ID, record.Time = decision.NewID(), time.Now().UTC()
	}
	answer, asked := a.judge(r, request, &record)
	if asked && !request.IsDryRun() {
		a.record(r, &record)
	}
	return answer, nil
}

// judge answers one review. Nothing that happens in here keeps a workload out but a verdict. asked is
// false where the review was of no concern.
func (a *API) judge(r *http.Request, request *kubernetes.Request,
	record *decision.Record) (answer *kubernetes.Answer, asked bool) {
	defer func() {
		if cause := recover(); cause != nil {
			a.panicked(r, cause, debug.Stack())
			record.Action, record.Verdict, record.Reason = "allow", decision.NoVerdict, "an internal error of vramplan"
			answer, asked = kubernetes.Skip(request.UID, record), true
		}
	}()
	question, err := request.Question(a.service.GPUVariants)
	if question == nil && err == nil {
		return kubernetes.Allow(request.UID), false
	}
	if question != nil {
		record.Workload, record.Override = question.Workload, question.Override
	}
	var result *estimator.Result
	var job estimator.Job
	if err == nil {
		record.SetJob(question.Document)
		if job, err = jobdoc.Decode(question.Document); err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), a.options.admissionTimeout())
			defer cancel()
			result, err = a.onBestCard(ctx, &job)
		}
	}
	if err == nil && len(result.GPUs) == 0 {
		err = fmt.Errorf("%w: neither a node selector nor the job says which GPU it gets", kubernetes.ErrUnclear)
	}
	if err != nil {
		record.Reason = reasonFor(a.noted(r, err))
		return kubernetes.Skip(request.UID, record), true
	}
	best := decision.Best(result.GPUs)
	record.SetResult(result, best)
	return kubernetes.Judge(request.UID, question, record, result.Model.Name, a.advise(r, job, best)), true
}

// onBestCard estimates a job that may run on several cards, and again on the one that suits it best: cards
// need different amounts, and the peak of an estimate is that on its first card.
func (a *API) onBestCard(ctx context.Context, job *estimator.Job) (*estimator.Result, error) {
	result, err := a.service.Estimate(ctx, *job, service.EstimateOptions{})
	if err != nil || len(result.GPUs) == 0 {
		return result, err
	}
	best := decision.Best(result.GPUs)
	if best.GPU == result.GPUs[0].GPU {
		return result, nil
	}
	one := *job
	one.GPUs = []estimator.GPURef{{Name: best.GPU}}
	alone, err := a.service.Estimate(ctx, one, service.EstimateOptions{})
	if err != nil { // a card that only the document knows
		return result, nil
	}
	*job = one
	return alone, nil
}

// advise looks for what to change: a smaller pair, which a few estimates find, or else a plan. It is nil where
// there is nothing to change, or no time to find it.
func (a *API) advise(r *http.Request, job estimator.Job, best estimator.GPUFit) *planner.Plan {
	switch best.Verdict {
	case estimator.Fits, estimator.Unknown:
		return nil
	}
	if len(job.GPUs) > 1 {
		job.GPUs = []estimator.GPURef{{Name: best.GPU}}
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.options.admissionTimeout()/3)
	defer cancel()
	micro, accumulation, ok := decision.SmallerPair(job.Training.MicroBatch, job.Training.GradientAccumulation,
		func(m, n int64) bool {
			smaller := job
			smaller.Training.MicroBatch, smaller.Training.GradientAccumulation = m, n
			result, err := a.service.Estimate(ctx, smaller, service.EstimateOptions{})
			return err == nil && len(result.GPUs) > 0 && result.GPUs[0].Verdict == estimator.Fits
		})
	if ok {
		return &planner.Plan{Recommended: &planner.Choice{MicroBatch: micro, GradientAccumulation: accumulation}}
	}
	plan, err := a.service.Plan(ctx, service.PlanRequest{Job: job}, service.PlanOptions{Brief: true})
	if a.noted(r, err) != nil {
		return nil
	}
	return plan
}

// reasonFor is an error in one line, for users. What only operators should know stays in the log.
func reasonFor(err error) string {
	if errors.Is(err, kubernetes.ErrUnclear) {
		return err.Error()
	}
	p := problem.From(err)
	switch {
	case p.Status < http.StatusInternalServerError && len(p.Errors) > 1:
		return fmt.Sprintf("%s: %s (and %d more)", p.Errors[0].Pointer, p.Errors[0].Detail, len(p.Errors)-1)
	case p.Status < http.StatusInternalServerError:
		return p.Detail
	case errors.Is(err, context.DeadlineExceeded):
		return "vramplan had no answer in time"
	case p.Code == problem.Overloaded.Code:
		return "vramplan has too much to do"
	}
	return "vramplan failed"
}

// record writes a decision into the log and counts it.
func (a *API) record(r *http.Request, d *decision.Record) {
	by := "admission"
	if d.Hook == "mcp" {
		by = d.Hook
	}
	a.metrics.decisions.WithLabelValues(by, d.Verdict, string(d.Mode)).Inc()
	if d.Override != "" && d.Verdict == string(estimator.DoesNotFit) {
		a.metrics.overrides.Inc()
	}
	line, err := d.Line()
	if err != nil {
		failure(r).Err(err).Msg("a decision was not recorded")
		return
	}
	hlog.FromRequest(r).Info().Str("request_id", r.Header.Get(requestIDHeader)).RawJSON("decision",
		line[:len(line)-1]).Msg("decision")
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
