package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/store"
)

const mib = 1 << 20

var operator = service.Author{KeyID: "k", Name: "operator"}

// anyVersion is the precondition of somebody who does not mind what is active.
var anyVersion = service.Precondition{Versions: []string{"*"}}

// measuredJob is one of many jobs of a model on a card.
func measuredJob(t testing.TB, n int) estimator.Job {
	t.Helper()
	job, err := jobdoc.Decode(fmt.Appendf(nil, `{"model": {"preset": "gpt2"}, "gpus": ["rtx-4090"],
		"training": {"micro_batch": %d, "sequence_length": %d, "precision": "amp-bf16"}}`, 1+n%20, 128*(1+n/20%8)))
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// site is a service with a database, on which runs were measured.
type site struct {
	*service.Service
	t      testing.TB
	random *rand.Rand
	db     *store.Store
}

// patient waits for a fit as long as it takes, so that a slow machine shows what a fast one does.
func patient() service.Option { return service.WithFitBudget(time.Hour, time.Hour) }

func newSite(t testing.TB) *site {
	db := sqlite(t)
	s := &site{service.New(service.EmbeddedCatalog(), service.WithStore(db), patient()), t, rand.New(rand.NewPCG(1, 2)),
		db}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// measure reports n runs whose processes take so much more than is built in.
func (s *site) measure(n int, more int64) {
	s.t.Helper()
	var sent []service.Sent
	for i := range n {
		job := measuredJob(s.t, i)
		p := s.estimate(job, estimator.Calibration).Peak
		noise := int64(10 * mib * s.random.NormFloat64())
		sent = append(sent, service.Sent{Document: jobdoc.Observation{Job: job, Source: fmt.Sprintf("group-%d", i%3),
			Measured: jobdoc.Measured{ReservedBytes: p.ReservedBytes, DeviceBytes: p.DeviceBytes + more + noise}}})
	}
	s.observe(sent)
}

func (s *site) observe(sent []service.Sent) {
	s.t.Helper()
	results, err := s.Observe(s.t.Context(), operator, sent)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
}

func (s *site) estimate(job estimator.Job, calibration string) *estimator.Result {
	s.t.Helper()
	r, err := s.Estimate(s.t.Context(), job, service.EstimateOptions{Calibration: calibration})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) fit(f service.CalibrationFit) *service.FittedCalibration {
	s.t.Helper()
	c, err := s.FitCalibration(s.t.Context(), operator, f)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// From runs to answers: a calibration changes nothing until it is activated, answers name it, and each version gives
// the same bytes for ever.
func TestCalibrationFromRunsToAnswers(t *testing.T) {
	s := newSite(t)
	job := measuredJob(t, 30)
	before := s.estimate(job, "")
	s.measure(60, 100*mib)

	first := s.fit(service.CalibrationFit{Note: "first"})
	if !first.Stored || first.Known || first.Number != 1 || !strings.HasPrefix(first.ID, "cal-1-") ||
		first.Observations.Used != 60 {
		t.Fatalf("%+v", first)
	}
	if after := s.estimate(job, ""); cmp.Diff(before, after) != "" {
		t.Error("a fit changed answers before it was activated")
	}
	if again := s.fit(service.CalibrationFit{}); again.ID != first.ID || !again.Known {
		t.Errorf("the same figures were stored twice: %+v", again)
	}
	if _, err := s.Activate(t.Context(), operator, first.ID, anyVersion); err != nil {
		t.Fatal(err)
	}
	after := s.estimate(job, "")
	if after.Versions.Calibration != first.ID || before.Versions.Calibration != estimator.Calibration {
		t.Errorf("calibrations %s and %s", before.Versions.Calibration, after.Versions.Calibration)
	}
	if more := after.Peak.DeviceBytes - before.Peak.DeviceBytes; more < 90*mib || more > 110*mib {
		t.Errorf("the figure grew by %d MiB, and 100 were put in", more/mib)
	}
	if after.Peak.AllocatedBytes != before.Peak.AllocatedBytes ||
		after.Peak.ReservedBytes != before.Peak.ReservedBytes {
		t.Errorf("what is replayed changed: %+v, %+v", before.Peak, after.Peak)
	}

	// Another one takes over; the first still gives the bytes that it gave.
	s.measure(60, 250*mib) // the same jobs again: the older runs count
	for i := range 40 {
		job := measuredJob(t, 60+i)
		p := s.estimate(job, estimator.Calibration).Peak
		s.observe([]service.Sent{{Document: jobdoc.Observation{Job: job,
			Measured: jobdoc.Measured{DeviceBytes: p.DeviceBytes + 300*mib}}}})
	}
	second := s.fit(service.CalibrationFit{Activate: true})
	if second.Number != 2 || second.Activation == nil || second.Activation.Number != 2 {
		t.Fatalf("%+v", second)
	}
	if now := s.estimate(job, ""); now.Versions.Calibration != second.ID ||
		now.Peak.DeviceBytes == after.Peak.DeviceBytes {
		t.Errorf("after the second: %+v", now.Peak)
	}
	for _, v := range []struct {
		id   string
		want *estimator.Result
	}{{first.ID, after}, {estimator.Calibration, before}} {
		want, _ := json.Marshal(v.want)
		got, _ := json.Marshal(s.estimate(job, v.id))
		if string(want) != string(got) {
			t.Errorf("%s does not give the same bytes again:\n%s\n%s", v.id, want, got)
		}
		fresh := &site{service.New(service.EmbeddedCatalog(), service.WithStore(s.db), service.WithCache(0), patient()),
			t, nil, s.db}
		if got, _ := json.Marshal(fresh.estimate(job, v.id)); string(want) != string(got) {
			t.Errorf("%s gives other bytes in another process:\n%s\n%s", v.id, want, got)
		}
	}

	plan, err := s.Plan(t.Context(), service.PlanRequest{Job: job, EffectiveBatch: 64},
		service.PlanOptions{Calibration: first.ID})
	if err != nil || plan.Versions.Calibration != first.ID || plan.Today.DeviceBytes != after.Peak.DeviceBytes {
		t.Errorf("plan with %s: %+v, %v", first.ID, plan.Today, err)
	}
	c, err := s.Compare(t.Context(), job, measuredJob(t, 31), service.CompareOptions{Calibration: first.ID})
	if err != nil || c.Versions.Calibration != first.ID || c.A.Peak.DeviceBytes != after.Peak.DeviceBytes {
		t.Errorf("comparison with %s: %+v, %v", first.ID, c, err)
	}

	if _, err := s.Activate(t.Context(), operator, estimator.Calibration, anyVersion); err != nil {
		t.Fatal(err)
	}
	if now := s.estimate(job, ""); cmp.Diff(before, now) != "" {
		t.Error("the built-in constants do not give what they gave")
	}
	history, err := s.Activations(t.Context(), service.CalibrationFilter{Limit: 10})
	if err != nil || history.Version != "activation-3" {
		t.Fatalf("%+v, %v", history, err)
	}
	var ids []string
	for _, a := range history.List {
		ids = append(ids, a.Calibration)
		if a.By != operator {
			t.Errorf("activated by %+v", a.By)
		}
	}
	if want := []string{estimator.Calibration, second.ID, first.ID}; !slices.Equal(ids, want) {
		t.Errorf("activations %v, want %v", ids, want)
	}
}

// The report says how the built-in constants and a calibration do on the same runs.
func TestAccuracyBeforeAndAfter(t *testing.T) {
	s := newSite(t)
	s.measure(60, 300*mib)
	failed := measuredJob(t, 70)
	s.observe([]service.Sent{{Document: jobdoc.Observation{Job: failed,
		Measured: jobdoc.Measured{OutOfMemory: true, DeviceBytes: s.estimate(failed, "").Peak.HighBytes}}}})
	c := s.fit(service.CalibrationFit{})
	plainly, err := s.Accuracy(t.Context(), service.ObservationFilter{}, service.AccuracyOptions{})
	if err != nil || len(plainly.Groups) != 1 || plainly.Groups[0].Before != nil || plainly.Calibration != "" {
		t.Fatalf("%+v, %v", plainly, err)
	}
	report, err := s.Accuracy(t.Context(), service.ObservationFilter{GPU: "rtx-4090"},
		service.AccuracyOptions{Calibration: c.ID})
	if err != nil || len(report.Groups) != 1 || report.Calibration != c.ID || report.Observations != 61 {
		t.Fatalf("%+v, %v", report, err)
	}
	before, after := report.Groups[0].Before, report.Groups[0].After
	if before.Device.Runs != 60 || *before.WithinBounds > 0.5 || before.Device.Bias > -0.01 ||
		before.FitButFailed != 1 {
		t.Errorf("before: %+v %+v", before, before.Device)
	}
	if *after.WithinBounds < 0.95 || after.Device.Median > before.Device.Median/3 || after.WidthBytes <= 0 ||
		after.FitButFailed != 0 {
		t.Errorf("after: %+v %+v", after, after.Device)
	}
	if before.Reserved.Runs != 60 || before.Reserved.Median != 0 {
		t.Errorf("reserved: %+v", before.Reserved)
	}
	if _, err := s.Accuracy(t.Context(), service.ObservationFilter{},
		service.AccuracyOptions{Calibration: "cal-9-000000000000"}); service.ErrorCode(err) != service.CodeCalibration {
		t.Errorf("an unknown calibration: %v", err)
	}
}

// What cannot be used is refused, with the names of what can.
func TestCalibrationRefusals(t *testing.T) {
	s := newSite(t)
	s.measure(10, 0)
	job := measuredJob(t, 0)
	_, err := s.FitCalibration(t.Context(), operator, service.CalibrationFit{})
	if service.ErrorCode(err) != service.CodeConflict ||
		!strings.Contains(err.Error(), "of 10 observations 10 can be used") ||
		!strings.Contains(err.Error(), "rtx-4090") {
		t.Errorf("too few runs: %v", err)
	}
	for _, id := range []string{"cal-1-0123456789ab", "nothing", "builtin-1", "cal-1-\x00", "cal-\xff"} {
		_, err := s.Estimate(t.Context(), job, service.EstimateOptions{Calibration: id})
		if service.ErrorCode(err) != service.CodeCalibration || !strings.Contains(err.Error(), estimator.Calibration) {
			t.Errorf("%s: %v", id, err)
		}
		_, err = s.Activate(t.Context(), operator, id, anyVersion)
		if service.ErrorCode(err) != service.CodeCalibration {
			t.Errorf("activate %s: %v", id, err)
		}
	}
	s.measure(60, 0)
	c := s.fit(service.CalibrationFit{})
	if _, err := s.Estimate(t.Context(), job, service.EstimateOptions{Calibration: "cal-9"}); !strings.Contains(err.Error(), c.ID) {
		t.Errorf("an unknown one does not name %s: %v", c.ID, err)
	}
	for name, f := range map[string]service.CalibrationFit{
		"no time": {Since: "yesterday"}, "wrong order": {Since: "2026-11-22T10:00:00Z", Until: "2026-11-21T10:00:00Z"},
		"both": {DryRun: true, Activate: true}, "control": {Note: "a\x00b"},
	} {
		if _, err := s.FitCalibration(t.Context(), operator, f); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if dry := s.fit(service.CalibrationFit{DryRun: true}); dry.Stored || len(dry.Groups) == 0 {
		t.Errorf("dry run %+v", dry)
	}
	if _, err := s.FitCalibration(t.Context(), operator, service.CalibrationFit{Until: "2020-01-01T00:00:00Z"}); service.ErrorCode(err) != service.CodeConflict {
		t.Errorf("no observations: %v", err)
	}
	alone := service.New(service.EmbeddedCatalog())
	_, err = alone.Estimate(t.Context(), job, service.EstimateOptions{Calibration: c.ID})
	if service.ErrorCode(err) != service.CodeCalibration {
		t.Errorf("without a database: %v", err)
	}
	for name, err := range map[string]error{
		"fit":      second(alone.FitCalibration(t.Context(), operator, service.CalibrationFit{})),
		"list":     second(alone.Calibrations(t.Context(), service.CalibrationFilter{})),
		"get":      second(alone.Calibration(t.Context(), c.ID)),
		"activate": second(alone.Activate(t.Context(), operator, c.ID, anyVersion)),
		"history":  second(alone.Activations(t.Context(), service.CalibrationFilter{})),
	} {
		if service.ErrorCode(err) != service.CodeUnavailable {
			t.Errorf("%s without a database: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// What one replica activates the others take up, and a service that starts without its database goes on with it.
func TestActivationReachesReplicas(t *testing.T) {
	s := newSite(t)
	s.measure(60, 100*mib)
	var kept service.Snapshot
	other := service.New(service.EmbeddedCatalog(), service.WithStore(s.db), patient(),
		service.WithKeep(func(k service.Snapshot) {
			kept = k
		}))
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := s.fit(service.CalibrationFit{Activate: true})
	if got := other.CalibrationStatus().Calibration; got != estimator.Calibration {
		t.Errorf("the other replica has %s without a look", got)
	}
	for range 2 {
		if err := other.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := other.CalibrationStatus(); got.Calibration != c.ID || got.Activated != c.ID {
		t.Errorf("after a look: %+v, want %s", got, c.ID)
	}
	if kept.Catalog == nil || kept.Calibration == nil || kept.Calibration.ID != c.ID {
		t.Fatalf("kept %+v", kept)
	}
	job := measuredJob(t, 5)
	alone := service.New(service.EmbeddedCatalog(), service.WithCalibration(kept.Calibration))
	got, err := alone.Estimate(t.Context(), job, service.EstimateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.estimate(job, ""), got); diff != "" {
		t.Errorf("(-with a database +without):\n%s", diff)
	}
	// One of another estimator is not used, and the answers say so.
	older := *kept.Calibration
	older.Estimator = "0.0.1"
	status := service.New(service.EmbeddedCatalog(), service.WithCalibration(&older)).CalibrationStatus()
	if status.Calibration != estimator.Calibration || status.Activated != c.ID {
		t.Errorf("of another estimator: %+v", status)
	}
}

// A fit that is no longer wanted stops.
func TestFitHeedsItsContext(t *testing.T) {
	s := newSite(t)
	s.measure(30, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := s.FitCalibration(ctx, operator, service.CalibrationFit{}); err == nil ||
		errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
