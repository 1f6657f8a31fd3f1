package service_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

// underPolicy is a site whose service activates what is better.
func underPolicy(t testing.TB) *site {
	s := newSite(t)
	s.Service = service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithActivationPolicy(service.ActivateHeldOutBetter), patient())
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// activate is a person's choice.
func (s *site) activate(id string) {
	s.t.Helper()
	if _, err := s.Activate(s.t.Context(), operator, id, anyVersion); err != nil {
		s.t.Fatal(err)
	}
}

// From runs to a decision: what is better is activated with its reason, each version is decided on once, and a person's
// way back stands.
func TestPolicyActivates(t *testing.T) {
	s := underPolicy(t)
	s.measure(60, 300*mib)
	first := s.fit(service.CalibrationFit{})
	a := first.Activation
	if a == nil || !a.ByPolicy() || a.Calibration != first.ID || a.Refused != "" || a.By.Name != "held-out-better" ||
		!strings.Contains(a.Reason,
			"of 60 held-out runs (95.00 % promised), and the median error on held-out runs is") {
		t.Fatalf("activation %+v", a)
	}
	if got := s.CalibrationStatus().Calibration; got != first.ID {
		t.Errorf("answers are made with %s", got)
	}
	if again := s.fit(service.CalibrationFit{}); again.Activation != nil || !again.Known {
		t.Errorf("the same figures are decided on again: %+v", again.Activation)
	}

	// Somebody takes it back; the policy leaves that alone, whether it meets the same figures or newer ones.
	s.activate(estimator.Calibration)
	if again := s.fit(service.CalibrationFit{}); again.Activation != nil {
		t.Errorf("what was taken back is decided on again: %+v", again.Activation)
	}
	s.measure(80, 300*mib)
	second := s.fit(service.CalibrationFit{})
	if a := second.Activation; a == nil || a.Calibration != estimator.Calibration || a.Refused != second.ID ||
		!strings.HasPrefix(a.Reason, "operator went back to builtin-3 on ") {
		t.Errorf("after the way back: %+v", a)
	}
	if got := s.CalibrationStatus().Calibration; got != estimator.Calibration {
		t.Errorf("answers are made with %s", got)
	}

	// Once somebody goes forward, the policy goes on.
	s.activate(second.ID)
	s.measure(100, 300*mib)
	third := s.fit(service.CalibrationFit{})
	if a := third.Activation; a == nil || !a.ByPolicy() || a.Calibration == estimator.Calibration {
		t.Errorf("after the way forward: %+v", a)
	}
	history, err := s.Activations(t.Context(), service.CalibrationFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, a := range history.List {
		said = append(said, fmt.Sprintf("%s by %s", a.Calibration, a.By.KeyID))
	}
	want := []string{third.Activation.Calibration + " by policy", second.ID + " by k", estimator.Calibration +
		" by policy", estimator.Calibration + " by k", first.ID + " by policy"}
	if fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("history %q, want %q", said, want)
	}
}

// Without the policy a fit activates nothing, and under it a person's --activate is that person's.
func TestPolicyLeavesExplicitChoicesAlone(t *testing.T) {
	s := newSite(t)
	s.measure(60, 300*mib)
	if c := s.fit(service.CalibrationFit{}); c.Activation != nil {
		t.Errorf("without the policy: %+v", c.Activation)
	}
	s = underPolicy(t)
	s.measure(60, 300*mib)
	if c := s.fit(service.CalibrationFit{DryRun: true}); c.Activation != nil {
		t.Errorf("a dry run: %+v", c.Activation)
	}
	if c := s.fit(service.CalibrationFit{Activate: true}); c.Activation == nil || c.Activation.ByPolicy() ||
		c.Activation.By != operator || c.Activation.Reason != "" {
		t.Errorf("with activate: %+v", c.Activation)
	}
}

// What is fitted with activate does not take the place of what somebody activated meanwhile.
func TestFitDoesNotOverwriteAnActivation(t *testing.T) {
	s := newSite(t)
	s.measure(60, 300*mib)
	overtaking := service.New(service.EmbeddedCatalog(), service.WithStore(overtakenStore{s.db, func() {
		s.activate(estimator.Calibration)
	}}), patient())
	_, err := overtaking.FitCalibration(t.Context(), operator, service.CalibrationFit{Activate: true})
	if service.ErrorCode(err) != service.CodePreconditionFailed ||
		!strings.Contains(err.Error(), "is stored and was not activated: builtin-3 is active now") {
		t.Errorf("error %v", err)
	}
	if list, err := s.Calibrations(t.Context(), service.CalibrationFilter{Limit: 2}); err != nil || len(list) != 1 {
		t.Errorf("%d calibrations, %v", len(list), err)
	}
}

// The policy decides with the calibration that is active, also where that changes while it looks.
func TestPolicyLooksAgain(t *testing.T) {
	s := newSite(t)
	s.measure(60, 300*mib)
	once := true
	policy := service.New(service.EmbeddedCatalog(), service.WithActivationPolicy(service.ActivateHeldOutBetter),
		service.WithStore(overtakenStore{s.db, func() {
			if once {
				once = false
				s.activate(estimator.Calibration)
			}
		}}))
	c, err := policy.FitCalibration(t.Context(), operator, service.CalibrationFit{})
	if err != nil || c.Activation == nil || c.Activation.Number != 2 || c.Activation.Calibration != c.ID {
		t.Errorf("%+v, %v", c, err)
	}
}

// overtakenStore is a store in which something happens between a look and an activation.
type overtakenStore struct {
	*store.Store
	meanwhile func()
}

func (s overtakenStore) Activate(ctx context.Context, look int, decide func([]service.Activation) (*service.Activation,
	error)) (*service.Activation, error) {
	s.meanwhile()
	return s.Store.Activate(ctx, look, decide)
}
