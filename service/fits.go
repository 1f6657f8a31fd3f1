package service

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultFitBudget is how long the replays of one fit may take: 10,000 jobs of ten milliseconds take a third of it.
	DefaultFitBudget = 5 * time.Minute
	// defaultFitAwait is how long a request waits for its fit, less than requests may take.
	defaultFitAwait = 10 * time.Second
	// dearReplay is what one job of a fit may take. Half a second is what the largest models of the catalog need on a
	// busy core.
	dearReplay = 5 * time.Second
	// fitKept is for how long the outcome of a fit waits for whoever asked for it.
	fitKept = 10 * time.Minute
)

// fits lets one fit run at a time. A fit that takes longer than its request waits goes on without it; the same request
// sent again waits for the same fit.
type fits struct {
	budget, await time.Duration

	mu   sync.Mutex
	last *fitRun
}

// fitRun is a fit that is under way or has ended.
type fitRun struct {
	// asked is who asked for what.
	asked  string
	cancel context.CancelFunc
	// done is closed when the fields below are there.
	done   chan struct{}
	result *FittedCalibration
	err    error
	ended  time.Time
	// detached says that a request has been answered before the fit was done.
	detached bool
}

// FitCalibration fits a calibration to observations, up to the newest 10,000, and stores it as a new version. The
// result is Pending where the fit takes longer than a request should: it goes on, and the same request finds what
// became of it.
func (s *Service) FitCalibration(ctx context.Context, by Author, f CalibrationFit) (*FittedCalibration, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	if _, _, err := f.check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("name the fit: %w", err)
	}
	await := time.NewTimer(s.fits.await)
	defer await.Stop()
	asked := by.KeyID + " " + string(text)
	for {
		run, own := s.fits.join(ctx, asked, func(ctx context.Context) (*FittedCalibration, error) {
			return s.fit(ctx, by, f)
		})
		select {
		case <-run.done:
			if own {
				return run.result, run.err
			}
		case <-ctx.Done():
			s.fits.leave(run, own)
			return nil, ctx.Err()
		case <-await.C:
			if !own {
				return nil, failed(CodeUnavailable, "another fit is under way: ask again when it is done")
			}
			s.fits.detach(run)
			return &FittedCalibration{Pending: true}, nil
		}
	}
}

// join is the run that a request waits for: its own, or another's that has to end first.
func (x *fits) join(ctx context.Context, asked string, do func(context.Context) (*FittedCalibration,
	error)) (run *fitRun, own bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.last; r != nil {
		select {
		case <-r.done:
			if r.asked == asked && r.detached && time.Since(r.ended) < fitKept {
				x.last = nil // its outcome is handed out once
				return r, true
			}
		default:
			// A fit whose request still waits is that request's alone: who asks the same beside it gets one of their
			// own.
			return r, r.asked == asked && r.detached
		}
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &fitRun{asked: asked, cancel: cancel, done: make(chan struct{})}
	x.last = r
	go func() {
		defer cancel()
		result, err := guarded(work, do)
		x.mu.Lock()
		r.result, r.err, r.ended = result, err, time.Now()
		x.mu.Unlock()
		close(r.done)
	}()
	return r, true
}

// guarded makes a panic of a fit, which may have no request any more, an error.
func guarded(ctx context.Context, do func(context.Context) (*FittedCalibration,
	error)) (result *FittedCalibration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			result, err = nil, &Error{Code: CodeInternal, Message: "the fit failed",
				Err: fmt.Errorf("panic: %v", cause)}
		}
	}()
	return do(ctx)
}

// leave ends a fit whose only request has gone.
func (x *fits) leave(r *fitRun, own bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own && !r.detached {
		r.cancel()
	}
}

func (x *fits) detach(r *fitRun) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.detached = true
}
