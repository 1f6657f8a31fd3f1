package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// ModelList is the model catalog.
type ModelList struct {
	// Catalog is the revision of the catalog.
	Catalog string          `json:"catalog" example:"c-2"`
	Models  []catalog.Model `json:"models"`
	// NextPageToken is there where more entries follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// listModels lists the model catalog.
//
//	@Summary		List the models
//	@Description	The models that a job may name as model.preset, with their dimensions and exact parameter counts; of recorded ones what was recorded, without the recording itself. Parameters narrow the list and combine. The whole list is one page unless page_size is given.
//	@ID				listModels
//	@Tags			catalog
//	@Produce		json
//	@Param			q				query		string	false	"Part of an id or alias"
//	@Param			family			query		string	false	"The architecture, such as llama"
//	@Param			kind			query		string	false	"decoder, encoder, …"
//	@Param			page_size		query		int		false	"How many entries; all if not given"	minimum(1) maximum(1000)
//	@Param			page_token		query		string	false	"next_page_token of the page before"
//	@Param			If-None-Match	header		string	false	"ETag of the list that the client has"
//	@Success		200				{object}	ModelList
//	@Success		304				"The client's list is the present one"
//	@Failure		400,429,500,503	{object}	problem.Problem
//	@Router			/v1/models [get]
func (a *API) listModels() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		models, err := a.service.Models(r.Context(), service.ModelFilter{Query: q["q"], Family: q["family"],
			Kind: q["kind"]})
		if err != nil {
			return nil, err
		}
		part, next, err := pageOf(q, models.Entries, func(m *catalog.Model) string { return m.ID })
		if err != nil {
			return nil, err
		}
		list := ModelList{Catalog: models.Catalog, Models: make([]catalog.Model, len(part)), NextPageToken: next}
		for i := range part {
			list.Models[i] = withAliases(part[i])
			list.Models[i].Recorded, list.Models[i].HFConfig = nil, nil // GET of the one model has them
		}
		return versioned(w, r, models.Catalog, list)
	}
}

// getModel shows one model.
//
//	@Summary		Get a model
//	@Description	By id, alias, or the last part of an id where only one has it. Ids with a slash may be written as they are or with %2F. The ETag is for If-Match of a change.
//	@ID				getModel
//	@Tags			catalog
//	@Produce		json
//	@Param			id				path		string	true	"Any name of the model"
//	@Param			If-None-Match	header		string	false	"ETag of the entry that the client has"
//	@Success		200				{object}	catalog.Model
//	@Success		304				"The client's entry is the present one"
//	@Failure		400,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/models/{id} [get]
func (a *API) getModel() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		model, err := a.service.Model(r.Context(), pathParam(r, "*"))
		if err != nil {
			return nil, err
		}
		return versioned(w, r, model.Version(), withAliases(*model))
	}
}

// putModel creates or replaces a model.
//
//	@Summary		Create or replace a model
//	@Description	The body is the whole entry, which the estimator must be able to replay: its dimensions, or recorded with what vramplan_record wrote. If-None-Match: * creates one, If-Match with its ETag replaces one. An entry with the id of a built-in one stands in its place until it is deleted, upgrades included. 200 and 201 are sent when the entry is durably stored; every replica answers with it within seconds.
//	@ID				putModel
//	@Tags			catalog
//	@Accept			json
//	@Produce		json
//	@Security		key
//	@Param			id				path		string				true	"The id: an organisation, a slash and a name, or a name"
//	@Param			If-Match		header		string				false	"ETag of the entry to replace"
//	@Param			If-None-Match	header		string				false	"* to create an entry"
//	@Param			entry			body		service.ModelEntry	true	"The entry"
//	@Success		200				{object}	catalog.Model
//	@Success		201				{object}	catalog.Model
//	@Failure		400,401,403,408,409,412,413,415,422,428,429,500,503	{object}	problem.Problem
//	@Router			/v1/models/{id} [put]
func (a *API) putModel() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return putEntry(a, w, r, "*", a.service.PutModel)
	}
}

// deleteModel removes a user's model.
//
//	@Summary		Delete a model
//	@Description	Removes an entry that users made. A built-in entry that it stood in place of is back then. Built-in entries cannot be deleted.
//	@ID				deleteModel
//	@Tags			catalog
//	@Security		key
//	@Param			id			path	string	true	"The id"
//	@Param			If-Match	header	string	false	"ETag of the entry; required"
//	@Success		204			"The entry is gone"
//	@Failure		400,401,403,404,409,412,428,429,500,503	{object}	problem.Problem
//	@Router			/v1/models/{id} [delete]
func (a *API) deleteModel() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return a.deleteEntry(r, service.ModelEntryKind, pathParam(r, "*"))
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
