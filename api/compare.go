package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// compare says why two jobs differ.
//
//	@Summary		Compare the memory of two jobs
//	@Description	Two jobs as a and b. Returns the bytes of both by component, and for every field in which they differ, said or left to a default, what it moves: the causes add up to the difference of the two to the byte.
//	@ID				compare
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			jobs	body		jobdoc.Comparison	true	"The two jobs"
//	@Param			calibration	query		string	false	"Answer both with this calibration; the active one if not given"
//	@Success		200		{object}	compare.Comparison
//	@Failure		400,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/compare [post]
func (a *API) compare() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		pinned, err := q.calibration()
		if err != nil {
			return nil, err
		}
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		jobs, err := jobdoc.DecodeComparison(body)
		if err != nil {
			return nil, a.service.Names(r.Context(), a.service.Names(r.Context(), err, jobs.A, "/a"), jobs.B, "/b")
		}
		return a.service.Compare(r.Context(), jobs.A, jobs.B, service.CompareOptions{Calibration: pinned})
	}
}
