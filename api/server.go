package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/service/workplace"
)

const (
	maxHeaderBytes = 32 << 10
	// maxStreams bounds the requests at once on one connection of HTTP/2.
	maxStreams = 64
	// profileTimeout is the longest profile that the admin listener takes.
	profileTimeout = 2 * time.Minute
)

// Listeners are where and how a service is served.
type Listeners struct {
	// API is where clients come.
	API net.Listener
	// TLS is for API; nil serves without.
	TLS *tls.Config
	// Admin is where operators come; nil serves nothing to them.
	Admin net.Listener
	// Drain is how long the service goes on answering after it has been told to
	// stop, Finish how long after that the requests under way may take.
	Drain, Finish time.Duration
}

// Serve answers requests until ctx is done. Then the service says on /readyz that
// it is not ready, goes on answering for a while so that load balancers notice,
// finishes what has begun, and returns nil.
func (a *API) Serve(ctx context.Context, l Listeners) error {
	if near := workplace.NearMemoryLimit(); near != nil {
		watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last request is answered
		defer stop()
		go a.place.Watch(watching, near, func() {
			a.log.Warn().Msg("the process was near its memory limit: the dearest job was given up")
		})
	}
	// The admin listener is the last to close: its metrics show how the rest ends.
	adminDone := func() error { return nil }
	failed := make(chan error, 2)
	if l.Admin != nil {
		open := a.connections("admin")
		admin := a.server(a.Admin(), open)
		admin.WriteTimeout = profileTimeout
		go func() { failed <- admin.Serve(open.counted(l.Admin)) }()
		adminDone = admin.Close
	}
	open := a.connections("api")
	server := a.server(a, open)
	server.TLSConfig = l.TLS
	go func() {
		if l.TLS != nil {
			failed <- server.ServeTLS(open.counted(l.API), "", "")
		} else {
			failed <- server.Serve(open.counted(l.API))
		}
	}()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve: %w", err), server.Close(), adminDone())
	case <-ctx.Done():
	}

	a.draining.Store(true)
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve: %w", err), server.Close(), adminDone())
	case <-time.After(l.Drain):
	}
	// ctx is done already, but the requests under way have not been asked to end.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Finish)
	defer cancel()
	err := server.Shutdown(last)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were cut off that took longer than %s to end: %w", l.Finish, err),
			server.Close())
	}
	return errors.Join(err, adminDone())
}

// server is a listener's, with a limit for everything that a client may delay.
func (a *API) server(h http.Handler, open *connections) *http.Server {
	limits, work := a.limits, a.place.Limits()
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.HeaderTimeout,
		// For bodies that no handler reads; the others set a deadline of their own.
		ReadTimeout: limits.HeaderTimeout + limits.BodyTimeout,
		// It runs from the header on, so everything before the answer is part of it.
		WriteTimeout:   limits.BodyTimeout + work.QueueTimeout + work.RequestTimeout + limits.WriteTimeout,
		IdleTimeout:    limits.IdleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext:    withClient,
		ConnState:      open.state,
		ErrorLog:       stdlog.New(serverLog{a.log}, "", 0),
	}
}

// serverLog takes the lines that net/http writes itself.
type serverLog struct{ log zerolog.Logger }

// Write implements io.Writer. A failed handshake is the client's doing, and anybody
// can have as many as they like, so it is not worth a line.
func (l serverLog) Write(line []byte) (int, error) {
	event := l.log.Warn()
	if bytes.Contains(line, []byte("TLS handshake error")) {
		event = l.log.Debug()
	}
	event.Str("from", "net/http").Msg(string(bytes.TrimSpace(line)))
	return len(line), nil
}
