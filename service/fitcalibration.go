package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/invalid"
)

// CalibrationFit asks for a calibration of the observations that there are.
type CalibrationFit struct {
	// Since and Until leave out observations that came in before or after, in RFC 3339. Software changes, and what was
	// measured with an older one says little of the present.
	Since string `json:"since,omitempty" validate:"omitempty,max=40" example:"2026-06-01T00:00:00Z"`
	Until string `json:"until,omitempty" validate:"omitempty,max=40" example:"2026-11-22T00:00:00Z"`
	Note  string `json:"note,omitempty" validate:"omitempty,max=1000"`
	// DryRun shows what would be fitted and stores nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Activate makes answers with it from now on, unless somebody else activates one while the fit is made.
	Activate bool `json:"activate,omitempty"`
}

// FittedCalibration is what became of a fit.
type FittedCalibration struct {
	*Calibration
	// Stored is false after a dry run; Known says that a calibration with the same figures was there already: this is
	// that one.
	Stored bool `json:"stored"`
	Known  bool `json:"known,omitempty"`
	// Pending says that the fit goes on, and everything else is missing: the same request finds what became of it.
	Pending bool `json:"pending,omitempty"`
	// Activation is there where it was asked for, and where the service's policy decided on the calibration: then it
	// may have been refused.
	Activation *Activation `json:"activation,omitempty"`
}

// maxSkipped bounds the groups that a calibration lists as not fitted.
const maxSkipped = 100

// fit is FitCalibration in its turn.
func (s *Service) fit(ctx context.Context, by Author, f CalibrationFit) (*FittedCalibration, error) {
	since, until, err := f.check()
	if err != nil {
		return nil, err
	}
	before, err := s.activeNow(ctx, f)
	if err != nil {
		return nil, err
	}
	set := ObservationSet{Since: f.Since, Until: f.Until}
	rows, tally, err := s.measuredRows(ctx, since, until, &set)
	if err != nil {
		return nil, err
	}
	groups, skipped := calibration.Fit(rows)
	c := &Calibration{CreatedAt: s.now().UTC(), By: by, Note: f.Note, Estimator: estimator.Version,
		Base:         estimator.Calibration,
		Observations: set, Groups: groups, Skipped: skipped[:min(len(skipped), maxSkipped)]}
	if len(groups) == 0 && !f.DryRun {
		return nil, failed(CodeConflict, "%s", tooFew(c))
	}
	if c.Digest, err = digestOf(groups); err != nil {
		return nil, err
	}
	c.HeldOut = calibration.HoldOut(rows)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := calibration.New("fitted now", c.Estimator, c.Base, groups)
	if err != nil {
		return nil, fmt.Errorf("use the calibration that was fitted: %w", err)
	}
	c.Accuracy = tally.with(value)
	if f.DryRun {
		c.ID = "dry-run"
		return &FittedCalibration{Calibration: c}, nil
	}
	return s.storeFit(ctx, by, f, c, before)
}

