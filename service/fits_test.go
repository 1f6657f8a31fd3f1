package service_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
)

// A fit that takes longer than its request goes on, and the same request finds it. Others wait for their turn.
func TestFitGoesOnWithoutItsRequest(t *testing.T) {
	s := newSite(t)
	s.measure(60, 100*mib)
	slow := service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithFitBudget(time.Minute, time.Nanosecond))
	ask := service.CalibrationFit{Note: "in the background"}
	first, err := slow.FitCalibration(t.Context(), operator, ask)
	if err != nil || !first.Pending || first.Stored || first.Calibration != nil {
		t.Fatalf("%+v, %v", first, err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		again, err := slow.FitCalibration(t.Context(), operator, ask)
		if err != nil {
			t.Fatal(err)
		}
		if !again.Pending {
			if !again.Stored || again.Number != 1 || again.Note != ask.Note {
				t.Errorf("%+v", again)
			}
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the fit does not end")
		}
	}
	if list, err := s.Calibrations(t.Context(), service.CalibrationFilter{Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("%d calibrations, %v", len(list), err)
	}
}

// What is too dear to replay is left out and named; the fit ends all the same.
func TestFitLeavesOutWhatIsTooDear(t *testing.T) {
	s := newSite(t)
	s.measure(20, 0)
	none := service.New(service.EmbeddedCatalog(), service.WithStore(s.db),
		service.WithFitBudget(time.Nanosecond, time.Minute))
	c, err := none.FitCalibration(t.Context(), operator, service.CalibrationFit{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	set := c.Observations
	if set.Read != 20 || set.TooDear != 20 || set.Used != 0 || len(set.Skipped) != 20 ||
		!strings.HasPrefix(set.Skipped[0], "obs-") {
		t.Errorf("%+v", set)
	}
}
