package service

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
)

// What is in memory of the calibrations, so that answers with one of them need no database: the newest, and beside
// those the ones that requests named lately. A calibration is some kilobytes, and megabytes where there are runs of
// thousands of kinds; the bytes are those of its JSON.
const (
	newestCalibrations = 32
	askedCalibrations  = 16
	mostKeptBytes      = 8 << 20 // of the newest, and of the others
)

// keptCalibration is one that is in memory.
type keptCalibration struct {
	*Calibration
	// value is what the estimator takes; nil where that is another estimator than the one that it was fitted to.
	value *calibration.Calibration
	bytes int
}

func keep(c *Calibration, bytes int) (*keptCalibration, error) {
	k := &keptCalibration{Calibration: c, bytes: bytes}
	if !c.fits() {
		return k, nil
	}
	var err error
	k.value, err = c.value()
	return k, err
}

// keptCalibrations are those in memory. Calibrations never change, so none of them is ever out of date.
type keptCalibrations struct {
	newest atomic.Pointer[[]*keptCalibration]
	asked  *lru.Cache[string, *keptCalibration]
	// more says that asked has some that were not handed to the one who keeps snapshots.
	more atomic.Bool
}

func newKeptCalibrations(list []*Calibration) *keptCalibrations {
	k := &keptCalibrations{}
	k.asked, _ = lru.New[string, *keptCalibration](askedCalibrations) // its error is about a size below 1
	var newest []*keptCalibration
	for _, c := range list {
		if one, err := keep(c, 0); err == nil {
			newest = append(newest, one)
		}
	}
	k.newest.Store(&newest)
	return k
}

// find is nil where there is none of that id in memory.
func (k *keptCalibrations) find(id string) *keptCalibration {
	for _, c := range *k.newest.Load() {
		if c.ID == id {
			return c
		}
	}
	c, _ := k.asked.Get(id)
	return c
}

// add keeps one that a request named.
func (k *keptCalibrations) add(c *keptCalibration) {
	k.asked.Add(c.ID, c)
	bytes := 0
	for _, other := range k.asked.Values() {
		bytes += other.bytes
	}
	for bytes > mostKeptBytes && k.asked.Len() > 1 {
		_, oldest, _ := k.asked.RemoveOldest()
		bytes -= oldest.bytes
	}
	k.more.Store(true)
}

// list is all of them, for a snapshot.
func (k *keptCalibrations) list(newest []*keptCalibration) []*Calibration {
	var all []*Calibration
	for _, c := range slices.Concat(newest, k.asked.Values()) {
		if !slices.ContainsFunc(all, func(other *Calibration) bool { return other.ID == c.ID }) {
			all = append(all, c.Calibration)
		}
	}
	return all
}

// readNewest asks the store for the newest calibrations.
func readNewest(ctx context.Context, store Store) ([]*keptCalibration, error) {
	var newest []*keptCalibration
	bytes := 0
	err := store.EachCalibration(ctx, newestCalibrations, func(c *Calibration, size int) (bool, error) {
		one, err := keep(c, size)
		if err != nil {
			return false, fmt.Errorf("the calibration %s cannot be used: %w", c.ID, err)
		}
		if bytes += size; bytes > mostKeptBytes && len(newest) > 0 {
			return false, nil
		}
		newest = append(newest, one)
		return true, nil
	})
	return newest, err
}

// findCalibration looks in memory and then asks the store; nil where there is none of that id.
func (s *Service) findCalibration(ctx context.Context, id string) (*keptCalibration, error) {
	if c := s.kept.find(id); c != nil {
		return c, nil
	}
	if s.store == nil || !calibrationForm.MatchString(id) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c, size, err := s.store.Calibration(ctx, id)
	if err != nil {
		return nil, storeError(err, fmt.Sprintf("the calibration %s is not in memory, where the newest %d and those "+
			"that were asked for lately are, and the database does not answer", id, newestCalibrations))
	}
	if c == nil {
		return nil, nil
	}
	one, err := keep(c, size)
	if err != nil {
		return nil, &Error{Code: CodeInternal, Message: "the calibration cannot be used", Err: err}
	}
	s.kept.add(one)
	return one, nil
}

// namedCalibrations is how many an error names.
const namedCalibrations = 10

// knownCalibrations are the ids that an error names: the built-in constants, and the newest in memory.
func (s *Service) knownCalibrations() []string {
	known := []string{estimator.Calibration}
	newest := *s.kept.newest.Load()
	for _, c := range newest[:min(len(newest), namedCalibrations)] {
		known = append(known, c.ID)
	}
	return known
}