func (s *Service) storeFit(ctx context.Context, by Author, f CalibrationFit, c *Calibration,
	before Precondition) (*FittedCalibration, error) {
	writing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, known, err := s.store.AddCalibration(writing, c.Digest, func(number int64) *Calibration {
		named := *c
		named.Number, named.ID = number, fmt.Sprintf("%s%d-%s", calibrationPrefix, number, c.Digest[:12])
		return &named
	})
	if err != nil {
		return nil, storeError(err, "the database did not confirm the calibration: list the calibrations, or fit "+
			"again; the same figures are stored once")
	}
	_ = s.Refresh(ctx) // where it cannot be read now, the next look brings it
	result := &FittedCalibration{Calibration: stored, Stored: true, Known: known}
	switch {
	case f.Activate:
		if result.Activation, err = s.Activate(ctx, by, stored.ID, before); err != nil {
			if e, ok := errors.AsType[*Error](err); ok {
				return nil, &Error{Code: e.Code, Message: fmt.Sprintf("%s is stored and was not activated: %s",
					stored.ID, e.Message), Err: e.Err}
			}
			return nil, err
		}
	case s.policy == ActivateHeldOutBetter:
		if result.Activation, err = s.decide(ctx, stored); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// activeNow is what a fit that is to be activated takes the place of: what is active when it begins.
func (s *Service) activeNow(ctx context.Context, f CalibrationFit) (known Precondition, err error) {
	if !f.Activate {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	mark, err := s.store.CalibrationMark(ctx)
	if err != nil {
		return known, storeError(err, "the active calibration could not be read")
	}
	return Precondition{Versions: []string{activationVersion(mark.Activations)}}, nil
}

func (f *CalibrationFit) check() (since, until time.Time, err error) {
	var wrong invalid.List
	textOf(&wrong)("/note", f.Note)
	at := func(pointer, text string) (t time.Time) {
		if text == "" {
			return t
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			wrong.Add(pointer, "wrong_type", "%.40q was given; accepted: a time such as 2026-11-22T10:00:00Z", text)
		}
		return t
	}
	since, until = at("/since", f.Since), at("/until", f.Until)
	if f.Until == "" {
		until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if wrong.Err() == nil && !since.Before(until) {
		wrong.Add("/until", "conflict", "%s is not after since, %s", f.Until, f.Since)
	}
	if f.DryRun && f.Activate {
		wrong.Add("/activate", "conflict", "a dry run stores nothing that could be activated")
	}
	return since, until, wrong.Err()
}

// tooFew says what is missing for a fit.
func tooFew(c *Calibration) string {
	text := fmt.Sprintf("no group of jobs has enough runs for a fit: of %d observations %d can be used",
		c.Observations.Read, c.Observations.Used)
	if len(c.Skipped) == 0 {
		return text
	}
	largest := slices.MaxFunc(c.Skipped, func(a, b calibration.Skipped) int { return a.Jobs - b.Jobs })
	return fmt.Sprintf("%s; the largest group (%s) has %d different jobs, and %s", text, largest.Key, largest.Jobs,
		largest.Reason)
}

// What is in memory at once of the observations: those of older programs may have a megabyte each.
const (
	observationsPage  = 1000
	observationsBytes = 4 << 20
)

// eachObservation hands observations to do, the newest first, until it wants no more.
func (s *Service) eachObservation(ctx context.Context, f ObservationFilter,
	do func(*Observation) (more bool, err error)) error {
	f.Before, f.Limit, f.MaxBytes = "", observationsPage, observationsBytes
	for {
		list, older, err := s.Observations(ctx, f)
		if err != nil {
			return err
		}
		for i := range list {
			if more, err := do(&list[i]); err != nil || !more {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if !older || len(list) == 0 {
			return nil
		}
		f.Before = list[len(list)-1].ID
	}
}

// runTally keeps the runs of a fit by group, to say how it does on them.
type runTally struct {
	tallies tallies
	runs    []talliedRun
}

type talliedRun struct {
	tally *accuracyTally
	row   calibration.Row
}

// with is how the built-in constants and a calibration do on the runs.
func (t *runTally) with(c *calibration.Calibration) []AccuracyGroup {
	for i := range t.runs {
		t.runs[i].tally.again(&t.runs[i].row, c)
	}
	return t.tallies.groups(true)
}

// maxNamed bounds the observations that a calibration names as too dear.
const maxNamed = 100

// measuredRows reads the newest observations as the fit takes them. Those whose replay takes too long are left out, and
// so are those for which no time is left.
func (s *Service) measuredRows(ctx context.Context, since, until time.Time,
	set *ObservationSet) ([]calibration.Row, *runTally, error) {
	budget, cancel := context.WithTimeout(ctx, s.fits.budget)
	defer cancel()
	replays := s.newReplays(budget)
	ids := sha256.New()
	var rows []calibration.Row
	tally := &runTally{tallies: tallies{}}
	err := s.eachObservation(ctx, ObservationFilter{}, func(o *Observation) (more bool, err error) {
		if o.At.Before(since) || !o.At.Before(until) {
			return !o.At.Before(since), nil
		}
		if set.Read++; set.Last == "" {
			set.Last = o.ID
		}
		set.First = o.ID
		more = set.Read < maxReported
		if o.Quarantined != "" {
			set.Quarantined++
			return more, nil
		}
		these, err := replays.rows(o)
		switch {
		case errors.Is(err, errDear) && ctx.Err() == nil:
			if set.TooDear++; len(set.Skipped) < maxNamed {
				set.Skipped = append(set.Skipped, o.ID)
			}
			return more, nil
		case err != nil:
			return false, err
		case len(these) == 0:
			set.Unanswered++
			return more, nil
		}
		set.Used++
		rows = append(rows, these...)
		mine := tally.tallies.of(o)
		mine.add(o)
		// of several, that for the job as it was asked
		tally.runs = append(tally.runs, talliedRun{mine, these[len(these)-1]})
		fmt.Fprintln(ids, o.ID)
		return more, nil
	})
	set.Digest = hex.EncodeToString(ids.Sum(nil))
	return rows, tally, err
}
