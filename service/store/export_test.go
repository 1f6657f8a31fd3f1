package store

import (
	"context"
	"maps"
	"slices"
)

// Tables are those that the migrations make.
func Tables() []string { return slices.Sorted(maps.Keys(schema)) }

// Adopt is what Migrate does between the migrations and the catalog.
func Adopt(ctx context.Context, s *Store) error { return s.adopt(ctx) }

// Checkpoint moves what is in the log of an SQLite database into its file.
func (s *Store) Checkpoint(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// CheckpointAndKeepLog writes what the log has into the file, and leaves the log as it is.
func (s *Store) CheckpointAndKeepLog(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
	return err
}
