package estimator

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/resolved"
)

// calibrated makes a calibration of groups.
func calibrated(t interface{ Fatal(...any) }, groups ...calibration.Group) *calibration.Calibration {
	c, err := calibration.New("cal-1", Version, Calibration, groups)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var fitted4070 = calibration.Group{Key: calibration.Key{GPU: "rtx-4070", Torch: calibration.Unnamed, Family: "nanogpt"},
	Jobs: 57, BoundedBy: 38,
	ContextBytes: 100 << 20, WorkspaceBytes: 50 << 20, AllocatorShare: 0.01, ReservedToBytes: 40 << 30,
	Bounds: []calibration.Bound{{Confidence: 0.9, Below: 0.5, Above: 0.4}, {Confidence: 0.95, Below: 0.6, Above: 0.5}}}

// A calibration corrects what was not replayed, and says so.
func TestCalibrationCorrects(t *testing.T) {
	in := Input{Job: gpt2Job(),
		GPUs: []GPU{{ID: "rtx-4070", UsableBytes: 11994 << 20, ComputeCapability: 89, Multiprocessors: 46},
			{ID: "l40s", UsableBytes: 45 << 30, ComputeCapability: 89, Multiprocessors: 142}}}
	before, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Calibration = calibrated(t, fitted4070)
	after, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	p, q := before.Peak, after.Peak
	share := int64(0.01 * float64(p.ReservedBytes))
	if q.AllocatedBytes != p.AllocatedBytes || q.ReservedBytes != p.ReservedBytes+50<<20+share ||
		q.DeviceBytes != p.DeviceBytes+150<<20+share {
		t.Errorf("before %+v\nafter %+v", p, q)
	}
	if up, was := q.HighBytes-q.DeviceBytes, p.HighBytes-p.DeviceBytes; up < was/2-1 || up > was/2+1 {
		t.Errorf("high_bytes lies %d over the figure, want half of %d", up, was)
	}
	if after.Versions.Calibration != "cal-1" || before.Versions.Calibration != Calibration {
		t.Errorf("calibrations %s and %s", before.Versions.Calibration, after.Versions.Calibration)
	}
	if d := after.Doubts[0]; d.Source != "calibration" || d.AboveBytes != q.HighBytes-q.DeviceBytes ||
		!strings.Contains(d.How, "95 % of 38 measured jobs") {
		t.Errorf("doubts %+v", after.Doubts)
	}
	for name, want := range map[string]string{"allocator": "by 57 measured jobs",
		"cuda_context": "100.0 MiB of it by 57 measured jobs"} {
		if how := component(after, name).How; !strings.Contains(how, want) {
			t.Errorf("%s: %s", name, how)
		}
	}
	if diff := cmp.Diff(before.Phases, after.Phases); diff != "" {
		t.Errorf("what is replayed changed:\n%s", diff)
	}
	// The other card belongs to no group.
	if diff := cmp.Diff(before.GPUs[1], after.GPUs[1]); diff != "" {
		t.Errorf("a card without measured runs (-before +after):\n%s", diff)
	}
	if after.GPUs[0].HeadroomBytes != in.GPUs[0].UsableBytes-q.DeviceBytes {
		t.Errorf("headroom %d beside %d", after.GPUs[0].HeadroomBytes, q.DeviceBytes)
	}
	in.Job.Confidence = 0.99
	if unsure, err := Estimate(in); err != nil || !strings.Contains(unsure.Doubts[0].How, "too few to promise 99 %") {
		t.Errorf("%+v, %v", unsure.Doubts, err)
	}
}

// A job belongs to the groups of the release that it names.
func TestCalibrationKey(t *testing.T) {
	job := gpt2Job()
	card := &GPU{ID: "rtx-4070", ComputeCapability: 89}
	want := calibration.Key{GPU: "rtx-4070", ComputeCapability: 89, Torch: calibration.Unnamed, Family: "nanogpt"}
	if got := resolved.CalibrationKey(&job, "nanogpt", card); got != want {
		t.Errorf("%+v", got)
	}
	job.Training.Versions = map[string]string{"torch": "2.4.1+cu121"}
	job.Training.Distributed = &Distributed{WorldSize: 2}
	want.Torch, want.SeveralGPUs = "2.4", true
	if got := resolved.CalibrationKey(&job, "nanogpt", card); got != want {
		t.Errorf("%+v", got)
	}
	job.Training.Versions = map[string]string{"torch": "nightly"}
	if got := resolved.CalibrationKey(&job, "nanogpt", nil); got.Torch != calibration.Unnamed || got.GPU != "" {
		t.Errorf("%+v", got)
	}
}

// A calibration of another estimator is refused.
func TestCalibrationOfAnotherEstimator(t *testing.T) {
	for _, of := range [][2]string{{"0.0.1", Calibration}, {Version, "builtin-1"}} {
		c, err := calibration.New("cal-1", of[0], of[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Estimate(Input{Job: gpt2Job(), Calibration: c}); err == nil ||
			!strings.Contains(err.Error(), "cal-1 was fitted to the estimator "+of[0]) {
			t.Errorf("%v: %v", of, err)
		}
	}
}

// Whatever a calibration says, the ten components add up to the device figure, none is negative, the bounds hold it,
// what is replayed stays, and Judge agrees with Estimate.
func TestCalibratedComponentsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.Float64Range(1e-6, 1000)
		g := calibration.Group{Key: calibration.Key{GPU: "card", SeveralGPUs: rapid.Bool().Draw(t, "several")}, Jobs: 9,
			ContextBytes:    rapid.Int64Range(-2<<30, 2<<30).Draw(t, "context"),
			WorkspaceBytes:  rapid.Int64Range(-8<<30, 8<<30).Draw(t, "workspace"),
			AllocatorShare:  rapid.Float64Range(-0.5, 0.5).Draw(t, "share"),
			ReservedToBytes: rapid.Int64Range(0, 1e15).Draw(t, "to"),
			Bounds: []calibration.Bound{{Confidence: 0.9, Below: times.Draw(t, "below"),
				Above: times.Draw(t, "above")}}}
		job := gpt2Job()
		job.Training.MicroBatch = rapid.Int64Range(1, 20).Draw(t, "batch")
		job.Confidence = rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.999}).Draw(t, "confidence")
		if g.SeveralGPUs {
			job.Training.Distributed = &Distributed{WorldSize: 4}
		}
		holdsCalibrated(t, job, rapid.Int64Range(1<<30, 40<<30).Draw(t, "usable"), g)
	})
}

