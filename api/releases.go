package api

import (
	"net/http"

	"github.com/vramplan/vramplan/estimator/release"
)

// Releases is what is known of releases of the training software.
type Releases struct {
	// Stacks are the sets of releases whose allocations were traced; the first is what counts where a job names no
	// versions.
	Stacks []release.Stack `json:"stacks"`
	// Changes are what releases do otherwise than the rest.
	Changes []release.Change `json:"changes"`
}

// releases lists what releases changed.
//
//	@Summary		Releases of the training software
//	@Description	Which sets of releases were traced, and what each release of torch, transformers and others changed in the replay. training.versions of a job picks the changes.
//	@ID				releases
//	@Tags			operations
//	@Produce		json
//	@Success		200		{object}	Releases
//	@Failure		400,429	{object}	problem.Problem
//	@Router			/v1/releases [get]
func (a *API) releases() endpoint {
	return func(http.ResponseWriter, *http.Request, query) (any, error) {
		return Releases{Stacks: release.Stacks(), Changes: release.Changes()}, nil
	}
}
