package service

import (
	"testing"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
)

func TestHeldOutBetter(t *testing.T) {
	fitted := func(jobs int, builtin, fitted calibration.Outcome) *Calibration {
		return &Calibration{ID: "cal-2-0123456789ab", Estimator: estimator.Version, Base: estimator.Calibration,
			HeldOut: calibration.HeldOut{Confidence: 0.95, All: calibration.HeldOutGroup{Jobs: jobs, Failed: 3,
				Builtin: builtin, Fitted: fitted}}}
	}
	builtin := calibration.Outcome{Within: 0.9, Error: 0.02, Contradicted: 1}
	active := fitted(40, builtin, calibration.Outcome{Within: 0.96, Error: 0.01})
	older := *active
	older.Estimator = "0.0.1"
	for name, c := range map[string]struct {
		fitted, active *Calibration
		better         bool
		reason         string
	}{
		"better than what is built in": {fitted(50, builtin, calibration.Outcome{Within: 0.96, Error: 0.015,
			Contradicted: 1}), nil, true,
			"the bounds cover 96.00 % of 50 held-out runs (95.00 % promised), and the median error on held-out runs " +
				"is 1.50 % (builtin-3: 2.00 %)"},
		"equal": {fitted(50, builtin, calibration.Outcome{Within: 0.95, Error: 0.01}), active, true,
			"the bounds cover 95.00 % of 50 held-out runs (95.00 % promised), and the median error on held-out runs " +
				"is 1.00 % (builtin-3: 2.00 %; cal-2-0123456789ab when it was fitted: 1.00 %)"},
		"breaks its promise": {fitted(50, builtin, calibration.Outcome{Within: 0.9499, Error: 0.001}), nil, false,
			"the bounds cover 94.99 % of 50 held-out runs (95.00 % promised)"},
		"worse than what is built in": {fitted(50, builtin, calibration.Outcome{Within: 0.96, Error: 0.0201}), nil,
			false,
			"the median error on held-out runs is 2.01 % (builtin-3: 2.00 %)"},
		"worse than the active one": {fitted(50, builtin, calibration.Outcome{Within: 0.96, Error: 0.0101}), active,
			false,
			"the median error on held-out runs is 1.01 % (builtin-3: 2.00 %; cal-2-0123456789ab when it " +
				"was fitted: 1.00 %)"},
		"the active one is of no use here": {fitted(50, builtin, calibration.Outcome{Within: 0.96, Error: 0.0101}),
			&older, true,
			"the bounds cover 96.00 % of 50 held-out runs (95.00 % promised), and the median error on held-out runs " +
				"is 1.01 % (builtin-3: 2.00 %)"},
		"lets in what failed": {fitted(50, builtin, calibration.Outcome{Within: 0.96, Error: 0.001, Contradicted: 2}),
			nil, false,
			"the median error on held-out runs is 0.10 % (builtin-3: 2.00 %), and of 3 runs out of memory 2 are said " +
				"to fit (builtin-3: 1)"},
		"nothing was held out": {fitted(0, calibration.Outcome{}, calibration.Outcome{}), nil, false,
			"no run whose process was measured was held out"},
	} {
		if better, reason := heldOutBetter(c.fitted, c.active); better != c.better || reason != c.reason {
			t.Errorf("%s: %v, %s\nwant %v, %s", name, better, reason, c.better, c.reason)
		}
	}
}

func TestTurnedBack(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	person := func(id string) Activation { return Activation{Calibration: id, By: Author{"k", "zoë"}, At: at} }
	policy := func(id string) Activation {
		return Activation{Calibration: id, By: Author{policyKey, "held-out-better"}}
	}
	refusal := func(id, refused string) Activation {
		a := policy(id)
		a.Refused = refused
		return a
	}
	const one, two, ten = "cal-1-0123456789ab", "cal-2-0123456789ab", "cal-10-0123456789ab"
	for name, c := range map[string]struct {
		newest []Activation // the newest first
		back   bool
	}{
		"nothing yet":                      {nil, false},
		"the built-in constants, at first": {[]Activation{person(estimator.Calibration)}, false},
		"forward":                          {[]Activation{person(ten), policy(two)}, false},
		"back to the built-in constants":   {[]Activation{person(estimator.Calibration), policy(one)}, true},
		"back to an older one":             {[]Activation{person(two), person(ten), person(one)}, true},
		"back, and chosen once more":       {[]Activation{person(one), person(one), policy(two)}, true},
		"back, and refused since":          {[]Activation{refusal(one, ten), person(one), policy(two)}, true},
		"the policy went on after that": {[]Activation{policy(ten), person(two), person(one), policy(two)},
			false},
		"a refused one was never active":         {[]Activation{person(one), refusal(one, two), person(one)}, false},
		"forward again after back":               {[]Activation{person(ten), person(one), policy(two)}, false},
		"to the newest, which was active before": {[]Activation{person(two), person(one), policy(two)}, false},
	} {
		by, when, back := turnedBack(c.newest)
		if back != c.back || back && (by != "zoë" || !when.Equal(at)) {
			t.Errorf("%s: %v, by %q at %s", name, back, by, when)
		}
	}
}
