package api

import (
	"net/http"

	"github.com/rs/zerolog/hlog"

	"github.com/vramplan/vramplan/service"
)

// deleteObservation deletes an observation.
//
//	@Summary		Delete an observation
//	@Description	For what was reported by mistake, or should not be kept. 204 means that it is durably gone; calibrations that were fitted to it stay as they are. Needs the scope observations:write.
//	@ID				deleteObservation
//	@Tags			observations
//	@Security		key
//	@Param			id	path	string	true	"The id, as the list has it"
//	@Success		204	"It is gone"
//	@Failure		400,401,403,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/observations/{id} [delete]
func (a *API) deleteObservation() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		by, err := a.author(r, service.ScopeObservationsWrite)
		if err != nil {
			return nil, err
		}
		id := pathParam(r, "id")
		if err := a.service.DeleteObservation(r.Context(), by, id); err != nil {
			return nil, err
		}
		identify(hlog.FromRequest(r).Info(), r).Str("observation", id).Str("key",
			by.KeyID).Msg("an observation was deleted")
		return reply{status: http.StatusNoContent}, nil
	}
}
