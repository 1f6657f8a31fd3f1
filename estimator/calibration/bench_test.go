package calibration_test

import (
	"fmt"
	"testing"

	"github.com/vramplan/vramplan/estimator/calibration"
)

// manyRuns is as many as a service fits at once, of several cards and families.
func manyRuns() []calibration.Row {
	var rows []calibration.Row
	for i := range 50 {
		s := newSite(uint64(i), fmt.Sprintf("card-%d", i/10), fmt.Sprintf("family-%d", i%10))
		s.context = 100 * mib
		runs := s.runs(200)
		for j := range runs {
			runs[j].Source = fmt.Sprint(j % 12)
		}
		rows = append(rows, runs...)
	}
	return rows
}

func BenchmarkFit(b *testing.B) {
	rows := manyRuns()
	for b.Loop() {
		if groups, _ := calibration.Fit(rows); len(groups) == 0 {
			b.Fatal("nothing was fitted")
		}
	}
}

func BenchmarkHoldOut(b *testing.B) {
	rows := manyRuns()
	for b.Loop() {
		if calibration.HoldOut(rows).All.Corrected == 0 {
			b.Fatal("nothing was fitted")
		}
	}
}
