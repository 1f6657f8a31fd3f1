package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service"
)

// outcomes is what became of the last write: that a database can be read says nothing of whether it can be written.
type outcomes struct {
	mu sync.Mutex
	// since is when the first write failed after which none has succeeded; zero while writes succeed.
	since  time.Time
	reason error
}

// note takes down what became of a write. A refusal of the service's own and a client that left say nothing of the
// database.
func (o *outcomes) note(err error) {
	if _, own := errors.AsType[*service.Error](err); own || errors.Is(err, context.Canceled) {
		return
	}
	if _, own := errors.AsType[*invalid.Error](err); own {
		return
	}
	if _, altered := errors.AsType[*service.AlteredError](err); altered {
		return // a row is not what was written, and the database takes others
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reason = err
	switch {
	case err == nil:
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = time.Now()
	}
}

// WritesRefused implements service.Store.
func (s *Store) WritesRefused() (since time.Time, reason error) {
	s.outcomes.mu.Lock()
	defer s.outcomes.mu.Unlock()
	return s.outcomes.since, s.outcomes.reason
}

// probeBytes is the room that has to be there for a file database to count as one that takes writes: the largest entry
// of a catalog, a recording of 1 MiB, and its history.
const probeBytes = 2 << 20

// ProbeWrite implements service.Store. On a server it writes the row by which migrations take turns, which nothing else
// reads; in a file the number that counts every write. A log of SQLite's that was longer before takes that on a full
// disk too, so that room is looked for as well.
func (s *Store) ProbeWrite(ctx context.Context) error {
	if s.guard != nil {
		if err := room(filepath.Dir(s.guard.path)); err != nil {
			err = &service.NotStored{Err: fmt.Errorf("look for room beside the database: %w", err)}
			s.outcomes.note(err)
			return err
		}
	}
	return s.write(ctx, func(tx *writeTx) error {
		if s.guard != nil {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE migration_lock SET taken = taken + 1 WHERE id = 1`); err != nil {
			return fmt.Errorf("write a row to see whether that is taken: %w", err)
		}
		return nil
	})
}

// room says whether a folder's file system takes probeBytes more.
func room(folder string) (err error) {
	file, err := os.CreateTemp(folder, ".vramplan-room-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	if _, err := file.Write(make([]byte, probeBytes)); err != nil {
		return err
	}
	return file.Sync() // what a file system promises it may break until here
}
