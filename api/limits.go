package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

// Limits bound what clients can take of the listeners; what they take of the service its workplace bounds. A zero means
// the default.
type Limits struct {
	// MaxConnections bounds the open connections of a listener, MaxConnectionsPerClient those of one client, and
	// MaxIdlePerClient those of them that wait for a request.
	MaxConnections, MaxConnectionsPerClient, MaxIdlePerClient int

	// HeaderTimeout is how long the header of a request may take to arrive,
	// BodyTimeout its document or the next line of a batch.
	HeaderTimeout, BodyTimeout time.Duration
	// WriteTimeout is how long a client may take to read an answer, or the next lines of a batch's.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection stays open between requests.
	IdleTimeout time.Duration
}

// withDefaults fills in what is not given.
func (l Limits) withDefaults() Limits {
	l.MaxConnections = cmp.Or(l.MaxConnections, 8192) // an idle one takes about 10 KiB
	l.MaxConnectionsPerClient = min(l.MaxConnections, cmp.Or(l.MaxConnectionsPerClient, max(16, l.MaxConnections/8)))
	l.MaxIdlePerClient = min(l.MaxConnectionsPerClient, cmp.Or(l.MaxIdlePerClient, max(8, l.MaxConnectionsPerClient/4)))
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 5*time.Second)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, 15*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 30*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, time.Minute)
	return l
}

// counted refuses a client that asks too often.
func (a *API) counted(admission bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := a.place.Asks(senderOf(r), admission); wait > 0 {
			requests, window := a.place.Rate(admission)
			a.refuse(w, r, a.limited("rate", wait, "More than %d requests in %s from one client.", requests, window))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withinBytesOut refuses a client that has had more bytes than it may.
func (a *API) withinBytesOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := a.place.Unsent(senderOf(r)); wait > 0 {
			a.refuse(w, r, a.limited("bytes", wait, "More than %d bytes of answers a second for one client.",
				a.place.Limits().BytesOutPerSecond))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limited counts a request that is refused since its client had too much, and says when to come back.
func (a *API) limited(what string, wait time.Duration, format string, args ...any) *problem.Problem {
	a.place.Shed(what)
	p := problem.New(problem.RateLimited, format, args...)
	p.RetryAfterSeconds = max(1, int(math.Ceil(wait.Seconds())))
	return p
}

// shed counts a request that is sent away because there is too much to do, or too much in memory.
func (a *API) shed(what string) error {
	a.place.Shed(what)
	if what == "memory" {
		return problem.From(workplace.ErrFullOfBytes)
	}
	return problem.From(workplace.ErrShed)
}

// authorize asks the service whose key this is. Whoever guesses keys is told to come back before it is looked
// for; a key that was accepted before is looked for all the same.
func (a *API) authorize(r *http.Request, token string, scope service.Scope) (service.Author, error) {
	client := senderOf(r)
	if !a.place.MayTry(client, token) {
		return service.Author{}, a.limited("keys", time.Second,
			"More than %d API keys of one client were refused in a short time.", workplace.RefusedKeys)
	}
	by, err := a.service.Keyring().Authorize(r.Context(), token, scope)
	switch code := service.ErrorCode(err); {
	case err == nil, code == service.CodeForbidden:
		a.place.Tried(client, token, true)
	case code == service.CodeUnauthorized:
		a.place.Tried(client, token, false)
	}
	return by, err
}

// work is done in a place that it has at once.
func work[T any](a *API, r *http.Request, do func(context.Context) (T, error)) (T, error) {
	return workplace.Do(r.Context(), a.place, workplace.Long, do)
}

// hold counts what a request has in memory, of which the client is cut off where there is too much. The sender of a
// document can still be told why.
func (a *API) hold(w http.ResponseWriter, answer bool) *workplace.Holder {
	control := http.NewResponseController(w)
	return a.place.Hold(func() {
		_ = control.SetReadDeadline(time.Now())
		if answer {
			_ = control.SetWriteDeadline(time.Now())
		}
	})
}

// noted is err, without what only the log is told: a panic of the work is counted and written down there.
func (a *API) noted(r *http.Request, err error) error {
	if p, ok := errors.AsType[*workplace.Panic](err); ok {
		a.panicked(r, p.Value, p.Stack)
		return errPanicked
	}
	return err
}

// panicked notes a fault of the program. What it was stays in the log.
func (a *API) panicked(r *http.Request, cause any, stack []byte) {
	failure(r).Interface("panic", cause).Bytes("stack", stack).Msg("panic")
	a.metrics.panics.Inc()
}
