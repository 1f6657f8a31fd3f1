package service

import (
	"context"
	"fmt"
	"time"

	"github.com/vramplan/vramplan/estimator"
)

// Activation is one choice of what answers are made with.
type Activation struct {
	// Number counts the activations of this database.
	Number int64 `json:"number" example:"2"`
	// Calibration is what answers are made with from then on.
	Calibration string    `json:"calibration" example:"cal-3-5f2a9c01d7e4"`
	By          Author    `json:"by"`
	At          time.Time `json:"at" example:"2026-11-22T10:00:00Z"`
	// Refused is the calibration that the policy looked at and did not activate: what was active stays so.
	Refused string `json:"refused,omitempty" example:"cal-4-91c0d7e45f2a"`
	// Reason is the policy's.
	Reason string `json:"reason,omitempty"`
}

// Version names what is active from this activation on, for preconditions of the next one.
func (a *Activation) Version() string { return activationVersion(a.Number) }

// activationVersion is that of the activation of a number; 0 is before the first.
func activationVersion(number int64) string { return fmt.Sprintf("activation-%d", number) }

// ActivationHistory is a part of what was activated, the newest first.
type ActivationHistory struct {
	// Version names what is active now, for a precondition.
	Version string
	List    []Activation
}

// Activations lists what was activated, the newest first.
func (s *Service) Activations(ctx context.Context, f CalibrationFilter) (*ActivationHistory, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	// First the version: a client that acts on an older one than it has seen is only told to look again.
	mark, err := s.store.CalibrationMark(ctx)
	if err != nil {
		return nil, storeError(err, "the activations could not be read")
	}
	list, err := s.store.Activations(ctx, f)
	if err != nil {
		return nil, storeError(err, "the activations could not be read")
	}
	return &ActivationHistory{activationVersion(mark.Activations), list}, nil
}

// Activate makes a calibration, or the built-in constants, what answers are made with from now on, on all replicas.
// known is what the operator says is active.
func (s *Service) Activate(ctx context.Context, by Author, id string, known Precondition) (*Activation, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	if !known.given() {
		return nil, failed(CodePreconditionRequired, "say what is known of the active calibration: If-Match with the "+
			"ETag of /v1/calibrations/active")
	}
	if id != estimator.Calibration {
		c, err := s.findCalibration(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			return nil, s.unknownCalibration(id)
		case !c.fits():
			return nil, failed(CodeConflict, "the calibration %s was fitted to the estimator %s with %s, and this is "+
				"%s with %s: fit a new one", c.ID, c.Estimator, c.Base, estimator.Version, estimator.Calibration)
		}
	}
	a, err := s.activate(ctx, 1, func(newest []Activation) (*Activation, error) {
		last := lastOf(newest)
		if !known.holds(last.Version()) {
			return nil, failed(CodePreconditionFailed, "%s is active now, with the version %q; look at the history "+
				"before changing that", last.Calibration, last.Version())
		}
		return &Activation{Calibration: id, By: by, At: s.now().UTC()}, nil
	})
	if err != nil {
		return nil, storeError(err, "the database did not confirm the activation: look which calibration is active")
	}
	return a, nil
}

// activate stores what decide makes of the newest activations, and answers with it from now on.
func (s *Service) activate(ctx context.Context, look int,
	decide func(newest []Activation) (*Activation, error)) (*Activation, error) {
	writing, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	a, err := s.store.Activate(writing, look, decide)
	if err != nil {
		return nil, err
	}
	_ = s.Refresh(ctx) // the change is stored; where it cannot be read now, the next look brings it
	return a, nil
}

// lastOf is the activation that is in force; before the first, the built-in constants are.
func lastOf(newest []Activation) Activation {
	if len(newest) == 0 {
		return Activation{Calibration: estimator.Calibration}
	}
	return newest[0]
}
