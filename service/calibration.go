package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
)

// Calibration is one version of what measured runs add to the estimator's constants. It never changes.
type Calibration struct {
	// ID names it in answers: its number in this database, and a digest of its figures.
	ID string `json:"id" example:"cal-3-5f2a9c01d7e4"`
	// Number counts the calibrations of this database.
	Number    int64     `json:"number" example:"3"`
	CreatedAt time.Time `json:"created_at" example:"2026-11-22T10:00:00Z"`
	By        Author    `json:"by"`
	Note      string    `json:"note,omitempty"`
	// Estimator is the version of the estimator, and Base its built-in constants, that it corrects. It is of no use
	// with others.
	Estimator string `json:"estimator" example:"1.0.0"`
	Base      string `json:"base" example:"builtin-3"`
	// Digest is the SHA-256 of the figures in groups.
	Digest       string         `json:"digest"`
	Observations ObservationSet `json:"observations"`
	// HeldOut says what the fit would have been worth on runs that it did not see.
	HeldOut calibration.HeldOut `json:"held_out"`
	// Groups are what estimates are corrected by; a job belongs to the first that holds it.
	Groups []calibration.Group `json:"groups,omitempty"`
	// Skipped are groups that have runs, and too few or too different ones.
	Skipped []calibration.Skipped `json:"skipped,omitempty"`
	// Accuracy says how the built-in constants and this calibration do on the runs that it was fitted to.
	Accuracy []AccuracyGroup `json:"accuracy,omitempty"`
}

