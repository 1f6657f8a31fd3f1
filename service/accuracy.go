package service

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator"
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
	Observations int             `json:"observations"`
	Groups       []AccuracyGroup `json:"groups"`
}

// maxReported bounds the observations of one report.
const maxReported = 10_000

// Accuracy compares what was predicted with what was measured, by group.
func (s *Service) Accuracy(ctx context.Context, f ObservationFilter) (*Accuracy, error) {
	f.Before, f.Limit = "", maxReported
	list, err := s.Observations(ctx, f)
	if err != nil {
		return nil, err
	}
	type key struct{ gpu, family, torch string }
	groups := map[key][]*Observation{}
	for i := range list {
		o := &list[i]
		k := key{o.GPU, o.Family, o.Torch}
		groups[k] = append(groups[k], o)
	}
	report := &Accuracy{Observations: len(list), Groups: []AccuracyGroup{}}
	for k, runs := range groups {
		g := AccuracyGroup{GPU: k.gpu, Family: k.family, Torch: k.torch}
		g.summarise(runs)
		report.Groups = append(report.Groups, g)
	}
	slices.SortFunc(report.Groups, func(a, b AccuracyGroup) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Torch, b.Torch))
	})
	return report, nil
}

func (g *AccuracyGroup) summarise(runs []*Observation) {
	var allocated, reserved, device []float64
	within := 0
	for _, o := range runs {
		switch {
		case o.Quarantined != "":
			g.Quarantined++
			continue
		case o.Measured.OutOfMemory:
			// Where it stopped is less than what it needs, so it says nothing of an error.
			g.Runs++
			g.OutOfMemory++
			if o.Predicted.Verdict == estimator.Fits {
				g.FitButFailed++
			}
			continue
		}
		g.Runs++
		m, p := o.Measured, o.Predicted
		allocated = withError(allocated, p.AllocatedBytes, m.AllocatedBytes)
		reserved = withError(reserved, p.ReservedBytes, m.ReservedBytes)
		device = withError(device, p.DeviceBytes, m.DeviceBytes)
		if m.DeviceBytes > 0 && p.LowBytes <= m.DeviceBytes && m.DeviceBytes <= p.HighBytes {
			within++
		}
	}
	g.Allocated, g.Reserved, g.Device = summary(allocated), summary(reserved), summary(device)
	if len(device) > 0 {
		share := float64(within) / float64(len(device))
		g.WithinBounds = &share
	}
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
	for i, e := range errs {
		errs[i] = math.Abs(e)
	}
	s.Median, s.P90 = quantile(errs, 0.5), quantile(errs, 0.9)
	return s
}

// quantile is the smallest value that a share q of the list does not exceed.
func quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
