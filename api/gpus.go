package api

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// GPUList is the GPU catalog.
type GPUList struct {
	// Catalog is the revision of the catalog.
	Catalog string        `json:"catalog" example:"c-1"`
	GPUs    []catalog.GPU `json:"gpus"`
}

// listGPUs lists the GPU catalog.
//
//	@Summary		List the GPUs
//	@Description	The GPUs that a job may name, with what nvidia-smi and PyTorch see of their memory. Parameters narrow the list and combine.
//	@ID				listGPUs
//	@Tags			catalog
//	@Produce		json
//	@Param			q					query		string	false	"Part of an id, name or alias"
//	@Param			vendor				query		string	false	"NVIDIA, AMD, …"
//	@Param			min_usable_bytes	query		int		false	"Only GPUs with at least this much usable memory"	minimum(0) maximum(9007199254740991)
//	@Success		200					{object}	GPUList
//	@Failure		400,429,500,503		{object}	problem.Problem
//	@Router			/v1/gpus [get]
func (a *API) listGPUs() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		least, err := q.number("min_usable_bytes")
		if err != nil {
			return nil, err
		}
		gpus, err := a.service.GPUs(r.Context(), service.GPUFilter{Query: q["q"], Vendor: q["vendor"], MinUsableBytes: least})
		if err != nil {
			return nil, err
		}
		if gpus == nil {
			gpus = []catalog.GPU{}
		}
		return GPUList{Catalog: a.service.CatalogRevision(), GPUs: gpus}, nil
	}
}

// getGPU shows one GPU.
//
//	@Summary		Get a GPU
//	@Description	By id, alias, the name that nvidia-smi prints, or a Kubernetes node label.
//	@ID				getGPU
//	@Tags			catalog
//	@Produce		json
//	@Param			id	path		string	true	"Any name of the GPU"
//	@Success		200	{object}	catalog.GPU
//	@Failure		400,404,429,500,503	{object}	problem.Problem
//	@Router			/v1/gpus/{id} [get]
func (a *API) getGPU() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		return found(a.service.GPU(r.Context(), pathParam(r, "id")))
	}
}

// found keeps a nil pointer of a failed look-up from becoming an answer.
func found[T any](v *T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
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
