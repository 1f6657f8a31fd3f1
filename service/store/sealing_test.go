package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

func verified(t *testing.T, s *store.Store) (faults string) {
	t.Helper()
	r, err := s.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range r.Faults {
		all = append(all, f.String())
	}
	return strings.Join(all, "; ")
}

// An upgrade gives digests to what older programs wrote. What one of them writes beside this one is read and named, but
// a key, which opens nothing until somebody accepts it.
func TestOlderProgramsMakeNoDigests(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		mustChange(t, s, put(card("lab-card", 1), service.Created))
		add(t, s, "obs-1")
		if err := s.CreateKey(t.Context(), service.Key{ID: "key-1", Name: "ci", Hash: "h", CreatedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		db := direct(t, name)
		exec1(t, db, `DROP TABLE row_digests`)
		exec1(t, db, `DROP TABLE table_digests`)
		exec1(t, db, `DELETE FROM goose_db_version WHERE version_id >= 8`)
		s = open(t, name)
		if faults := verified(t, s); !strings.Contains(faults, "goose_db_version 8: this migration has not run") {
			t.Errorf("before the upgrade: %s", faults)
		}
		if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != len(numbered(t))-7 {
			t.Fatalf("%v, %v", ran, err)
		}
		if faults := verified(t, s); faults != "" {
			t.Errorf("after the upgrade: %s", faults)
		}
		exec1(t, db, `INSERT INTO observations (id, key_id, idempotency_key, request_digest, gpu, "family", document) SELECT 'obs-2', key_id, 'other', request_digest, gpu, "family", document FROM observations`)
		exec1(t, db, `INSERT INTO api_keys (id, name, hash, scopes, created_at) VALUES ('key-2', 'old', 'h', 'catalog:write', '2026-11-22T10:00:00Z')`)
		faults := verified(t, s)
		for _, row := range []string{"observations obs-2: it has no digest", "api_keys key-2: it has no digest"} {
			if !strings.Contains(faults, row) {
				t.Errorf("no %q in %s", row, faults)
			}
		}
		if list, _, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 10}); err != nil ||
			len(list) != 2 {
			t.Errorf("%d observations, %v", len(list), err)
		}
		var altered *service.AlteredError
		if _, err := s.Key(t.Context(), "key-2"); !errors.As(err, &altered) {
			t.Errorf("a key without a digest: %v", err)
		}
		// Writes go on meanwhile, and make nothing right.
		add(t, s, "obs-3")
		if now := verified(t, s); now != faults {
			t.Errorf("after a write: %s, before: %s", now, faults)
		}
		if err := s.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		if faults := verified(t, s); faults != "" {
			t.Errorf("accepted: %s", faults)
		}
		if k, err := s.Key(t.Context(), "key-2"); err != nil || k == nil {
			t.Errorf("an accepted key: %v", err)
		}
	})
}

// A calibration that was altered is refused by name, and is not put in force.
func TestAlteredCalibrationIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		c, _, err := s.AddCalibration(t.Context(), "aaaaaaaaaaaa", fitted("aaaaaaaaaaaa"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Activate(t.Context(), 1, func([]service.Activation) (*service.Activation, error) {
			return &service.Activation{Calibration: c.ID, By: ci, At: time.Now()}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		exec1(t, direct(t, name), `UPDATE calibrations SET document = REPLACE(document, '0.125', '0.925')`)
		var altered *service.AlteredError
		if _, _, err := s.Calibration(t.Context(), c.ID); !errors.As(err, &altered) ||
			!strings.Contains(err.Error(), c.ID) {
			t.Errorf("the calibration: %v", err)
		}
		if _, err := s.ActiveCalibration(t.Context(), a.Number); !errors.As(err, &altered) {
			t.Errorf("the active one: %v", err)
		}
		svc := service.New(service.EmbeddedCatalog(), service.WithStore(s))
		if err := svc.Refresh(t.Context()); err != nil {
			t.Errorf("the service does not start: %v", err)
		}
		if status := svc.CalibrationStatus(); status.Calibration == c.ID || status.Activated == c.ID {
			t.Errorf("in force: %+v", status)
		}
		if _, err := svc.Calibration(t.Context(), c.ID); service.ErrorCode(err) != service.CodeUnavailable ||
			!strings.Contains(err.Error(), "was altered") {
			t.Errorf("asked for: %v", err)
		}
	})
}
