package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
)

// Migration is one step of the schema's history, or the built-in catalog, which comes behind them and has no version.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	// AppliedAt is nil for a migration that has not run.
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

// Migrate brings the database to the present schema and catalog, and returns what it
// ran: nothing if the database was up to date. Processes that start at
// once run each migration once; the others wait for the one that is at it.
func (s *Store) Migrate(ctx context.Context) ([]Migration, error) {
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate database %s: %w", s.name, explained(err))
	}
	if err := s.adopt(ctx); err != nil {
		return nil, fmt.Errorf("migrate database %s: %w", s.name, err)
	}
	brought, err := s.bringCatalog(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate database %s: %w", s.name, explained(err))
	}
	ran := make([]Migration, len(results))
	for i, r := range results {
		ran[i] = Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path), Applied: true}
	}
	if brought {
		ran = append(ran, Migration{Name: "catalog " + shippedEdition().name, Applied: true})
	}
	return ran, nil
}

// Status lists all migrations, run or not, and the catalog.
func (s *Store) Status(ctx context.Context) ([]Migration, error) {
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	statuses, err := provider.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the migrations of database %s: %w", s.name, err)
	}
	list := make([]Migration, len(statuses))
	for i, m := range statuses {
		list[i] = Migration{Version: m.Source.Version, Name: path.Base(m.Source.Path),
			Applied: m.State == goose.StateApplied}
		if list[i].Applied {
			at := m.AppliedAt.UTC()
			list[i].AppliedAt = &at
		}
	}
	catalog := Migration{Name: "catalog " + shippedEdition().name}
	if !slices.ContainsFunc(list, func(m Migration) bool { return !m.Applied }) {
		err := s.repeat(ctx, func() error {
			now, err := readEdition(ctx, s.db)
			catalog.Applied = err == nil && !now.stale()
			return err
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("read the edition of the catalog of database %s: %w", s.name, err)
		}
	}
	return append(list, catalog), nil
}

func (s *Store) provider() (*goose.Provider, error) {
	provider, err := goose.NewProvider(s.dialect.goose, s.db, s.dialect.migrations, goose.WithLocker(s.dialect.lock(s)))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}
