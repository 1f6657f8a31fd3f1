package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vramplan/vramplan/service/catalog"
)

// storeTimeout bounds what a request or a look at the catalog waits for the database.
const storeTimeout = 5 * time.Second

// follower is what a service knows of its store.
type follower struct {
	keep func(Snapshot)

	mu sync.Mutex // held while the store is read, so that what is older cannot replace what is newer
	// read is what was read last, and mark that of its calibrations: -1 before the first.
	read Snapshot
	mark CalibrationMark

	state DatabaseState
	known sync.Mutex // for state

	// checked is when the whole catalog was read last, and faults what was wrong with it, which is said to tell.
	checked time.Time
	faults  []string
	wrong   int // their number, for state
	tell    func(faults []string)
}

// checkInterval is how often the whole catalog is read, although nothing says that it changed: it may have been altered
// behind the service.
const checkInterval = 20 * time.Second

// DatabaseState says how the database was when it was last asked.
type DatabaseState struct {
	// Status is "none" where the service has no database, "ok", or "unreachable".
	Status string
	// Seen is when the catalog was last known to be the database's; before the first time, when the
	// service began.
	Seen time.Time
	// Faults counts the entries of the database's catalog that are not what was shipped or entered.
	Faults int
	// StoreFaults counts what of the whole store is not as the service wrote it.
	StoreFaults int
	// WritesRefusedSince is when the first write failed after which none has succeeded; zero while writes succeed.
	WritesRefusedSince time.Time
}

// TakesWrites says whether a change would be taken, as far as is known: the database answers, and the last write to it
// succeeded.
func (d DatabaseState) TakesWrites() bool {
	return d.Status == DatabaseOK && d.WritesRefusedSince.IsZero()
}

// The statuses of a database.
const (
	DatabaseNone        = "none"
	DatabaseOK          = "ok"
	DatabaseUnreachable = "unreachable"
)

// Database says how the database is.
func (s *Service) Database() DatabaseState {
	if s.store == nil {
		return DatabaseState{Status: DatabaseNone}
	}
	state := s.follow.stands()
	_, state.StoreFaults = s.StoreFaults()
	state.WritesRefusedSince, _ = s.store.WritesRefused()
	return state
}

// Refresh brings the catalog up to date with the store. Where that fails, answers go on
// from the last catalog that was read.
func (s *Service) Refresh(ctx context.Context) error {
	if s.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := s.refresh(ctx)
	s.follow.note(err == nil, s.now())
	if err != nil {
		return &Error{Code: CodeUnavailable, Message: "the catalog could not be read", Err: err}
	}
	return nil
}

func (s *Service) refresh(ctx context.Context) error {
	s.follow.mu.Lock()
	defer s.follow.mu.Unlock()
	next, mark := s.follow.read, s.follow.mark
	present, err := s.store.CatalogMark(ctx)
	if err != nil {
		return err
	}
	changed := next.Catalog == nil || present != next.Catalog.Mark
	if changed || time.Since(s.follow.checked) >= checkInterval {
		read, err := s.store.Catalog(ctx)
		if err != nil {
			return err
		}
		s.follow.checked = time.Now()
		s.follow.fault(read.Faults)
		// Altered entries of users have another digest, and so another revision.
		changed = changed || read.Revision != next.Catalog.Revision
		if changed {
			next.Catalog = read
		}
	}
	now, err := s.store.CalibrationMark(ctx)
	if err != nil {
		return err
	}
	activated, fitted := now.Activations != mark.Activations, now.Versions != mark.Versions
	if activated {
		active, err := s.store.ActiveCalibration(ctx, now.Activations)
		switch _, altered := errors.AsType[*AlteredError](err); {
		case altered: // answers go on with what was in force, and name it
			activated = false
		case err != nil:
			return err
		default:
			next.Calibration = active
		}
	}
	newest := *s.kept.newest.Load()
	if fitted {
		if newest, err = readNewest(ctx, s.store); err != nil {
			return err
		}
	}
	if err := s.keys.look(ctx); err != nil {
		return err
	}
	if asked := s.kept.more.Swap(false); !changed && !activated && !fitted && !asked {
		return nil
	}
	next.Calibrations, next.Writes = s.kept.list(newest), s.audits.seen()
	// Kept before the first answer from it, so that a service which is killed and starts while the
	// database is gone never knows less than it has answered.
	if s.follow.keep != nil {
		s.follow.keep(next)
	}
	if changed {
		s.catalog.Store(catalog.Of(next.Catalog))
	}
	s.kept.newest.Store(&newest)
	if activated {
		if err := s.use(next.Calibration); err != nil {
			return err
		}
	}
	if !activated { // also one that is not used since it was altered: it is looked at again
		now.Activations = mark.Activations
	}
	s.follow.read, s.follow.mark = next, now
	return nil
}

// fault tells of what is wrong with the catalog when that changes.
func (f *follower) fault(faults []string) {
	if slices.Equal(faults, f.faults) {
		return
	}
	f.faults = faults
	if f.tell != nil {
		f.tell(faults)
	}
	f.known.Lock()
	defer f.known.Unlock()
	f.wrong = len(faults)
}

// note is whether the store answered at that moment.
func (f *follower) note(ok bool, now time.Time) {
	f.known.Lock()
	defer f.known.Unlock()
	f.state.Status = DatabaseUnreachable
	if ok {
		f.state = DatabaseState{Status: DatabaseOK, Seen: now}
	}
}

// stands is how the store was when it was last asked.
func (f *follower) stands() DatabaseState {
	f.known.Lock()
	defer f.known.Unlock()
	state := f.state
	state.Faults = f.wrong
	return state
}

// Follow keeps the catalog in step with the store until ctx ends: it looks every
// interval, and so sees what other replicas change. Where prepare is not nil, it is
// called until it succeeds before the first look. report gets an error when the
// first look after a good one fails, and nil when a look succeeds again.
func (s *Service) Follow(ctx context.Context, interval time.Duration, prepare func(context.Context) error,
	report func(error)) {
	failing := prepare != nil
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		var err error
		if prepare != nil {
			if err = prepare(ctx); err == nil {
				prepare = nil
			}
		}
		if err == nil {
			err = s.Refresh(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			report(err)
		}
	}
}
