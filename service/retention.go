package service

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

const (
	// DefaultMaxObservations is how many observations a database takes: of 16 KiB at most, they are 1.6 GB at worst.
	DefaultMaxObservations = 100_000
	// dropAtOnce bounds the observations that one transaction deletes.
	dropAtOnce = 1000
	// clockSlack is what the clock may differ from the time that this process has run before it is not believed.
	clockSlack = 5 * time.Minute
)

// observationForm is what ids look like. Text that cannot be one is not asked for: databases do not take every text.
var observationForm = regexp.MustCompile(`^obs-[0-9a-z]{1,60}$`)

// DeleteObservation deletes what a user reported.
func (s *Service) DeleteObservation(ctx context.Context, _ Author, id string) error {
	if s.store == nil {
		return noDatabase()
	}
	var deleted bool
	if observationForm.MatchString(id) {
		writing, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		var err error
		if deleted, err = s.store.DeleteObservation(writing, id); err != nil {
			return storeError(err, "the database did not confirm that the observation is gone: ask again")
		}
	}
	if !deleted {
		return failed(CodeNotFound, "there is no observation %.100q", id)
	}
	return nil
}

// roomFor refuses observations beyond what the database takes.
func (s *Service) roomFor(ctx context.Context, n int) error {
	if s.maxObservations <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	mark, err := s.store.ObservationMark(ctx)
	if err != nil {
		return storeError(err, "the observations could not be counted")
	}
	if mark.Count+int64(n) > s.maxObservations {
		return failed(CodeConflict, "the database has %d observations, and takes %d: delete some, or set a retention",
			mark.Count, s.maxObservations)
	}
	return nil
}

// observationID is that of the first observation of a moment.
func observationID(at time.Time) string { return fmt.Sprintf("obs-%012x", max(0, at.UnixMilli())) }

// dropOld deletes observations that are older than they may get. A clock that was set while the process ran is not
// believed: it would delete what is not old.
func (s *Service) dropOld(ctx context.Context) (dropped int64, err error) {
	now := s.now()
	ran := time.Since(s.began)
	if s.retention <= 0 || s.store == nil {
		return 0, nil
	}
	if drift := now.Sub(s.clockAtStart) - ran; drift > clockSlack || drift < -clockSlack {
		return 0, fmt.Errorf("the clock moved by %s since the start: old observations are not deleted "+
			"until the next one", drift.Round(time.Second))
	}
	for {
		step, cancel := context.WithTimeout(ctx, storeTimeout)
		n, err := s.store.DropObservations(step, observationID(now.Add(-s.retention)), dropAtOnce)
		cancel()
		dropped += n
		if err != nil || n < dropAtOnce {
			return dropped, err
		}
	}
}

// retentionInterval is how often observations are looked through for old ones.
const retentionInterval = time.Minute

// Retain deletes observations that got older than they may, until ctx ends. report gets what it deleted, and why it
// could not.
func (s *Service) Retain(ctx context.Context, report func(dropped int64, err error)) {
	for s.retention > 0 {
		if dropped, err := s.dropOld(ctx); ctx.Err() == nil && (dropped > 0 || err != nil) {
			report(dropped, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retentionInterval):
		}
	}
}
