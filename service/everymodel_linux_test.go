package service

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
)

// processorTime is that of the whole program, which does not depend on what else runs.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// planned is what one plan took of a core, and the answers that it asked for: those that were played, and those that
// needed recording only.
type planned struct {
	model                 string
	all, playing          time.Duration
	played, recordedAlone int
}

// BenchmarkPlanEveryModel plans every model of the catalog that a 4090 can be asked about, as the page does and as a
// whole, and tells how processor time is spread over the plans and what the dearest ones spend it on. Only with -cpu 1
// is what the playing takes right.
func BenchmarkPlanEveryModel(b *testing.B) {
	models, err := EmbeddedCatalog().Models()
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"brief", "whole"} {
		b.Run(kind, func(b *testing.B) {
			var plans []planned
			for b.Loop() {
				plans = plans[:0]
				for _, m := range models {
					if p, ok := planModel(b, m.ID, kind == "brief"); ok {
						plans = append(plans, p)
					}
				}
			}
			slices.SortFunc(plans, func(x, y planned) int { return int(x.all - y.all) })
			slow := len(plans)
			var all, playing time.Duration
			for i, p := range plans {
				if all, playing = all+p.all, playing+p.playing; p.all > 200*time.Millisecond {
					slow = min(slow, i)
				}
			}
			at := func(share float64) float64 {
				return float64(plans[int(share*float64(len(plans)-1))].all.Microseconds()) / 1000
			}
			b.ReportMetric(float64(len(plans)), "models")
			b.ReportMetric(at(0.5), "median-ms")
			b.ReportMetric(at(0.9), "ninth-tenth-ms")
			b.ReportMetric(at(1), "most-ms")
			b.ReportMetric(float64(len(plans)-slow), "slower-than-200ms")
			b.ReportMetric(100*float64(playing)/float64(all), "%-in-played-answers")
			for _, p := range plans[len(plans)-5:] {
				b.Logf("%s: %d ms, %d of it in %d played answers, %d recorded only", p.model, p.all.Milliseconds(),
					p.playing.Milliseconds(), p.played, p.recordedAlone)
			}
		})
	}
}

// planModel plans a model of which nothing is known yet; ok is false where it cannot be asked about: the sequence is
// longer than it takes, or it has an encoder beside its decoder.
func planModel(b *testing.B, name string, brief bool) (p planned, ok bool) {
	p.model = name
	s := New(EmbeddedCatalog(), WithCache(0))
	var mu sync.Mutex
	s.judge = func() planner.Estimator {
		judge := estimator.NewReplays().Judge
		return func(in estimator.Input) (*estimator.Result, error) {
			start := processorTime(b)
			r, err := judge(in)
			took := processorTime(b) - start
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !r.AtLeast {
				p.played++
				p.playing += took
			} else {
				p.recordedAlone++
			}
			return r, err
		}
	}
	job := estimator.Job{Model: estimator.Model{Preset: name},
		Training: estimator.Training{MicroBatch: 2, SequenceLength: 512}, GPUs: []estimator.GPURef{{Name: "rtx-4090"}}}
	start := processorTime(b)
	_, err := s.Plan(b.Context(), PlanRequest{Job: job}, PlanOptions{Brief: brief})
	p.all = processorTime(b) - start
	return p, err == nil
}
