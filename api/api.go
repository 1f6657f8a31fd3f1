// Package api is vramplan over HTTP: it decodes a request, makes one call of the
// service and encodes the answer. It knows nothing of databases, and the service
// knows nothing of HTTP.
//
// Start at [Routes], the table of everything that is served. Handlers return
// values or errors; one place writes (answer.go), one place turns errors into
// problems (package problem).
//
//	@title			vramplan
//	@version		1
//	@description	Plans the GPU memory of training jobs: a job document in, bytes by component out. Requests are strict: unknown and duplicate fields are refused, all of them at once. Answers are tolerant: clients ignore fields that they do not know. Sizes are in bytes. Equal requests with equal versions get equal bytes.
//	@contact.name	vramplan
//	@license.name	Apache-2.0
//	@tag.name			estimates
//	@tag.description	What a job takes, and the ways to make it fit.
//	@tag.name			assistants
//	@tag.description	Tools for assistants.
//	@tag.name			hooks
//	@tag.description	What schedulers ask before they take a job.
//	@tag.name			catalog
//	@tag.description	The GPUs and models that jobs may name.
//	@tag.name			observations
//	@tag.description	What runs were measured to take, and how predictions did.
//	@tag.name			calibrations
//	@tag.description	What measured runs add to the constants that were not replayed.
//	@tag.name			operations
//	@tag.description	Versions, probes and metrics.
//	@tag.name			documentation
//	@tag.description	Pages and documents for people and tools.
//
//	@securityDefinitions.apikey	key
//	@in							header
//	@name						Authorization
package api

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service/decision"
	"github.com/vramplan/vramplan/service/workplace"
)

// Service is what the API needs of the service.
type Service interface {
	Answers
	Readers
	Cards
	Models
	Entries
	Runs
	Fits
	State
}

// Options configure an API. The zero value is for use within a process: no log,
// no limit of the rate.
type Options struct {
	// Version is the program's.
	Version string
	// Logger gets one line a request; the zero value logs nothing.
	Logger *zerolog.Logger
	// Limits bound what clients can take.
	Limits Limits
	// Origins are those whose pages may call the API from a browser and show its pages in frames ("*" for all);
	// without any, browsers keep them from it.
	Origins []string
	// Proxies are the networks of the proxies whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
	// AdmissionMode is what admission does where its path does not say it; warn by default.
	AdmissionMode decision.Mode
	// AdmissionTimeout is how long admission looks for a verdict; 0 is a time within an API server's patience.
	AdmissionTimeout time.Duration
	// AdminOnly takes the metrics away from the API: they are on [API.Admin] alone.
	AdminOnly bool
	// AnonymousReads lets observations and calibrations be read without a key where the database has keys, too.
	AnonymousReads bool
}

// API answers HTTP requests.
type API struct {
	service Service
	options Options
	log     zerolog.Logger
	router  chi.Router
	metrics *metrics
	limits  Limits
	place   *workplace.Place
	// draining is set when the service has been told to stop.
	draining atomic.Bool
}

// Route is one line of the table of routes.
type Route struct {
	Method string
	// Path as documents and metrics name it.
	Path string
	// Alias is the same without its version; empty where there is none.
	Alias string
	// Query names the parameters that the resource takes; others are refused.
	Query []string

	handle func(*API) endpoint
	// open routes have no limit of the rate: probes and metrics.
	open bool
	// admission has a limit of its own, since its one client asks for all users of a cluster.
	admission bool
	// text is what the pages are made of, which is sent compressed to who takes it so.
	text bool
}

