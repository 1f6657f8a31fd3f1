package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// GPUList is the GPU catalog.
type GPUList struct {
	// Catalog is the revision of the catalog.
	Catalog string        `json:"catalog" example:"c-2"`
	GPUs    []catalog.GPU `json:"gpus"`
	// NextPageToken is there where more entries follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// listGPUs lists the GPU catalog.
//
//	@Summary		List the GPUs
//	@Description	The GPUs that a job may name, with what nvidia-smi and PyTorch see of their memory. Parameters narrow the list and combine. The whole list is one page unless page_size is given.
//	@ID				listGPUs
//	@Tags			catalog
//	@Produce		json
//	@Param			q					query		string	false	"Part of an id, name or alias"
//	@Param			vendor				query		string	false	"NVIDIA, AMD, …"
//	@Param			min_usable_bytes	query		int		false	"Only GPUs with at least this much usable memory"	minimum(0) maximum(9007199254740991)
//	@Param			page_size			query		int		false	"How many entries; all if not given"	minimum(1) maximum(1000)
//	@Param			page_token			query		string	false	"next_page_token of the page before"
//	@Param			If-None-Match		header		string	false	"ETag of the list that the client has"
//	@Success		200					{object}	GPUList
//	@Success		304					"The client's list is the present one"
//	@Failure		400,429,500,503		{object}	problem.Problem
//	@Router			/v1/gpus [get]
func (a *API) listGPUs() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		least, err := q.number("min_usable_bytes")
		if err != nil {
			return nil, err
		}
		gpus, err := a.service.GPUs(r.Context(), service.GPUFilter{Query: q["q"], Vendor: q["vendor"],
			MinUsableBytes: least})
		if err != nil {
			return nil, err
		}
		answer := GPUList{Catalog: gpus.Catalog}
		if answer.GPUs, answer.NextPageToken, err = pageOf(q, gpus.Entries, func(g *catalog.GPU) string {
			return g.ID
		}); err != nil {
			return nil, err
		}
		if answer.GPUs == nil {
			answer.GPUs = []catalog.GPU{}
		}
		return versioned(w, r, gpus.Catalog, answer)
	}
}

// getGPU shows one GPU.
//
//	@Summary		Get a GPU
//	@Description	By id, alias, the name that nvidia-smi prints, or a Kubernetes node label. The ETag is for If-Match of a change.
//	@ID				getGPU
//	@Tags			catalog
//	@Produce		json
//	@Param			id				path		string	true	"Any name of the GPU"
//	@Param			If-None-Match	header		string	false	"ETag of the entry that the client has"
//	@Success		200				{object}	catalog.GPU
//	@Success		304				"The client's entry is the present one"
//	@Failure		400,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/gpus/{id} [get]
func (a *API) getGPU() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		g, err := a.service.GPU(r.Context(), pathParam(r, "id"))
		if err != nil {
			return nil, err
		}
		return versioned(w, r, g.Version(), g)
	}
}

// putGPU creates or replaces a GPU.
//
//	@Summary		Create or replace a GPU
//	@Description	The body is the whole entry. If-None-Match: * creates one, If-Match with its ETag replaces one. An entry with the id of a built-in one stands in its place until it is deleted, upgrades included. 200 and 201 are sent when the entry is durably stored; every replica answers with it within seconds.
//	@ID				putGPU
//	@Tags			catalog
//	@Accept			json
//	@Produce		json
//	@Security		key
//	@Param			id				path		string				true	"The id: letters, digits, dots, dashes and underscores"
//	@Param			If-Match		header		string				false	"ETag of the entry to replace"
//	@Param			If-None-Match	header		string				false	"* to create an entry"
//	@Param			entry			body		service.GPUEntry	true	"The entry"
//	@Success		200				{object}	catalog.GPU
//	@Success		201				{object}	catalog.GPU
//	@Failure		400,401,403,408,409,412,413,415,422,428,429,500,503	{object}	problem.Problem
//	@Router			/v1/gpus/{id} [put]
func (a *API) putGPU() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return putEntry(a, w, r, "id", a.service.PutGPU)
	}
}

// deleteGPU removes a user's GPU.
//
//	@Summary		Delete a GPU
//	@Description	Removes an entry that users made. A built-in entry that it stood in place of is back then. Built-in entries cannot be deleted.
//	@ID				deleteGPU
//	@Tags			catalog
//	@Security		key
//	@Param			id			path	string	true	"The id"
//	@Param			If-Match	header	string	false	"ETag of the entry; required"
//	@Success		204			"The entry is gone"
//	@Failure		400,401,403,404,409,412,428,429,500,503	{object}	problem.Problem
//	@Router			/v1/gpus/{id} [delete]
func (a *API) deleteGPU() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return a.deleteEntry(r, service.GPUEntryKind, pathParam(r, "id"))
	}
}

// deleteEntry is what the deletes of both lists have in common.
func (a *API) deleteEntry(r *http.Request, kind service.EntryKind, id string) (any, error) {
	by, err := a.author(r, service.ScopeCatalogWrite)
	if err != nil {
		return nil, err
	}
	known, err := precondition(r)
	if err != nil {
		return nil, err
	}
	if err := a.service.DeleteEntry(r.Context(), by, kind, id, known); err != nil {
		return nil, err
	}
	return reply{status: http.StatusNoContent}, nil
}

// putEntry is what the puts of both lists have in common.
func putEntry[D any, E interface{ Version() string }](a *API, w http.ResponseWriter, r *http.Request, param string,
	put func(ctx context.Context, by service.Author, id string, e D, known service.Precondition) (E, bool, error)) (any,
	error) {
	by, err := a.author(r, service.ScopeCatalogWrite)
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
	document, err := jobdoc.Read[D](body)
	if err != nil {
		return nil, problem.Of(problem.InvalidEntry, err)
	}
	entry, created, err := put(r.Context(), by, pathParam(r, param), document, known)
	if err != nil {
		return nil, problem.Of(problem.InvalidEntry, err)
	}
	w.Header().Set("Etag", etag(entry.Version()))
	if created {
		w.Header().Set("Location", r.URL.EscapedPath())
		return reply{status: http.StatusCreated, body: entry}, nil
	}
	return entry, nil
}

// pathParam is a part of the path. chi matches the escaped path where the two
// differ, as in /v1/models/meta-llama%2FLlama-3.1-8B.
func pathParam(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return value
	}
	unescaped, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return unescaped
}
