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
	return workAt(a, r, nil, do)
}

// workAt is work for a job that may be quick: it does not wait for a slot behind those that are not. quick is nil, or
// says so; it is asked where no slot is free.
func workAt[T any](a *API, r *http.Request, quick func() bool, do func(context.Context) (T, error)) (T, error) {
	return workIn(a, r, func(ctx context.Context, client string) (*gate, error) {
		return a.enter(ctx, client, quick)
	}, do)
}

// reading is work on a stranger's files. It has slots of its own, as many as there are processes for it, so that those
// who wait for one keep no slot from an estimate.
func reading[T any](a *API, r *http.Request, do func(context.Context) (T, error)) (T, error) {
	return workIn(a, r, func(ctx context.Context, client string) (*gate, error) {
		return a.readings, a.readings.enter(ctx, client)
	}, do)
}

// workIn is work behind a gate.
func workIn[T any](a *API, r *http.Request, enter func(ctx context.Context, client string) (*gate, error),
	do func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(r.Context(), a.limits.RequestTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	client := clientOf(ctx)
	ctx, had := service.ForClient(ctx, client)
	slots, err := enter(ctx, client)
	if err != nil {
		if errors.Is(err, errShed) {
			err = a.shed("jobs")
		}
		return none, err
	}
	done := make(chan outcome[T], 1)
	leave := a.atWork.enter(ctx, giveUp)
	go func() {
		began := time.Now()
		// Estimates that give way to others take longer than what they had of the cores.
		defer func() { slots.leave(client, cmp.Or(had(), time.Since(began))) }()
		var o outcome[T]
		defer func() {
			if cause := recover(); cause != nil {
				a.panicked(r, cause, debug.Stack())
				o.err = errPanicked
			}
			leave()
			done <- o
		}()
		o.value, o.err = do(ctx)
	}()
	select {
	case o := <-done:
		if o.err != nil && ctx.Err() != nil && errors.Is(o.err, ctx.Err()) {
			o.err = ended(ctx)
		}
		return o.value, o.err
	case <-ctx.Done():
		go a.outlives(routeOf(r), func() { <-done })
		return none, ended(ctx)
	}
}

// mostOutlives is how long work may go on when nobody waits for it any more.
const mostOutlives = 100 * time.Millisecond

// outlives counts work that goes on for too long after its request has ended; wait returns when it is over.
func (a *API) outlives(route string, wait func()) {
	late := time.AfterFunc(mostOutlives, func() {
		a.metrics.outliving.Inc()
		a.metrics.outlived.WithLabelValues(route).Inc()
	})
	wait()
	if !late.Stop() {
		a.metrics.outliving.Dec()
	}
}

// enter waits for a slot, and says of which gate.
func (a *API) enter(ctx context.Context, client string, quick func() bool) (*gate, error) {
	slots := a.gate
	switch {
	case a.gate.enterFree(client):
		return a.gate, nil
	case quick != nil && quick():
		slots = a.quick
	}
	return slots, slots.enter(ctx, client)
}

// full says whether a job of this client would be sent away now whatever it is, so that its document need not be read.
func (a *API) full(client string) bool { return a.gate.full(client) && a.quick.full(client) }

// panicked notes a fault of the program. What it was stays in the log.
func (a *API) panicked(r *http.Request, cause any, stack []byte) {
	failure(r).Interface("panic", cause).Bytes("stack", stack).Msg("panic")
	a.metrics.panics.Inc()
}
