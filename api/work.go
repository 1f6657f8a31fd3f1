package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/vramplan/vramplan/service"
)

// outcome is what became of a job.
type outcome[T any] struct {
	value T
	err   error
}

// work does a job in its turn and waits for it, but no longer than jobs may take.
// What took too long ends within milliseconds, and keeps its slot until then: late
// jobs never add up.
func work[T any](a *API, r *http.Request, do func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(r.Context(), a.limits.RequestTimeout)
	defer cancel()
	client := clientOf(ctx)
	ctx, had := service.ForClient(ctx, client)
	if err := a.gate.enter(ctx, client); err != nil {
		if errors.Is(err, errShed) {
			err = a.shed("jobs")
		}
		return none, err
	}
	done := make(chan outcome[T], 1)
	go func() {
		began := time.Now()
		// Estimates that give way to others take longer than what they had of the cores.
		defer func() { a.gate.leave(client, cmp.Or(had(), time.Since(began))) }()
		var o outcome[T]
		defer func() {
			if cause := recover(); cause != nil {
				a.panicked(r, cause, debug.Stack())
				o.err = errPanicked
			}
			done <- o
		}()
		o.value, o.err = do(ctx)
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// panicked notes a fault of the program. What it was stays in the log.
func (a *API) panicked(r *http.Request, cause any, stack []byte) {
	failure(r).Interface("panic", cause).Bytes("stack", stack).Msg("panic")
	a.metrics.panics.Inc()
}
