package api

import (
	"net/http"
	"runtime"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// Version says what runs.
type Version struct {
	// Version is the program's.
	Version string `json:"version" example:"v1.0.0"`
	Go      string `json:"go" example:"go1.26.0"`
	// Estimator, Reference, Catalog and Calibration decide the bytes of an answer,
	// which names them too.
	Estimator   string `json:"estimator" example:"1.0.0"`
	Reference   string `json:"reference" example:"torch-2.15.0"`
	Catalog     string `json:"catalog" example:"c-2"`
	Calibration string `json:"calibration" example:"builtin-3"`
}

// version says what runs.
//
//	@Summary		Versions
//	@Description	What decides the bytes of an answer, and the program that gives it.
//	@ID				version
//	@Tags			operations
//	@Produce		json
//	@Success		200		{object}	Version
//	@Failure		400,429	{object}	problem.Problem
//	@Router			/v1/version [get]
func (a *API) version() endpoint {
	return func(http.ResponseWriter, *http.Request, query) (any, error) {
		return Version{
			Version: a.options.Version, Go: runtime.Version(),
			Estimator: estimator.Version, Reference: estimator.Reference(),
			Catalog: a.service.CatalogRevision(), Calibration: a.service.CalibrationStatus().Calibration,
		}, nil
	}
}

// Health is the answer of the probes.
type Health struct {
	Status string `json:"status" example:"ok"`
}

// Readiness is the answer of the probe that decides whether requests are sent.
type Readiness struct {
	Status string `json:"status" example:"ready"`
	// Catalog is the revision that answers are made with now.
	Catalog string `json:"catalog" example:"c-2"`
	// Calibration is the one that answers are made with now.
	Calibration string `json:"calibration" example:"builtin-3"`
	// Database is ok; unreachable, where answers go on from the last catalog that was
	// read and changes are refused; or none.
	Database string `json:"database" enums:"ok,unreachable,none" example:"ok"`
	// Writes says whether changes would be taken: refused where the database is not ok, and from the first write that
	// failed until one succeeds.
	Writes string `json:"writes" enums:"accepted,refused" example:"accepted"`
	// DatabaseFaults counts what in the database is not as the service wrote it; vramplan verify shows it.
	DatabaseFaults int `json:"database_faults,omitempty" example:"0"`
}

// health says that the process runs.
//
//	@Summary		Is the process alive?
//	@Description	Depends on nothing else; an orchestrator restarts the process when it fails.
//	@ID				health
//	@Tags			operations
//	@Produce		json
//	@Success		200	{object}	Health
//	@Failure		400	{object}	problem.Problem
//	@Router			/healthz [get]
func (a *API) health() endpoint {
	return func(http.ResponseWriter, *http.Request, query) (any, error) { return Health{Status: "ok"}, nil }
}

// ready says that requests may be sent here.
//
//	@Summary		Is the service ready for requests?
//	@Description	503 while the service drains before it stops. A database that is gone does not make the service unready: answers go on from the last catalog that was read. With for=writes it does, and so does one whose writes failed, until one succeeds again.
//	@ID				ready
//	@Tags			operations
//	@Produce		json
//	@Param			for		query		string	false	"What requests would be sent here"	Enums(answers, writes)	default(answers)
//	@Success		200		{object}	Readiness
//	@Failure		400,503	{object}	problem.Problem
//	@Router			/readyz [get]
func (a *API) ready() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		purpose, given := q["for"]
		if given && purpose != "answers" && purpose != "writes" {
			return nil, problem.New(problem.InvalidQuery, "for is %q; accepted: answers, writes.", clip(purpose))
		}
		if a.draining.Load() {
			p := problem.New(problem.Unavailable, "The service is shutting down.")
			p.RetryAfterSeconds = 5
			return nil, p
		}
		if err := a.service.Ready(r.Context()); err != nil {
			return nil, err
		}
		database := a.service.Database()
		ready := Readiness{Status: "ready", Catalog: a.service.CatalogRevision(),
			Calibration: a.service.CalibrationStatus().Calibration,
			Database:    database.Status, Writes: "refused", DatabaseFaults: max(database.Faults, database.StoreFaults)}
		if database.TakesWrites() {
			ready.Writes = "accepted"
		}
		if purpose == "writes" && ready.Writes != "accepted" {
			p := problem.New(problem.Unavailable, "Changes are refused: the database is %s.", database.Status)
			if database.Status == service.DatabaseOK {
				p = problem.New(problem.Unavailable, "Changes are refused: every write to the database has failed since %s.",
					database.WritesRefusedSince.UTC().Format(time.RFC3339))
			}
			p.RetryAfterSeconds = 5
			return nil, p
		}
		return ready, nil
	}
}
