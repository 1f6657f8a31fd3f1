package service_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// A run belongs to the release of PyTorch that it ran with; where its job named none, it stands for jobs that name
// none, too.
func TestRunsAreGroupedByWhatRan(t *testing.T) {
	for name, c := range map[string]struct {
		// asked is the release that the jobs name, and ran the one that the observations state.
		asked, ran string
		groups     []string
	}{
		"neither says":                 {"", "", []string{"unnamed"}},
		"the job names it":             {"2.8.0", "", []string{"2.8"}},
		"both say the same":            {"2.9.0", "2.9.1+cu128", []string{"2.9"}},
		"only the run says":            {"", "2.9.1+cu128", []string{"2.9", "unnamed"}},
		"they disagree":                {"2.4.1", "2.9.1", []string{"2.9"}},
		"the run says nothing of use":  {"2.8.0", "nightly", []string{"2.8"}},
		"neither says anything of use": {"", "nightly", []string{"unnamed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			naming := func(job estimator.Job, torch string) estimator.Job {
				job.Training.Versions = nil
				if torch != "" {
					job.Training.Versions = map[string]string{"torch": torch}
				}
				return job
			}
			var sent []service.Sent
			for i := range 40 {
				job := naming(measuredJob(t, i), c.asked)
				o := jobdoc.Observation{Job: job,
					Measured: jobdoc.Measured{DeviceBytes: s.estimate(job, "").Peak.DeviceBytes + 200*mib}}
				if c.ran != "" {
					o.Versions = map[string]string{"torch": c.ran}
				}
				sent = append(sent, service.Sent{Document: o})
			}
			s.observe(sent)
			fitted := s.fit(service.CalibrationFit{})
			groups := map[string]bool{}
			for _, g := range fitted.Groups {
				if g.GPU != "" && g.Family != "" {
					groups[g.Torch] = true
					if g.Jobs != 40 {
						t.Errorf("%s has %d jobs", g.Key, g.Jobs)
					}
				}
			}
			if got := slices.Sorted(maps.Keys(groups)); !slices.Equal(got, c.groups) {
				t.Errorf("groups of %v, want %v", got, c.groups)
			}
			if used := fitted.Observations.Used; used != 40 || fitted.HeldOut.All.Jobs != 40 {
				t.Errorf("%d observations were used, %d jobs held out", used, fitted.HeldOut.All.Jobs)
			}
			// Answers are corrected for the jobs that the groups stand for, and for no others.
			for release, torch := range map[string]string{"unnamed": "", "2.4": "2.4.1", "2.8": "2.8.0",
				"2.9": "2.9.2"} {
				job := naming(measuredJob(t, 3), torch)
				corrected := s.estimate(job, fitted.ID).Peak.DeviceBytes - s.estimate(job,
					estimator.Calibration).Peak.DeviceBytes
				if want := slices.Contains(c.groups, release); (corrected > 150*mib) != want || !want &&
					corrected != 0 {
					t.Errorf("a job of %s is corrected by %d MiB", release, corrected/mib)
				}
			}
			report, err := s.Accuracy(t.Context(), service.ObservationFilter{},
				service.AccuracyOptions{Calibration: fitted.ID})
			if err != nil || len(report.Groups) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			if share := *report.Groups[0].After.WithinBounds; share < 0.95 {
				t.Errorf("afterwards %g of the runs lie within their bounds", share)
			}
		})
	}
}
