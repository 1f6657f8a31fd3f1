package api

import (
	"context"
	"net/http"

	"github.com/rs/zerolog/hlog"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// CalibrationList is a part of the calibrations of a database.
type CalibrationList struct {
	service.CalibrationStatus
	// Calibrations are summaries: their groups are in each by itself.
	Calibrations []service.Calibration `json:"calibrations"`
	// NextPageToken is there where older ones follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// ActivationList is a part of the history of what answers were made with.
type ActivationList struct {
	service.CalibrationStatus
	Activations []service.Activation `json:"activations"`
	// NextPageToken is there where older ones follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// ActiveCalibration chooses what answers are made with.
type ActiveCalibration struct {
	// Calibration is the id of a calibration, or that of the constants that are built in.
	Calibration string `json:"calibration" validate:"required,max=64" example:"cal-3-5f2a9c01d7e4"`
}

// listCalibrations lists the calibrations.
//
//	@Summary		List calibrations
//	@Description	What was fitted to observations, the newest first, each with what it would have been worth on runs that it did not see. calibration is the one that answers are made with.
//	@ID				listCalibrations
//	@Tags			calibrations
//	@Produce		json
//	@Security		key
//	@Param			page_size	query		int		false	"How many; 100 if not given"	minimum(1) maximum(1000)
//	@Param			page_token	query		string	false	"next_page_token of the page before"
//	@Success		200			{object}	CalibrationList
//	@Failure		400,401,403,429,500,503	{object}	problem.Problem
//	@Router			/v1/calibrations [get]
func (a *API) listCalibrations() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		by, err := a.reader(r, service.ScopeCalibrationsRead)
		if err != nil {
			return nil, err
		}
		page, before, err := q.numbered()
		if err != nil {
			return nil, err
		}
		list, err := a.service.Calibrations(r.Context(), service.CalibrationFilter{Before: before, Limit: page.limit})
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].By = by.sees(list[i].By)
		}
		answer := CalibrationList{CalibrationStatus: a.service.CalibrationStatus()}
		answer.Calibrations, answer.NextPageToken = pageNumbered(page, list, func(c *service.Calibration) int64 {
			return c.Number
		})
		return answer, nil
	}
}

// fitCalibration fits a calibration.
//
//	@Summary		Fit a calibration
//	@Description	Fits the constants that were not replayed (context, allocator, workspace) and the bounds to the observations, and stores them as a new version (201). Answers do not change until it is activated: by somebody, with activate, or by the policy of the service, whose decision is under activation with its reason. With activate, 412 where another one was activated during the fit, which is stored then. The same figures are stored once: then the answer is the calibration that has them (200), as it is for a dry run. A fit that takes more than some seconds goes on in the background (202, pending): the same request finds what became of it. What takes too long to replay is left out and named. 409 where no group of jobs has enough runs.
//	@ID				fitCalibration
//	@Tags			calibrations
//	@Accept			json
//	@Produce		json
//	@Security		key
//	@Param			fit	body		service.CalibrationFit	true	"Which observations; {} is all, up to the newest 10,000"
//	@Success		200	{object}	service.FittedCalibration
//	@Success		201	{object}	service.FittedCalibration
//	@Success		202	{object}	service.FittedCalibration
//	@Failure		400,401,403,408,409,412,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/calibrations [post]
func (a *API) fitCalibration() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		by, err := a.author(r, service.ScopeCalibrationsWrite)
		if err != nil {
			return nil, err
		}
		body, release, err := a.readBody(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		fit, err := jobdoc.Read[service.CalibrationFit](body)
		if err != nil {
			return nil, problem.Of(problem.InvalidCalibration, err)
		}
		fitted, err := work(a, r, func(ctx context.Context) (*service.FittedCalibration, error) {
			return a.service.FitCalibration(ctx, by, fit)
		})
		if err != nil {
			return nil, problem.Of(problem.InvalidCalibration, err)
		}
		if fitted.Pending {
			w.Header().Set("Retry-After", "5")
			return reply{status: http.StatusAccepted, body: fitted}, nil
		}
		logPolicy(r, fitted)
		if !fitted.Stored || fitted.Known {
			return fitted, nil
		}
		w.Header().Set("Location", r.URL.EscapedPath()+"/"+fitted.ID)
		return reply{status: http.StatusCreated, body: fitted}, nil
	}
}

