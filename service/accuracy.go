package service

import (
	"math"
	"slices"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
)

// AccuracyGroup says how predictions did on one card, family and release of PyTorch.
type AccuracyGroup struct {
	GPU    string `json:"gpu" example:"rtx-4070"`
	Family string `json:"family" example:"nanogpt"`
	Torch  string `json:"torch,omitempty" example:"2.9.1"`
	// Runs counts those that are not quarantined, out of memory included.
	Runs        int `json:"runs"`
	Quarantined int `json:"quarantined"`
	// OutOfMemory counts runs that failed for want of memory, FitButFailed those of them that were said to fit.
	OutOfMemory  int `json:"out_of_memory"`
	FitButFailed int `json:"fit_but_failed"`
	// Allocated, Reserved and Device are null where nobody measured them.
	Allocated *ErrorSummary `json:"allocated"`
	Reserved  *ErrorSummary `json:"reserved"`
	Device    *ErrorSummary `json:"device"`
	// WithinBounds is the share of measured device bytes between low_bytes and high_bytes; null without any.
	WithinBounds *float64 `json:"within_bounds"`
	// Before and After are what the built-in constants and the calibration that was asked for say of the runs that it
	// was fitted to; absent where none was.
	Before *Reprediction `json:"before,omitempty"`
	After  *Reprediction `json:"after,omitempty"`
}

// Reprediction is how this estimator does on runs that were measured, whatever was predicted when they came in.
type Reprediction struct {
	Reserved     *ErrorSummary `json:"reserved"`
	Device       *ErrorSummary `json:"device"`
	WithinBounds *float64      `json:"within_bounds"`
	// WidthBytes is the median of high_bytes − low_bytes.
	WidthBytes int64 `json:"width_bytes"`
	// FitButFailed counts runs that failed for want of memory where even high_bytes were there.
	FitButFailed int `json:"fit_but_failed"`
}

// ErrorSummary describes predicted ÷ measured − 1.
type ErrorSummary struct {
	Runs int `json:"runs"`
	// Bias is the median.
	Bias float64 `json:"bias"`
	// Median and P90 are of the size of the error.
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Accuracy is a report on predictions.
type Accuracy struct {
	// Observations counts those that the report is made of, the newest first, up to 10,000.
	Observations int `json:"observations"`
	// Calibration is the one behind what the groups have under after; absent where none was asked for.
	Calibration string `json:"calibration,omitempty" example:"cal-3-5f2a9c01d7e4"`
	// AsOf is when that was worked out: with the fit. Absent where the calibration was fitted by a program that did
	// not.
	AsOf   *time.Time      `json:"as_of,omitempty" example:"2026-11-22T10:00:00Z"`
	Groups []AccuracyGroup `json:"groups"`
}

// AccuracyOptions asks for parts of a report that are left out by default.
type AccuracyOptions struct {
	// Calibration asks for what this one and the built-in constants said of the runs of its fit.
	Calibration string
}

// maxReported bounds the observations of one report.
const maxReported = 10_000

// accuracyTally gathers what a group is reported with.
type accuracyTally struct {
	group         AccuracyGroup
	allocated     []float64
	stored        boundsTally
	before, after boundsTally
}

func (t *accuracyTally) add(o *Observation) {
	g, m, p := &t.group, o.Measured, o.Predicted
	switch {
	case o.Quarantined != "":
		g.Quarantined++
		return
	case m.OutOfMemory:
		// Where it stopped is less than what it needs, so it says nothing of an error.
		g.Runs++
		g.OutOfMemory++
		if p.Verdict == estimator.Fits {
			g.FitButFailed++
		}
		return
	}
	g.Runs++
	t.allocated = withError(t.allocated, p.AllocatedBytes, m.AllocatedBytes)
	t.stored.add(m.ReservedBytes, m.DeviceBytes, memory.Figures{Reserved: p.ReservedBytes, Device: p.DeviceBytes,
		Low: p.LowBytes, High: p.HighBytes})
}

// again holds a run against what is said of it now.
func (t *accuracyTally) again(row *calibration.Row, c *calibration.Calibration) {
	const confidence = 0.95 // what the widths of a row are counted in
	t.before.hold(row, row.Base.Bounded(memory.Correction{}, confidence))
	t.after.hold(row, row.Base.Bounded(c.For(row.Key).Correction(row.Base.Reserved, confidence), confidence))
}

func (t *accuracyTally) summary(again bool) AccuracyGroup {
	g := t.group
	g.Allocated, g.Reserved, g.Device, g.WithinBounds = summary(t.allocated), summary(t.stored.reserved),
		summary(t.stored.device), t.stored.share()
	if again {
		g.Before, g.After = t.before.summary(), t.after.summary()
	}
	return g
}

// boundsTally gathers how figures and their bounds did.
type boundsTally struct {
	reserved, device, widths []float64
	within, fitButFailed     int
}

func (t *boundsTally) add(reserved, device int64, f memory.Figures) {
	t.reserved = withError(t.reserved, f.Reserved, reserved)
	if device == 0 {
		return
	}
	t.device = withError(t.device, f.Device, device)
	t.widths = append(t.widths, float64(f.High-f.Low))
	if f.Low <= device && device <= f.High {
		t.within++
	}
}

func (t *boundsTally) hold(row *calibration.Row, f memory.Figures) {
	if row.AtLeast == 0 {
		t.add(row.Reserved, row.Device, f)
	} else if f.High <= row.AtLeast {
		t.fitButFailed++
	}
}

// share is that of the measured processes that lie between the bounds; nil without any.
func (t *boundsTally) share() *float64 {
	if len(t.device) == 0 {
		return nil
	}
	share := float64(t.within) / float64(len(t.device))
	return &share
}

func (t *boundsTally) summary() *Reprediction {
	r := &Reprediction{WithinBounds: t.share(), FitButFailed: t.fitButFailed}
	if len(t.widths) > 0 {
		r.WidthBytes = int64(quantile(t.widths, 0.5))
	}
	r.Reserved, r.Device = summary(t.reserved), summary(t.device)
	return r
}

func withError(list []float64, predicted, measured int64) []float64 {
	if measured == 0 {
		return list
	}
	return append(list, float64(predicted)/float64(measured)-1)
}

func summary(errs []float64) *ErrorSummary {
	if len(errs) == 0 {
		return nil
	}
	s := &ErrorSummary{Runs: len(errs), Bias: quantile(errs, 0.5)}
	sizes := make([]float64, len(errs))
	for i, e := range errs {
		sizes[i] = math.Abs(e)
	}
	s.Median, s.P90 = quantile(sizes, 0.5), quantile(sizes, 0.9)
	return s
}

// quantile is the smallest value that a share q of the list does not exceed.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
