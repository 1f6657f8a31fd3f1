package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// auditInterval is how long after one look at the whole store the next begins, at least.
	auditInterval = 20 * time.Second
	// auditShare is how many times as long as it took a look is away: it takes at most a hundredth of the time.
	auditShare = 100
	// mostStoreFaults is how many a state keeps.
	mostStoreFaults = 100
)

// audits is what looks at the whole store found.
type audits struct {
	mu sync.Mutex
	// writes are the most that were seen of each table, in the life of this process or in that which kept a snapshot.
	writes map[string]int64
	faults []string
	count  int
}

// WithWrites sets the writes of each table that the store is known to have had.
func WithWrites(writes map[string]int64) Option { return func(o *options) { o.writes = writes } }

// Audit looks at everything that the store holds, now and then, until ctx ends. report gets what is wrong whenever that
// changes, nothing when nothing is wrong any more, and an error when a look after a good one could not be finished.
func (s *Service) Audit(ctx context.Context, report func(faults []string, count int, err error)) {
	failing := false
	for {
		began := time.Now()
		changed, err := s.audit(ctx)
		if ctx.Err() != nil {
			return
		}
		if changed || err != nil && !failing {
			faults, count := s.StoreFaults()
			report(faults, count, err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(auditInterval, auditShare*time.Since(began))):
		}
	}
}

// audit looks once, and says whether what is wrong is other than before.
func (s *Service) audit(ctx context.Context) (changed bool, err error) {
	check, err := s.store.Check(ctx)
	if err != nil {
		return false, fmt.Errorf("look at the whole database: %w", err)
	}
	a := &s.audits
	a.mu.Lock()
	defer a.mu.Unlock()
	faults, count := check.Faults, check.Count
	older := check.Older(a.writes)
	faults, count = append(faults, older...), count+len(older)
	for table, n := range check.Writes {
		if n > a.writes[table] {
			a.writes[table] = n
			s.kept.more.Store(true) // the next snapshot says so
		}
	}
	faults = faults[:min(len(faults), mostStoreFaults)]
	changed = count != a.count || !slices.Equal(faults, a.faults)
	a.faults, a.count = faults, count
	return changed, nil
}

// Older says which tables were written more often than they say now: an older state was put back.
func (c *StoreCheck) Older(seen map[string]int64) (faults []string) {
	for _, table := range slices.Sorted(maps.Keys(seen)) {
		if now, known := c.Writes[table]; known && now < seen[table] {
			faults = append(faults, fmt.Sprintf("%s: it was written %d times, and says %d: an older state was put back",
				table, seen[table], now))
		}
	}
	return faults
}

// StoreFaults says what the last look at the whole store found: up to a hundred faults by row, and their number.
func (s *Service) StoreFaults() (faults []string, count int) { return s.audits.found() }

func (a *audits) found() (faults []string, count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.faults), a.count
}

// seen are the writes of each table, for snapshots.
func (a *audits) seen() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.writes)
}
