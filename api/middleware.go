package api

import (
	"crypto/rand"
	"errors"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/hlog"
)

// around puts what every request gets around its route: an id, a line in the
// log, metrics, headers that keep browsers safe, and an end to panics.
func (a *API) around(next http.Handler) http.Handler {
	h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer a.recovered(w, r)
		next.ServeHTTP(w, r)
	}))
	h = a.identified(hlog.AccessHandler(a.account)(h))
	if a.log.GetLevel() != zerolog.Disabled {
		h = hlog.NewHandler(a.log)(h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.metrics.inFlight.Inc()
		defer a.metrics.inFlight.Dec()
		h.ServeHTTP(w, r)
	})
}

// account notes a request after its answer. Bodies are never logged.
func (a *API) account(r *http.Request, status, size int, took time.Duration) {
	if status == 0 {
		status = http.StatusOK
	}
	a.metrics.answered(routeOf(r), r.Method, status, took)
	if l := hlog.FromRequest(r); l.GetLevel() != zerolog.Disabled {
		event := l.Info()
		if status >= 500 {
			event = l.Error()
		}
		identify(event, r).Str("method", r.Method).Str("route", routeOf(r)).
			Str("path", clip(r.URL.Path)).Int("status", status).Int("bytes", size).
			Float64("duration_ms", math.Round(took.Seconds()*1e6)/1e3).Str("remote", r.RemoteAddr)
		if client := clientOf(r.Context()); client != "" {
			event.Str("client", client)
		}
		event.Msg("request")
	}
}

// routeOf is the documented path of the route that a request took, "unmatched"
// where there was none: a client must not be able to make new time series.
func routeOf(r *http.Request) string {
	c := chi.RouteContext(r.Context())
	if c == nil {
		return "unmatched"
	}
	switch p := c.RoutePattern(); {
	case p == "" || p == "/" && r.URL.Path != "/":
		return "unmatched"
	case p[len(p)-1] == '*':
		return p[:len(p)-1] + "{id}"
	default:
		return p
	}
}

const requestIDHeader = "X-Request-Id"

// Values of headers that all answers share; net/http only reads them.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"DENY"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	// stayWithTLS is for a year, as https://hstspreload.org asks, and for this host alone.
	stayWithTLS = []string{"max-age=31536000"}
	// goElsewhere makes a client connect anew for its next request, which a load
	// balancer then sends to a service that stays.
	goElsewhere = []string{"close"}
)

// identified gives a request its id, the client's own where that is harmless,
// and an answer its safe headers.
func (a *API) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !harmless(id) {
			id = rand.Text()
			r.Header[requestIDHeader] = []string{id}
		}
		h := w.Header()
		h[requestIDHeader] = []string{id}
		h["X-Content-Type-Options"] = nosniff
		h["Referrer-Policy"] = noReferrer
		h["X-Frame-Options"] = noFrames
		h["Content-Security-Policy"] = noContent
		if r.TLS != nil {
			h["Strict-Transport-Security"] = stayWithTLS
		}
		if a.draining.Load() {
			h["Connection"] = goElsewhere
		}
		next.ServeHTTP(w, r)
	})
}

// harmless accepts ids of [A-Za-z0-9._-]{1,64}.
func harmless(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// errPanicked stands for a panic whose value is in the log.
var errPanicked = errors.New("panic")

// failure begins a line about a fault, with the id that the client was given.
func failure(r *http.Request) *zerolog.Event {
	return identify(hlog.FromRequest(r).Error(), r)
}

// recovered turns a panic into a problem. Its value and stack stay in the log.
func (a *API) recovered(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause) // net/http's own way to drop a connection
	}
	a.panicked(r, cause, debug.Stack())
	// Where the answer has begun, net/http ignores the second status.
	a.refuse(w, r, errPanicked)
}
