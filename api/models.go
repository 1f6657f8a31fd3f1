package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// ModelList is the model catalog.
type ModelList struct {
	// Catalog is the revision of the catalog.
	Catalog string          `json:"catalog" example:"c-1"`
	Models  []catalog.Model `json:"models"`
}

// listModels lists the model catalog.
//
//	@Summary		List the models
//	@Description	The models that a job may name as model.preset, with their dimensions and exact parameter counts. Parameters narrow the list and combine.
//	@ID				listModels
//	@Tags			catalog
//	@Produce		json
//	@Param			q		query		string	false	"Part of an id or alias"
//	@Param			family	query		string	false	"The architecture, such as llama"
//	@Param			kind	query		string	false	"decoder, encoder, …"
//	@Success		200		{object}	ModelList
//	@Failure		400,429,500,503	{object}	problem.Problem
//	@Router			/v1/models [get]
func (a *API) listModels() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		models, err := a.service.Models(r.Context(), service.ModelFilter{Query: q["q"], Family: q["family"], Kind: q["kind"]})
		if err != nil {
			return nil, err
		}
		list := ModelList{Catalog: a.service.CatalogRevision(), Models: make([]catalog.Model, len(models))}
		for i := range models {
			list.Models[i] = withAliases(models[i])
		}
		return list, nil
	}
}

// getModel shows one model.
//
//	@Summary		Get a model
//	@Description	By id, alias, or the last part of an id where only one has it. Ids with a slash may be written as they are or with %2F.
//	@ID				getModel
//	@Tags			catalog
//	@Produce		json
//	@Param			id	path		string	true	"Any name of the model"
//	@Success		200	{object}	catalog.Model
//	@Failure		400,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/models/{id} [get]
func (a *API) getModel() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		model, err := a.service.Model(r.Context(), pathParam(r, "*"))
		if err != nil {
			return nil, err
		}
		return withAliases(*model), nil
	}
}

// withAliases is m with a list of aliases, which is empty rather than null. The
// catalog's own entry is shared and stays as it is.
func withAliases(m catalog.Model) catalog.Model {
	if m.Aliases == nil {
		m.Aliases = []string{}
	}
	return m
}
