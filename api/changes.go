package api

import (
	"net/http"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

// ChangeList is a part of the catalog's history.
type ChangeList struct {
	Changes []service.HistoryEntry `json:"changes"`
	// NextPageToken is there where older changes follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

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
		page, before, err := q.numbered()
		if err != nil {
			return nil, err
		}
		filter.Before, filter.Limit = before, page.limit
		list, err := a.service.History(r.Context(), filter)
		if err != nil {
			return nil, err
		}
		var answer ChangeList
		answer.Changes, answer.NextPageToken = pageNumbered(page, list, func(h *service.HistoryEntry) int64 {
			return h.Change
		})
		w.Header().Set("Cache-Control", "no-store")
		return answer, nil
	}
}