// logPolicy says what the policy decided, where it did.
func logPolicy(r *http.Request, f *service.FittedCalibration) {
	if a := f.Activation; a != nil && a.ByPolicy() {
		identify(hlog.FromRequest(r).Info(), r).Str("policy", a.By.Name).Str("fitted", f.ID).Str("calibration",
			a.Calibration).Bool("activated", a.Refused == "").
			Str("reason", a.Reason).Msg("the activation policy decided")
	}
}

// getCalibration shows one calibration.
//
//	@Summary		Get a calibration
//	@Description	Everything of one version: which observations it was fitted to, its figures by group, which groups had too few runs, and what it would have been worth on runs that it did not see. It never changes.
//	@ID				getCalibration
//	@Tags			calibrations
//	@Produce		json
//	@Security		key
//	@Param			id				path		string	true	"The id, as answers name it"
//	@Param			If-None-Match	header		string	false	"ETag of the calibration that the client has"
//	@Success		200				{object}	service.Calibration
//	@Success		304				"The client's calibration is this one"
//	@Failure		400,401,403,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/calibrations/{id} [get]
func (a *API) getCalibration() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		by, err := a.reader(r, service.ScopeCalibrationsRead)
		if err != nil {
			return nil, err
		}
		c, err := a.service.Calibration(r.Context(), pathParam(r, "id"))
		if err != nil {
			return nil, err
		}
		seen, version := *c, c.ID
		if seen.By = by.sees(c.By); by.anonymous {
			version += "-anonymous" // other bytes
		}
		return versioned(w, r, version, &seen)
	}
}

// listActivations lists what answers were made with.
//
//	@Summary		List activations
//	@Description	Which calibration was activated when and by whom, the newest first. calibration is the one that answers are made with now; it is not the activated one where that was fitted to another version of the estimator. Where the service activates by a policy, its decisions are here with their reasons. The ETag names what is active, for If-Match.
//	@ID				listActivations
//	@Tags			calibrations
//	@Produce		json
//	@Security		key
//	@Param			page_size	query		int		false	"How many; 100 if not given"	minimum(1) maximum(1000)
//	@Param			page_token	query		string	false	"next_page_token of the page before"
//	@Success		200			{object}	ActivationList
//	@Failure		400,401,403,429,500,503	{object}	problem.Problem
//	@Router			/v1/calibrations/active [get]
func (a *API) listActivations() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		by, err := a.reader(r, service.ScopeCalibrationsRead)
		if err != nil {
			return nil, err
		}
		page, before, err := q.numbered()
		if err != nil {
			return nil, err
		}
		history, err := a.service.Activations(r.Context(), service.CalibrationFilter{Before: before, Limit: page.limit})
		if err != nil {
			return nil, err
		}
		for i := range history.List {
			history.List[i].By = by.sees(history.List[i].By)
		}
		answer := ActivationList{CalibrationStatus: a.service.CalibrationStatus()}
		answer.Activations, answer.NextPageToken = pageNumbered(page, history.List, func(a *service.Activation) int64 {
			return a.Number
		})
		w.Header().Set("Etag", etag(history.Version))
		w.Header().Set("Cache-Control", "no-store")
		return answer, nil
	}
}

// activateCalibration chooses what answers are made with.
//
//	@Summary		Activate a calibration
//	@Description	Answers that name no calibration are made with this one from now on; other replicas follow within seconds. The id of the built-in constants takes all calibrations out of force. If-Match has the ETag of the history, so that nobody undoes unseen what somebody else chose. Kept in a history.
//	@ID				activateCalibration
//	@Tags			calibrations
//	@Accept			json
//	@Produce		json
//	@Security		key
//	@Param			If-Match	header		string				false	"ETag of the history; required, * for whatever is active"
//	@Param			choice		body		ActiveCalibration	true	"The calibration"
//	@Success		200			{object}	service.Activation
//	@Failure		400,401,403,408,409,412,413,415,422,428,429,500,503	{object}	problem.Problem
//	@Router			/v1/calibrations/active [put]
func (a *API) activateCalibration() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		by, err := a.author(r, service.ScopeCalibrationsWrite)
		if err != nil {
			return nil, err
		}
		known, err := precondition(r)
		if err != nil {
			return nil, err
		}
		body, release, err := a.readBody(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		choice, err := jobdoc.Read[ActiveCalibration](body)
		if err != nil {
			return nil, problem.Of(problem.InvalidCalibration, err)
		}
		activation, err := a.service.Activate(r.Context(), by, choice.Calibration, known)
		if err != nil {
			return nil, err
		}
		w.Header().Set("Etag", etag(activation.Version()))
		return activation, nil
	}
}
