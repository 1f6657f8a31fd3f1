package api

import (
	"cmp"
	"math"
	"net/http"
	"runtime"
	"time"

	"github.com/go-chi/httprate"

	"github.com/vramplan/vramplan/api/problem"
)

// Limits bound what clients can take of the service. A zero means the default of
// [DefaultLimits], but for RatePerSecond, where it means none.
type Limits struct {
	// RatePerSecond bounds the requests of one client.
	RatePerSecond float64
	// MaxConcurrent bounds the jobs that are worked on at once, MaxQueue those that
	// wait for their turn, and QueueTimeout how long.
	MaxConcurrent, MaxQueue int
	QueueTimeout            time.Duration
	// MaxReadings bounds the readings of files that are worked on at once, beside the jobs.
	MaxReadings int
	// MaxConcurrentPerClient bounds those of one client that are worked on at once.
	MaxConcurrentPerClient int
	// MaxConnections bounds the open connections of a listener, MaxConnectionsPerClient those of one client, and
	// MaxIdlePerClient those of them that wait for a request.
	MaxConnections, MaxConnectionsPerClient, MaxIdlePerClient int
	// BytesOutPerSecond bounds the bytes of answers that one client gets; it may have four seconds' worth at once.
	BytesOutPerSecond int64
	// MaxHeldBytes bounds the bytes of documents and answers in memory.
	MaxHeldBytes int64

	// HeaderTimeout is how long the header of a request may take to arrive,
	// BodyTimeout its document or the next line of a batch.
	HeaderTimeout, BodyTimeout time.Duration
	// RequestTimeout is how long a job may take, WriteTimeout how long its client
	// may take to read the answer, or the next lines of a batch's.
	RequestTimeout, WriteTimeout time.Duration
	// IdleTimeout is how long a connection stays open between requests.
	IdleTimeout time.Duration
}

// DefaultLimits are what a service has that was told nothing else.
func DefaultLimits() Limits {
	return Limits{
		// A job keeps one core busy. More jobs at once than a few a core answer no
		// sooner, but with fewer a slow job holds up the fast ones behind it.
		MaxConcurrent: max(16, 4*runtime.GOMAXPROCS(0)),
		MaxQueue:      256,
		QueueTimeout:  2 * time.Second,
		// An idle connection takes about 10 KiB.
		MaxConnections: 8192,
		// Somewhat more than a client gets on loopback that does nothing but ask the same again, on two cores.
		BytesOutPerSecond: 64 << 20,
		MaxHeldBytes:      128 << 20,
		HeaderTimeout:     5 * time.Second,
		BodyTimeout:       15 * time.Second,
		RequestTimeout:    20 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
	}
}

// withDefaults fills in what is not given.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	l.MaxConcurrent = cmp.Or(l.MaxConcurrent, d.MaxConcurrent)
	l.MaxQueue = cmp.Or(l.MaxQueue, d.MaxQueue)
	l.QueueTimeout = cmp.Or(l.QueueTimeout, d.QueueTimeout)
	// A quarter of the slots keeps all cores busy, and leaves the others to whoever else asks.
	l.MaxReadings = cmp.Or(l.MaxReadings, l.MaxConcurrent)
	l.MaxConcurrentPerClient = min(l.MaxConcurrent, cmp.Or(l.MaxConcurrentPerClient, max(2, l.MaxConcurrent/4)))
	l.MaxConnections = cmp.Or(l.MaxConnections, d.MaxConnections)
	l.MaxConnectionsPerClient = min(l.MaxConnections, cmp.Or(l.MaxConnectionsPerClient, max(16, l.MaxConnections/8)))
	l.MaxIdlePerClient = min(l.MaxConnectionsPerClient, cmp.Or(l.MaxIdlePerClient, max(8, l.MaxConnectionsPerClient/4)))
	l.BytesOutPerSecond = cmp.Or(l.BytesOutPerSecond, d.BytesOutPerSecond)
	l.MaxHeldBytes = cmp.Or(l.MaxHeldBytes, d.MaxHeldBytes)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, d.HeaderTimeout)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, d.BodyTimeout)
	l.RequestTimeout = cmp.Or(l.RequestTimeout, d.RequestTimeout)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, d.WriteTimeout)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, d.IdleTimeout)
	return l
}

// rateLimit bounds the requests of one client to some times the rate that the service was given.
func (a *API) rateLimit(times float64) func(http.Handler) http.Handler {
	rate := times * a.options.Limits.RatePerSecond
	if rate <= 0 {
		return func(next http.Handler) http.Handler { return next }
	}
	requests, window := rateWindow(rate)
	return httprate.LimitBy(requests, window,
		func(r *http.Request) (string, error) { return senderOf(r), nil },
		httprate.WithLimitHandler(func(w http.ResponseWriter, r *http.Request) {
			p := problem.New(problem.RateLimited, "More than %d requests in %s from one client.", requests,
				window.Round(time.Millisecond))
			p.RetryAfterSeconds = max(1, int(math.Ceil(window.Seconds())))
			a.metrics.shed.WithLabelValues("rate").Inc()
			a.refuse(w, r, p)
		}))
}

// rateWindow is a rate as httprate counts it: whole requests in a window.
func rateWindow(perSecond float64) (requests int, window time.Duration) {
	requests = int(min(math.Ceil(perSecond), math.MaxInt32))
	// A rate below one in 300 years is as good as one in 300 years, and fits a Duration.
	seconds := min(float64(requests)/perSecond, 9e9)
	return requests, max(time.Millisecond, time.Duration(seconds*float64(time.Second)))
}
