package api

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"
)

// The limits of a connection. A request's body has its own deadline (body.go),
// and so have the lines of a batch.
const (
	headerTimeout  = 5 * time.Second
	answerTimeout  = 60 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 32 << 10
	// shutdownTimeout is how long requests that have begun may take to end.
	shutdownTimeout = 10 * time.Second
)

// Serve answers requests from a listener until ctx is done. Then the service
// says on /readyz that it is not ready, goes on answering for drain so that
// load balancers notice, finishes what has begun, and returns nil.
func (a *API) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	server := &http.Server{
		Handler:           a,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(a.log.With().Str("from", "net/http").Logger(), "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}

	a.draining.Store(true)
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-time.After(drain):
	}
	// ctx is done already, but the requests under way have not been asked to end.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("shut down: %w", err), server.Close())
	}
	return nil
}
