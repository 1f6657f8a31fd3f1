package service

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/vramplan/vramplan/estimator"
)

// accuracyReport is the report on all cards and families as it was made last. Whoever asks gets it from memory, unless
// observations came or went since.
type accuracyReport struct {
	mu     sync.Mutex
	mark   ObservationMark
	groups []AccuracyGroup
	made   time.Time
	took   time.Duration
}

// A report that took long is made again only after a multiple of that time, so that whoever reports runs and asks
// for reports in turn cannot keep the service busy with it.
const (
	reportPause   = 10
	cheapToReport = 50 * time.Millisecond
)

// report is how predictions did, by group.
func (s *Service) report(ctx context.Context) ([]AccuracyGroup, error) {
	r := &s.accuracy
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups != nil && r.took > cheapToReport && time.Since(r.made) < reportPause*r.took {
		return r.groups, nil
	}
	looking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	mark, err := s.store.ObservationMark(looking)
	if err != nil {
		return nil, storeError(err, "the observations could not be read")
	}
	if r.groups != nil && mark == r.mark {
		return r.groups, nil
	}
	began := time.Now()
	tallies, n := tallies{}, 0
	err = s.eachObservation(ctx, ObservationFilter{WithoutJobs: true}, func(o *Observation) (bool, error) {
		tallies.of(o).add(o)
		n++
		return n < maxReported, nil
	})
	if err != nil {
		return nil, err
	}
	r.groups, r.mark = tallies.groups(false), mark
	r.made, r.took = time.Now(), time.Since(began)
	return r.groups, nil
}

// tallies gather runs by card, family and release of PyTorch.
type tallies map[groupKey]*accuracyTally

type groupKey struct{ gpu, family, torch string }

func (g *AccuracyGroup) key() groupKey { return groupKey{g.GPU, g.Family, g.Torch} }

func (t tallies) of(o *Observation) *accuracyTally {
	k := groupKey{o.GPU, o.Family, o.Torch}
	if t[k] == nil {
		t[k] = &accuracyTally{group: AccuracyGroup{GPU: k.gpu, Family: k.family, Torch: k.torch}}
	}
	return t[k]
}

// groups are the tallies as they are reported, in a fixed order and never nil.
func (t tallies) groups(again bool) []AccuracyGroup {
	list := []AccuracyGroup{}
	for _, one := range t {
		list = append(list, one.summary(again))
	}
	slices.SortFunc(list, func(a, b AccuracyGroup) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Torch, b.Torch))
	})
	return list
}

// Accuracy compares what was predicted with what was measured, by group. Nothing is replayed for it: what a calibration
// would have said was worked out when it was fitted.
func (s *Service) Accuracy(ctx context.Context, f ObservationFilter, o AccuracyOptions) (*Accuracy, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	stored, err := s.fittedAccuracy(ctx, o.Calibration)
	if err != nil {
		return nil, err
	}
	groups, err := s.report(ctx)
	if err != nil {
		return nil, err
	}
	f = s.byID(f)
	report := &Accuracy{Groups: []AccuracyGroup{}}
	for _, g := range groups {
		if f.GPU != "" && g.GPU != f.GPU || f.Family != "" && g.Family != f.Family {
			continue
		}
		report.Observations += g.Runs + g.Quarantined
		report.Groups = append(report.Groups, g)
	}
	if o.Calibration == "" {
		return report, nil
	}
	report.Calibration = o.Calibration
	if stored == nil {
		return report, nil
	}
	report.AsOf = &stored.CreatedAt
	for i := range report.Groups {
		g := &report.Groups[i]
		for j := range stored.Accuracy {
			if then := &stored.Accuracy[j]; then.key() == g.key() {
				g.Before, g.After = then.Before, then.After
				if o.Calibration == estimator.Calibration {
					g.After = then.Before
				}
			}
		}
	}
	return report, nil
}

// fittedAccuracy is the calibration that says how one did on the runs of its fit; for the built-in constants the
// newest, whose fit compared with them. nil is none.
func (s *Service) fittedAccuracy(ctx context.Context, id string) (*Calibration, error) {
	if id == "" {
		return nil, nil
	}
	if _, err := s.calibrationFor(ctx, id); err != nil {
		return nil, err
	}
	if id == estimator.Calibration {
		for _, c := range *s.kept.newest.Load() {
			if len(c.Accuracy) > 0 {
				return c.Calibration, nil
			}
		}
		return nil, nil
	}
	c, err := s.findCalibration(ctx, id)
	if err != nil || c == nil {
		return nil, err
	}
	return c.Calibration, nil
}
