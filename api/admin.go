package api

import (
	"net/http"
	"net/http/pprof"
)

// Admin serves what operators need and clients should not see: the metrics and the
// profiles of the process, and the probes beside them, so that a probe does not
// compete with clients for connections.
func (a *API) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.Handle("GET /healthz", a.handle(Route{}, a.health()))
	mux.Handle("GET /readyz", a.handle(Route{Query: []string{"for"}}, a.ready()))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/", a.notFound)
	return a.identified(mux)
}