// Routes is everything that is served.
func Routes() []Route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []Route{
		{Method: post, Path: "/v1/estimate", Alias: "/estimate", Query: []string{"timeline", "tensors", "calibration"},
			handle: (*API).estimate},
		{Method: post, Path: "/v1/estimate/batch", Alias: "/estimate/batch",
			Query: []string{"timeline", "tensors", "brief", "verdicts", "at_least", "calibration"}, handle: (*API).estimateBatch},
		{Method: post, Path: "/v1/plan", Alias: "/plan", Query: []string{"frontier", "brief", "calibration"},
			handle: (*API).plan},
		{Method: post, Path: "/v1/compare", Alias: "/compare", Query: []string{"calibration"}, handle: (*API).compare},
		{Method: post, Path: "/v1/diagnose", Alias: "/diagnose", handle: (*API).diagnose},
		{Method: post, Path: "/v1/read", Alias: "/read", handle: (*API).read},

		{Method: post, Path: "/mcp", handle: (*API).mcp},

		{Method: post, Path: "/v1/admission/kubernetes", Alias: "/admission/kubernetes", handle: (*API).admit,
			admission: true},
		{Method: post, Path: "/v1/admission/kubernetes/{mode}", Alias: "/admission/kubernetes/{mode}",
			handle: (*API).admitIn, admission: true},

		{Method: get, Path: "/v1/gpus", Alias: "/gpus", Query: []string{"q", "vendor", "min_usable_bytes", "page_size",
			"page_token"}, handle: (*API).listGPUs},
		{Method: get, Path: "/v1/gpus/{id}", Alias: "/gpus/{id}", handle: (*API).getGPU},
		{Method: put, Path: "/v1/gpus/{id}", Alias: "/gpus/{id}", handle: (*API).putGPU},
		{Method: del, Path: "/v1/gpus/{id}", Alias: "/gpus/{id}", handle: (*API).deleteGPU},
		{Method: get, Path: "/v1/models", Alias: "/models", Query: []string{"q", "family", "kind", "page_size",
			"page_token"}, handle: (*API).listModels},
		{Method: get, Path: "/v1/models/{id}", Alias: "/models/{id}", handle: (*API).getModel},
		{Method: put, Path: "/v1/models/{id}", Alias: "/models/{id}", handle: (*API).putModel},
		{Method: del, Path: "/v1/models/{id}", Alias: "/models/{id}", handle: (*API).deleteModel},
		{Method: get, Path: "/v1/catalog/changes", Alias: "/catalog/changes",
			Query: []string{"kind", "id", "page_size", "page_token"}, handle: (*API).listChanges},

		{Method: post, Path: "/v1/observations", Alias: "/observations", handle: (*API).observe},
		{Method: get, Path: "/v1/observations", Alias: "/observations", Query: []string{"gpu", "family", "page_size",
			"page_token"}, handle: (*API).listObservations},
		{Method: del, Path: "/v1/observations/{id}", Alias: "/observations/{id}", handle: (*API).deleteObservation},
		{Method: get, Path: "/v1/accuracy", Alias: "/accuracy", Query: []string{"gpu", "family", "calibration"},
			handle: (*API).accuracy},

		{Method: get, Path: "/v1/calibrations", Alias: "/calibrations", Query: []string{"page_size", "page_token"},
			handle: (*API).listCalibrations},
		{Method: post, Path: "/v1/calibrations", Alias: "/calibrations", handle: (*API).fitCalibration},
		{Method: get, Path: "/v1/calibrations/active", Alias: "/calibrations/active",
			Query: []string{"page_size", "page_token"}, handle: (*API).listActivations},
		{Method: put, Path: "/v1/calibrations/active", Alias: "/calibrations/active",
			handle: (*API).activateCalibration},
		{Method: get, Path: "/v1/calibrations/{id}", Alias: "/calibrations/{id}", handle: (*API).getCalibration},

		{Method: get, Path: "/v1/releases", Alias: "/releases", handle: (*API).releases},
		{Method: get, Path: "/v1/version", Alias: "/version", handle: (*API).version},
		{Method: get, Path: "/healthz", open: true, handle: (*API).health},
		{Method: get, Path: "/readyz", Query: []string{"for"}, open: true, handle: (*API).ready},
		{Method: get, Path: "/metrics", open: true, handle: (*API).measurements},

		{Method: get, Path: "/openapi.json", handle: (*API).openAPI},
		{Method: get, Path: "/llms.txt", handle: (*API).guide},
		{Method: get, Path: "/docs", text: true, handle: page("docs.html")},
		{Method: get, Path: "/docs/{file}", text: true, handle: (*API).asset},
		{Method: get, Path: "/problems/{code}", handle: (*API).explainProblem},
		{Method: get, Path: "/", text: true, handle: page("index.html")},
	}
}

// New makes an API on a service.
func New(s Service, o Options) *API {
	limits := o.Limits.withDefaults()
	a := &API{service: s, options: o, log: zerolog.Nop(), limits: limits, place: s.Workplace()}
	if o.Logger != nil {
		a.log = *o.Logger
	}
	a.metrics = newMetrics(a)

	a.router = chi.NewRouter()
	a.router.Use(behindProxies(o.Proxies), a.around, crossOrigin(o.Origins))
	compressed := middleware.Compress(5, "text/html", "text/css", "text/javascript")
	for _, route := range Routes() {
		for _, path := range []string{route.Path, route.Alias} {
			if path == "" {
				continue
			}
			handler := a.handle(route, route.handle(a))
			if route.text {
				handler = compressed(handler)
			}
			switch {
			case route.admission:
				handler = a.counted(true, handler)
			case !route.open:
				handler = a.counted(false, a.withinBytesOut(handler))
			}
			a.router.Method(route.Method, pattern(path), handler)
			if route.Method == http.MethodGet {
				a.router.Method(http.MethodHead, pattern(path), handler) // net/http leaves the body out
			}
		}
	}
	a.router.NotFound(a.counted(false, http.HandlerFunc(a.notFound)).ServeHTTP)
	a.router.MethodNotAllowed(a.counted(false, http.HandlerFunc(a.methodNotAllowed)).ServeHTTP)
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// pattern is a documented path as chi writes it. Ids of models hold slashes
// ("meta-llama/Llama-3.1-8B"), so they take the rest of the path.
func pattern(path string) string {
	switch path {
	case "/v1/models/{id}", "/models/{id}":
		return path[:len(path)-len("{id}")] + "*"
	}
	return path
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	a.refuse(w, r, problem.New(problem.NotFound, "%s is not a resource of this service; /openapi.json lists them all.",
		clip(r.URL.Path)))
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodDelete} {
		if a.router.Match(chi.NewRouteContext(), method, routePath(r)) {
			allowed = append(allowed, method)
		}
	}
	w.Header()["Allow"] = []string{join(allowed)}
	a.refuse(w, r, problem.New(problem.MethodNotAllowed, "%s takes %s, not %s.", clip(r.URL.Path), join(allowed),
		clip(r.Method)))
}

// routePath is the path that chi matches.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

func join(words []string) string {
	var b []byte
	for i, w := range slices.Compact(words) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, w...)
	}
	return string(b)
}
