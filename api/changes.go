package api

import (
	"net/http"
	"strconv"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

// ChangeList is a part of the catalog's history.
type ChangeList struct {
	Changes []service.HistoryEntry `json:"changes"`
	// NextPageToken is there where older changes follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// defaultChanges is the size of a page of the history.
const defaultChanges = 100

// listChanges lists who changed what in the catalog.
//
//	@Summary		List the changes of the catalog
//	@Description	What users changed, the newest first: who, when, and the entry from then on. Kept for ever. Asks the database, so it needs a key with the scope catalog:write.
//	@ID				listChanges
//	@Tags			catalog
//	@Produce		json
//	@Security		key
//	@Param			kind		query		string	false	"Only this kind of entries"	Enums(gpu, model)
//	@Param			id			query		string	false	"Only the entry of this id"
//	@Param			page_size	query		int		false	"How many changes; 100 if not given"	minimum(1) maximum(1000)
//	@Param			page_token	query		string	false	"next_page_token of the page before"
//	@Success		200			{object}	ChangeList
//	@Failure		400,401,403,429,500,503	{object}	problem.Problem
//	@Router			/v1/catalog/changes [get]
func (a *API) listChanges() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		if _, err := a.author(r, service.ScopeCatalogWrite); err != nil {
			return nil, err
		}
		filter := service.HistoryFilter{Kind: service.EntryKind(q["kind"]), ID: q["id"]}
		switch filter.Kind {
		case "", service.GPUEntryKind, service.ModelEntryKind:
		default:
			return nil, problem.New(problem.InvalidQuery, "kind is %q; accepted: gpu, model.", clip(q["kind"]))
		}
		if !printable(filter.ID) {
			return nil, problem.New(problem.InvalidQuery, "id is %q; accepted: printable text.", clip(filter.ID))
		}
		var err error
		if filter.Limit, err = q.pageSize(); err != nil {
			return nil, err
		}
		if filter.Limit == 0 {
			filter.Limit = defaultChanges
		}
		if token, given := q["page_token"]; given {
			if filter.Before, err = strconv.ParseInt(token, 10, 64); err != nil || filter.Before < 1 {
				return nil, problem.New(problem.InvalidQuery, "page_token is %q; accepted: a next_page_token of this list.", clip(token))
			}
		}
		list, err := a.service.History(r.Context(), filter)
		if err != nil {
			return nil, err
		}
		answer := ChangeList{Changes: list}
		if list == nil {
			answer.Changes = []service.HistoryEntry{}
		}
		if n := len(list); n == filter.Limit && list[n-1].Change > 1 {
			answer.NextPageToken = strconv.FormatInt(list[n-1].Change, 10)
		}
		w.Header().Set("Cache-Control", "no-store")
		return answer, nil
	}
}