// ObservationSet says which observations a calibration was fitted to.
type ObservationSet struct {
	// Since and Until are what was asked for, in RFC 3339.
	Since string `json:"since,omitempty" example:"2026-06-01T00:00:00Z"`
	Until string `json:"until,omitempty" example:"2026-11-22T00:00:00Z"`
	// First and Last are the oldest and the newest that were read; Digest is the SHA-256 of the ids of those that were
	// used.
	First  string `json:"first,omitempty"`
	Last   string `json:"last,omitempty"`
	Digest string `json:"digest"`
	// Read counts all of them, Used those that the fit got.
	Read int `json:"read" example:"412"`
	Used int `json:"used" example:"398"`
	// Quarantined were left out as they had been marked; Unanswered because this estimator or catalog does not answer
	// their jobs any more, or nothing was measured that is fitted.
	Quarantined int `json:"quarantined" example:"9"`
	Unanswered  int `json:"unanswered" example:"5"`
	// TooDear were left out because their replay, or those before it, took longer than a fit may; Skipped are the ids
	// of up to a hundred of them.
	TooDear int      `json:"too_dear,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
}

// CalibrationFilter selects calibrations or activations, the newest first.
type CalibrationFilter struct {
	// Before leaves out this number and higher ones; 0 leaves out none.
	Before int64
	Limit  int
}

// Summary is the calibration without what it says of each group.
func (c *Calibration) Summary() Calibration {
	s := *c
	s.Groups, s.Skipped, s.Accuracy, s.HeldOut.Groups = nil, nil, nil, []calibration.HeldOutGroup{}
	return s
}

// value is what the estimator takes.
func (c *Calibration) value() (*calibration.Calibration, error) {
	return calibration.New(c.ID, c.Estimator, c.Base, c.Groups)
}

// fits says that the calibration is of use with this estimator.
func (c *Calibration) fits() bool {
	return c.Estimator == estimator.Version && c.Base == estimator.Calibration
}

// Usable says why this estimator cannot answer with the calibration; nil where it can.
func (c *Calibration) Usable() error {
	if !c.fits() {
		return fmt.Errorf("the calibration %.100q was fitted to the estimator %.40q with %.40q, and this is %s with %s",
			c.ID, c.Estimator, c.Base, estimator.Version, estimator.Calibration)
	}
	_, err := c.value()
	return err
}

// digestOf identifies the figures of a calibration, and what they correct.
func digestOf(groups []calibration.Group) (string, error) {
	text, err := json.Marshal(struct {
		Estimator, Base string
		Groups          []calibration.Group
	}{estimator.Version, estimator.Calibration, groups})
	if err != nil {
		return "", fmt.Errorf("name the calibration: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// inForce is what answers are made with where a request does not say.
type inForce struct {
	// chosen is what was activated; nil for the built-in constants.
	chosen *Calibration
	// value is nil for the built-in constants: also where what was activated is of no use with this estimator.
	value *calibration.Calibration
}

// name is that of the calibration in answers.
func (f *inForce) name() string {
	if f == nil || f.value == nil {
		return estimator.Calibration
	}
	return f.value.ID
}

// use takes a calibration into force; nil is the built-in one.
func (s *Service) use(c *Calibration) error {
	f := &inForce{chosen: c}
	if c != nil && c.fits() {
		value, err := c.value()
		if err != nil {
			return fmt.Errorf("the active calibration cannot be used: %w", err)
		}
		f.value = value
	}
	s.inForce.Store(f)
	return nil
}

// CalibrationStatus says which calibration answers are made with.
type CalibrationStatus struct {
	// Calibration is what answers name.
	Calibration string `json:"calibration" example:"cal-3-5f2a9c01d7e4"`
	// Activated is what was chosen. Another one answers where that was fitted to another version of the estimator.
	Activated string `json:"activated" example:"cal-3-5f2a9c01d7e4"`
}

// CalibrationStatus says which calibration answers are made with.
func (s *Service) CalibrationStatus() CalibrationStatus {
	f := s.inForce.Load()
	status := CalibrationStatus{f.name(), estimator.Calibration}
	if f != nil && f.chosen != nil {
		status.Activated = f.chosen.ID
	}
	return status
}

// calibrationFor is the one that a request is answered with: that which it names, else that in force. nil is the
// built-in one.
func (s *Service) calibrationFor(ctx context.Context, pinned string) (*calibration.Calibration, error) {
	f := s.inForce.Load()
	switch {
	case pinned == "":
		if f == nil {
			return nil, nil
		}
		return f.value, nil
	case pinned == estimator.Calibration:
		return nil, nil
	case f != nil && f.value != nil && f.value.ID == pinned:
		return f.value, nil
	}
	c, err := s.findCalibration(ctx, pinned)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, s.unknownCalibration(pinned)
	}
	if c.value == nil {
		return nil, failed(CodeCalibration, "the calibration %s was fitted to the estimator %s with %s, and this is "+
			"%s with %s: fit a new one", c.ID, c.Estimator, c.Base, estimator.Version, estimator.Calibration)
	}
	return c.value, nil
}

// Pin says whether requests may name a calibration; the empty one stands for that in force.
func (s *Service) Pin(ctx context.Context, id string) error {
	_, err := s.calibrationFor(ctx, id)
	return err
}

// calibrationPrefix is what ids begin with. Text that cannot be an id is not asked for: databases do not take every
// text.
const calibrationPrefix = "cal-"

var calibrationForm = regexp.MustCompile(`^` + calibrationPrefix + `[0-9]{1,18}-[0-9a-f]{12}$`)

// unknownCalibration names those that there are.
func (s *Service) unknownCalibration(id string) error {
	known := s.knownCalibrations()
	e := failed(CodeCalibration, "there is no calibration %.100q here; there are %s", id, strings.Join(known, ", "))
	e.Suggestions = known
	return e
}

// Calibrations lists the calibrations of the database without their groups, the newest first.
func (s *Service) Calibrations(ctx context.Context, f CalibrationFilter) ([]Calibration, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	list, err := s.store.Calibrations(ctx, f)
	if err != nil {
		return nil, storeError(err, "the calibrations could not be read")
	}
	return list, nil
}

// Calibration shows one calibration.
func (s *Service) Calibration(ctx context.Context, id string) (*Calibration, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	c, err := s.findCalibration(ctx, id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		unknown := s.unknownCalibration(id).(*Error)
		unknown.Code = CodeNotFound
		return nil, unknown
	}
	return c.Calibration, nil
}
