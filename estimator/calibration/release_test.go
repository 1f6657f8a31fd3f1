package calibration_test

import (
	"testing"

	"github.com/vramplan/vramplan/estimator/calibration"
)

// A run that stands for its release and for jobs that name none counts once where releases are not told apart.
func TestRunsOfTwoReleases(t *testing.T) {
	var rows []calibration.Row
	for _, family := range []string{"gpt2", "llama"} { // so that the group of the card is of several kinds
		for _, torch := range []string{"2.8", "2.9"} {
			s := newSite(uint64(len(rows)), "a100", family)
			s.key.Torch, s.context = torch, 100*mib
			for _, r := range s.runs(40) {
				r.ID += torch
				twin := r
				twin.Key.Torch, twin.ReleaseOnly = calibration.Unnamed, true
				rows = append(rows, r, twin)
			}
		}
	}
	groups, _ := calibration.Fit(rows)
	jobs := map[calibration.Key]int{}
	for _, g := range groups {
		jobs[g.Key] = g.Jobs
	}
	for key, want := range map[calibration.Key]int{
		{GPU: "a100", Torch: "2.9", Family: "gpt2"}:               40,
		{GPU: "a100", Torch: "2.9"}:                               80,
		{GPU: "a100", Torch: calibration.Unnamed, Family: "gpt2"}: 80,
		{GPU: "a100", Torch: calibration.Unnamed}:                 160,
		{GPU: "a100"}: 160,
	} {
		if jobs[key] != want {
			t.Errorf("%s has %d jobs, want %d", key, jobs[key], want)
		}
	}
	held := calibration.HoldOut(rows)
	if held.All.Jobs != 160 {
		t.Errorf("%d jobs were held out, want 160", held.All.Jobs)
	}
	for _, g := range held.Groups {
		if want := map[string]int{"2.8": 40, "2.9": 40, calibration.Unnamed: 80}[g.Torch]; g.Jobs != want {
			t.Errorf("%s: %d jobs were held out, want %d", g.Key, g.Jobs, want)
		}
	}
}
