package service_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/service"
)

// addCalibrations stores versions that each add another context. note makes them large.
func addCalibrations(t testing.TB, s *site, n int, note string) (ids []string) {
	t.Helper()
	for i := range n {
		digest := fmt.Sprintf("%012x", i)
		c, _, err := s.db.AddCalibration(t.Context(), digest, func(number int64) *service.Calibration {
			return &service.Calibration{ID: fmt.Sprintf("cal-%d-%s", number, digest), Number: number, By: operator,
				Note:      note,
				Estimator: estimator.Version, Base: estimator.Calibration, Digest: digest,
				Groups: []calibration.Group{{Key: calibration.Key{GPU: "rtx-4090"}, Jobs: 40,
					ContextBytes: int64(i) * mib, ReservedToBytes: 1 << 40}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
	}
	return ids
}

// Without the database the newest calibrations and those that were asked for lately can be pinned, before and after a
// restart, and give the same bytes; of others the service says that it cannot look.
func TestPinnedWithoutDatabase(t *testing.T) {
	s := newSite(t)
	ids := addCalibrations(t, s, 40, "")
	var kept service.Snapshot
	withDatabase := service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithKeep(func(k service.Snapshot) {
			kept = k
		}))
	if err := withDatabase.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := measuredJob(t, 3)
	answer := func(s *service.Service, id string) string {
		t.Helper()
		r, err := s.Estimate(t.Context(), job, service.EstimateOptions{Calibration: id})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	oldest, newest := ids[0], ids[39]
	before := map[string]string{oldest: answer(withDatabase, oldest), newest: answer(withDatabase, newest),
		ids[8]: answer(withDatabase, ids[8])}
	if err := withDatabase.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range kept.Calibrations {
		names = append(names, c.ID)
	}
	want := slices.Clone(ids[8:])
	slices.Reverse(want)
	if want = append(want, oldest); !slices.Equal(names, want) {
		t.Errorf("kept %v, want %v", names, want)
	}

	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	restarted := service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithCalibration(kept.Calibration), service.WithCalibrations(kept.Calibrations))
	for name, s := range map[string]*service.Service{"running": withDatabase, "restarted": restarted} {
		for id, want := range before {
			if got := answer(s, id); got != want {
				t.Errorf("%s, %s:\n%s\nand with the database\n%s", name, id, got, want)
			}
			if c, err := s.Calibration(t.Context(), id); err != nil || c.ID != id {
				t.Errorf("%s, %s is not shown: %v", name, id, err)
			}
		}
		_, err := s.Estimate(t.Context(), job, service.EstimateOptions{Calibration: ids[1]})
		if service.ErrorCode(err) != service.CodeUnavailable ||
			!strings.Contains(err.Error(), "the newest 32 and those that were asked for lately") {
			t.Errorf("%s, one that is not in memory: %v", name, err)
		}
		_, err = s.Estimate(t.Context(), job, service.EstimateOptions{Calibration: "nothing"})
		if service.ErrorCode(err) != service.CodeCalibration || !strings.Contains(err.Error(), newest) {
			t.Errorf("%s, what is no id: %v", name, err)
		}
	}
}

// However large calibrations are, those in memory are bounded.
func TestKeptCalibrationsAreBounded(t *testing.T) {
	s := newSite(t)
	ids := addCalibrations(t, s, 12, strings.Repeat("x", 3<<20))
	var kept service.Snapshot
	bounded := service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithKeep(func(k service.Snapshot) {
			kept = k
		}))
	for _, id := range ids {
		if err := bounded.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := bounded.Estimate(t.Context(), measuredJob(t, 3), service.EstimateOptions{Calibration: id})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(kept.Calibrations); n != 4 { // two of 3 MiB are below 8 MiB, of the newest and of the others
		t.Errorf("%d calibrations of 3 MiB are kept", n)
	}
}
