package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
)

// ActivationPolicy says who activates calibrations.
type ActivationPolicy string

// The policies.
const (
	// ActivateExplicitly leaves it to people.
	ActivateExplicitly ActivationPolicy = "explicit"
	// ActivateHeldOutBetter activates a calibration when it is fitted, if it keeps its promise on runs that its fit did
	// not see, and is not worse there than what is active.
	ActivateHeldOutBetter ActivationPolicy = "held-out-better"
)

// WithActivationPolicy sets who activates calibrations; without it people do.
func WithActivationPolicy(p ActivationPolicy) Option { return func(o *options) { o.policy = p } }

// policyKey stands in the history where the id of an API key does: ids of keys are longer.
const policyKey = "policy"

// ByPolicy says that no person chose.
func (a *Activation) ByPolicy() bool { return a.By.KeyID == policyKey }

const (
	// policyLooksBack is how many activations the policy knows.
	policyLooksBack = 1000
	// policyTries bounds how often it looks anew because somebody activated meanwhile.
	policyTries = 3
)

// errDecided: the calibration was activated or refused before; the policy looks at each once.
var errDecided = errors.New("the calibration was decided on before")

// errOvertaken: something was activated between the policy's look and its decision.
var errOvertaken = errors.New("another calibration was activated meanwhile")

// decide lets the policy look at a calibration that was fitted. The decision is in the history, whatever it is; nil
// where there was one on this calibration before, which a person may have undone.
func (s *Service) decide(ctx context.Context, c *Calibration) (a *Activation, err error) {
	for range policyTries {
		if a, err = s.decideOnce(ctx, c); !errors.Is(err, errOvertaken) {
			break
		}
	}
	switch {
	case errors.Is(err, errDecided):
		return nil, nil
	case err != nil:
		return nil, databaseError(err, fmt.Sprintf("%s is stored, and the database did not confirm what the "+
			"activation policy decided: fit again, or activate it", c.ID))
	}
	return a, nil
}

func (s *Service) decideOnce(ctx context.Context, c *Calibration) (*Activation, error) {
	reading, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	mark, err := s.store.CalibrationMark(reading)
	if err != nil {
		return nil, err
	}
	active, err := s.store.ActiveCalibration(reading, mark.Activations)
	if err != nil {
		return nil, err
	}
	return s.activate(ctx, policyLooksBack, func(newest []Activation) (*Activation, error) {
		last := lastOf(newest)
		if last.Number != mark.Activations {
			return nil, errOvertaken
		}
		if slices.ContainsFunc(newest, func(a Activation) bool { return a.Calibration == c.ID || a.Refused == c.ID }) {
			return nil, errDecided
		}
		a := &Activation{Calibration: c.ID, By: Author{KeyID: policyKey, Name: string(s.policy)}, At: s.now().UTC()}
		var better bool
		if by, at, back := turnedBack(newest); back {
			a.Reason = fmt.Sprintf("%s went back to %s on %s: the policy rests until a newer calibration is "+
				"activated by somebody", by, last.Calibration, at.Format(time.DateOnly))
		} else {
			better, a.Reason = heldOutBetter(c, active)
		}
		if !better {
			a.Calibration, a.Refused = last.Calibration, c.ID
		}
		return a, nil
	})
}

// turnedBack says whether a person chose an older calibration than one that was active before: the policy does not undo
// that.
func turnedBack(newest []Activation) (by string, at time.Time, back bool) {
	var chosen *Activation
	for i := range newest {
		a := &newest[i]
		switch {
		case a.Refused != "":
		case chosen == nil && a.ByPolicy():
			return "", at, false
		case chosen == nil:
			chosen = a
		case numberOf(a.Calibration) > numberOf(chosen.Calibration):
			return chosen.By.Name, chosen.At, true
		}
	}
	return "", at, false
}

// numberOf is the number in a calibration's id; 0 for the built-in constants.
func numberOf(id string) int64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(id, calibrationPrefix), "-")
	n, _ := strconv.ParseInt(number, 10, 64) // 0 where it is no number
	return n
}

// heldOutBetter judges a calibration by what its fit is worth on runs that it did not see: against its promise, against
// the built-in constants on the same runs, and against the active one, which is nil for the built-in constants, by the
// figures that its own fit had.
func heldOutBetter(c, active *Calibration) (better bool, reason string) {
	percent := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }
	all, promised := &c.HeldOut.All, c.HeldOut.Confidence
	covers := fmt.Sprintf("the bounds cover %s of %d held-out runs (%s promised)", percent(all.Fitted.Within), all.Jobs,
		percent(promised))
	errs := fmt.Sprintf("the median error on held-out runs is %s (%s: %s", percent(all.Fitted.Error),
		estimator.Calibration, percent(all.Builtin.Error))
	standing := active != nil && active.fits() && active.HeldOut.All.Jobs > 0
	if standing {
		errs += fmt.Sprintf("; %s when it was fitted: %s", active.ID, percent(active.HeldOut.All.Fitted.Error))
	}
	errs += ")"
	switch {
	case all.Jobs == 0:
		return false, "no run whose process was measured was held out"
	case all.Fitted.Within < promised:
		return false, covers
	case worse(&all.Fitted, &all.Builtin), standing && all.Fitted.Error > active.HeldOut.All.Fitted.Error:
		if all.Fitted.Contradicted > all.Builtin.Contradicted {
			errs += fmt.Sprintf(", and of %d runs out of memory %d are said to fit (%s: %d)", all.Failed,
				all.Fitted.Contradicted, estimator.Calibration, all.Builtin.Contradicted)
		}
		return false, errs
	}
	return true, covers + ", and " + errs
}

// worse compares two outcomes on the same runs.
func worse(a, b *calibration.Outcome) bool {
	return a.Error > b.Error || a.Contradicted > b.Contradicted
}
