package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

// fitted is a calibration with something in every field.
func fitted(digest string) func(number int64) *service.Calibration {
	key := calibration.Key{GPU: "a100", Torch: "2.9", Family: "llama", SeveralGPUs: true}
	held := calibration.HeldOutGroup{Key: key, Jobs: 3, Corrected: 2, Failed: 1,
		Builtin: calibration.Outcome{Within: 0.5, Bias: -0.1, Error: 0.1, WidthBytes: 1 << 40, Contradicted: 1}}
	return func(number int64) *service.Calibration {
		return &service.Calibration{ID: fmt.Sprintf("cal-%d-%s", number, digest), Number: number,
			CreatedAt: time.Date(2026, 11, 22, 10, 0, 0, 5, time.UTC), By: ci, Note: "zoë's $1",
			Estimator: estimator.Version, Base: estimator.Calibration, Digest: digest,
			Observations: service.ObservationSet{Since: "2026-01-01T00:00:00Z", First: "obs-1", Last: "obs-2",
				Digest: "d", Read: 2, Used: 1, Quarantined: 1},
			HeldOut: calibration.HeldOut{By: "job", Folds: 5, Confidence: 0.95, All: held,
				Groups: []calibration.HeldOutGroup{held}},
			Groups: []calibration.Group{{Key: key, Jobs: 9, OutOfMemory: 1, Outliers: 1, ContextBytes: -1 << 30,
				WorkspaceBytes: 1 << 33, AllocatorShare: 0.125, ReservedToBytes: 1 << 50, BoundedBy: 19,
				Bounds: []calibration.Bound{{Confidence: 0.95, Below: 0.25, Above: 1.0001}}}},
			Skipped: []calibration.Skipped{{Key: key, Jobs: 1, Reason: "few"}},
		}
	}
}

func TestCalibrations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		ctx := t.Context()
		if mark, err := s.CalibrationMark(ctx); err != nil || mark != (service.CalibrationMark{}) {
			t.Fatalf("mark %+v, %v", mark, err)
		}
		if c, err := s.ActiveCalibration(ctx, 0); err != nil || c != nil {
			t.Errorf("active before the first: %v, %v", c, err)
		}
		for _, digest := range []string{"aa", "bb", "aa", "cc"} {
			if _, _, err := s.AddCalibration(ctx, digest, fitted(digest)); err != nil {
				t.Fatal(err)
			}
		}
		again, known, err := s.AddCalibration(ctx, "bb", fitted("bb"))
		if err != nil || !known {
			t.Fatalf("known %v, %v", known, err)
		}
		if diff := cmp.Diff(fitted("bb")(2), again); diff != "" {
			t.Errorf("(-stored +known):\n%s", diff)
		}
		if mark, err := s.CalibrationMark(ctx); err != nil || mark != (service.CalibrationMark{Versions: 3}) {
			t.Errorf("mark %+v, %v", mark, err)
		}
		read, size, err := s.Calibration(ctx, "cal-2-bb")
		if text, encodeErr := json.Marshal(read); err != nil || encodeErr != nil || size != len(text) {
			t.Fatalf("%d bytes, %v, %v", size, err, encodeErr)
		}
		if diff := cmp.Diff(again, read); diff != "" {
			t.Errorf("(-known +read):\n%s", diff)
		}
		for _, id := range []string{"cal-2", "cal-2-aa", ""} {
			if c, _, err := s.Calibration(ctx, id); err != nil || c != nil {
				t.Errorf("%q: %v, %v", id, c, err)
			}
		}
		for _, c := range []struct {
			filter service.CalibrationFilter
			want   string
		}{
			{service.CalibrationFilter{Limit: 10}, "cal-3-cc cal-2-bb cal-1-aa"},
			{service.CalibrationFilter{Limit: 2}, "cal-3-cc cal-2-bb"},
			{service.CalibrationFilter{Limit: 2, Before: 2}, "cal-1-aa"},
		} {
			list, err := s.Calibrations(ctx, c.filter)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for i := range list {
				ids = append(ids, list[i].ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
			}
		}
		var newest []string
		err = s.EachCalibration(ctx, 2, func(c *service.Calibration, bytes int) (bool, error) {
			newest = append(newest, c.ID)
			return bytes > 0 && len(c.Groups) > 0, nil
		})
		if got := strings.Join(newest, " "); err != nil || got != "cal-3-cc cal-2-bb" {
			t.Errorf("the newest two: %s, %v", got, err)
		}
		enough := errors.New("enough")
		if err := s.EachCalibration(ctx, 2, func(*service.Calibration, int) (bool, error) {
			return true, enough
		}); !errors.Is(err, enough) {
			t.Errorf("error %v", err)
		}
		list, err := s.Calibrations(ctx, service.CalibrationFilter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fitted("cc")(3).Summary(), list[0], cmpopts.EquateEmpty()); diff != "" ||
			len(list[0].Groups) != 0 {
			t.Errorf("(-summary +listed):\n%s", diff)
		}
	})
}