// TestCalibratedBoundFallsWithTheLimit: a lower bound so far away is lower for a larger smallest limit, so that what is
// alive does not decide a verdict.
func TestCalibratedBoundFallsWithTheLimit(t *testing.T) {
	job := gpt2Job()
	job.Training.MicroBatch, job.Confidence = 8, 0.999
	job.Training.Distributed = &Distributed{WorldSize: 4}
	holdsCalibrated(t, job, 1<<30+3, calibration.Group{Key: calibration.Key{GPU: "card", SeveralGPUs: true}, Jobs: 9,
		ContextBytes: 22, WorkspaceBytes: -8 << 30, ReservedToBytes: 204,
		Bounds: []calibration.Bound{{Confidence: 0.9, Below: 5.8826904296875, Above: 5.5e-5}}})
}

// holdsCalibrated holds the answers to a job with a calibration against the one without, and against each other.
func holdsCalibrated(t rapid.TB, job Job, usable int64, g calibration.Group) {
	t.Helper()
	in := Input{Job: job, GPUs: []GPU{{ID: "card", UsableBytes: usable, ComputeCapability: 89}}}
	plain, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Calibration = calibrated(t, g)
	res, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, c := range res.Components {
		sum += c.Bytes
		if c.Bytes < 0 {
			t.Fatalf("%s has %d bytes", c.Name, c.Bytes)
		}
	}
	p := res.Peak
	if sum != p.DeviceBytes || p.LowBytes < 0 || p.LowBytes > p.DeviceBytes || p.DeviceBytes > p.HighBytes ||
		p.ReservedBytes < p.AllocatedBytes || p.MinimumLimitBytes > p.ReservedBytes {
		t.Fatalf("components %d, %+v", sum, p)
	}
	if p.AllocatedBytes != plain.Peak.AllocatedBytes || cmp.Diff(plain.Phases, res.Phases) != "" {
		t.Fatalf("%+v became %+v", plain.Peak, p)
	}
	if f := res.GPUs[0]; math.IsNaN(f.Probability) || f.Probability < 0 || f.Probability > 1 {
		t.Fatalf("%+v", f)
	}
	judged, err := Judge(in)
	if err != nil {
		t.Fatal(err)
	}
	if judged.Peak.DeviceBytes != p.DeviceBytes || judged.Peak.HighBytes != p.HighBytes ||
		judged.GPUs[0].Verdict != res.GPUs[0].Verdict {
		t.Fatalf("Estimate says %+v %+v, Judge %+v %+v", p, res.GPUs, judged.Peak, judged.GPUs)
	}
}
