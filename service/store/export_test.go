package store

import "context"

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