func TestActivations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		ctx := t.Context()
		c, _, err := s.AddCalibration(ctx, "aa", fitted("aa"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 11, 22, 10, 0, 0, 7, time.UTC)
		var all []service.Activation // the newest first
		for i, id := range []string{c.ID, estimator.Calibration, c.ID} {
			next := service.Activation{Calibration: id, By: ci, At: at}
			if i == 1 {
				next.Refused, next.Reason = c.ID, "zoë's $1"
			}
			a, err := s.Activate(ctx, 2, func(newest []service.Activation) (*service.Activation, error) {
				if diff := cmp.Diff(all[:min(2, len(all))], newest, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("activation %d (-stored +shown):\n%s", i+1, diff)
				}
				return &next, nil
			})
			if err != nil || a.Number != int64(i+1) {
				t.Fatalf("%+v, %v", a, err)
			}
			all = append([]service.Activation{*a}, all...)
		}
		refused := errors.New("no")
		if _, err := s.Activate(ctx, 1, func([]service.Activation) (*service.Activation, error) {
			return nil, refused
		}); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		if mark, err := s.CalibrationMark(ctx); err != nil ||
			mark != (service.CalibrationMark{Versions: 1, Activations: 3}) {
			t.Errorf("mark %+v, %v", mark, err)
		}
		for mark, want := range map[int64]*service.Calibration{1: c, 2: nil, 3: c} {
			got, err := s.ActiveCalibration(ctx, mark)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("activation %d (-want +got):\n%s", mark, diff)
			}
		}
		list, err := s.Activations(ctx, service.CalibrationFilter{Limit: 2, Before: 3})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[1:], list); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Replicas that fit and activate at once get different numbers, without gaps, and equal figures are stored once.
func TestConcurrentCalibrations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		migrated(t, name)
		const replicas = 6
		var wait sync.WaitGroup
		for i := range replicas {
			s := open(t, name)
			wait.Go(func() {
				for _, digest := range []string{"same", fmt.Sprintf("own-%d", i)} {
					if _, _, err := s.AddCalibration(t.Context(), digest, fitted(digest)); err != nil {
						t.Error(err)
					}
				}
				_, err := s.Activate(t.Context(), 1, func([]service.Activation) (*service.Activation, error) {
					return &service.Activation{Calibration: estimator.Calibration, By: ci}, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		s := open(t, name)
		list, err := s.Calibrations(t.Context(), service.CalibrationFilter{Limit: 100})
		if err != nil || len(list) != replicas+1 || list[0].Number != replicas+1 {
			t.Errorf("%d calibrations, %v", len(list), err)
		}
		if mark, err := s.CalibrationMark(t.Context()); err != nil ||
			mark != (service.CalibrationMark{Versions: replicas + 1, Activations: replicas}) {
			t.Errorf("mark %+v, %v", mark, err)
		}
	})
}

// A kept calibration is read as it was written, and one that was changed is not read.
func TestKeptCalibration(t *testing.T) {
	s := migrated(t, backends[0].create(t))
	contents, err := s.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := service.Snapshot{Catalog: contents, Calibration: fitted("aa")(1),
		Calibrations: []*service.Calibration{fitted("bb")(2), fitted("aa")(1)}}
	path := filepath.Join(t.TempDir(), "kept.json")
	if err := store.Keep(path, "db", want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Kept(path, "db")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-kept +read):\n%s", diff)
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"cal-1-aa", "cal-2-bb"} { // the active one, and one that is kept beside it
		changed := strings.Replace(string(document), id, "cal-9-"+id[6:], 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil || changed == string(document) {
			t.Fatal("not changed", err)
		}
		if _, err := store.Kept(path, "db"); err == nil {
			t.Errorf("a changed %s is read", id)
		}
	}
}
