package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
)

// catalogFlags say how the service follows its database.
type catalogFlags struct {
	databaseFlags `embed:""`
	Refresh       time.Duration `default:"2s" setting:"VRAMPLAN_REFRESH" help:"How often to look for changes of the catalog that other replicas made."`
	Snapshot      string        `default:"vramplan-catalog.json" setting:"VRAMPLAN_SNAPSHOT" placeholder:"PATH" help:"File in which the catalog of a PostgreSQL database is kept, for a start while it is gone; off keeps none."`
}

func (c *catalogFlags) validate() error {
	if c.Refresh < 100*time.Millisecond {
		return fmt.Errorf("--refresh (VRAMPLAN_REFRESH) %s: give 100ms or more", c.Refresh)
	}
	return nil
}

// follower is a service in step with its database.
type follower struct {
	*service.Service
	database *store.Store
	log      zerolog.Logger
	interval time.Duration
	// prepare is what still has to be done before the database can be read; nil after a good start.
	prepare func(context.Context) error

	stop context.CancelFunc
	done sync.WaitGroup
}

// start opens the database, brings it up to date and reads the catalog. Without its
// database server, the service begins with the catalog that it kept, or with
// the built-in one, and goes on trying.
func (c *catalogFlags) start(ctx context.Context, log zerolog.Logger, opts ...service.Option) (*follower, error) {
	db, err := store.Open(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	f := &follower{database: db, log: log, interval: c.Refresh, stop: func() {}}
	f.prepare = func(ctx context.Context) error {
		ran, err := db.Migrate(ctx)
		if err == nil && len(ran) > 0 {
			log.Info().Str("database", db.Name()).Int("migrations_run", len(ran)).Msg("migrated")
		}
		return err
	}
	opts = append(opts, service.WithStore(db), service.WithFaults(func(faults []string) {
		if len(faults) == 0 {
			log.Info().Msg("the catalog of the database is whole again")
			return
		}
		log.Error().Strs("faults", faults[:min(len(faults), 10)]).Int("count", len(faults)).Str("database", db.Name()).
			Msg("the catalog of the database was altered: answers are made with what was shipped and " +
				"what its history has")
	}))
	first := service.EmbeddedCatalog()
	if db.Remote() && c.Snapshot != "off" {
		opts = append(opts, service.WithKeep(c.keep(db.Name(), log)))
		switch kept, err := store.Kept(c.Snapshot, db.Name()); {
		case err == nil:
			first = catalog.Of(kept.Catalog)
			opts = append(opts, service.WithCalibration(kept.Calibration), service.WithCalibrations(kept.Calibrations),
				service.WithWrites(kept.Writes))
		case !errors.Is(err, fs.ErrNotExist):
			log.Warn().Err(err).Msg("the kept catalog is not used")
		}
	}
	f.Service = service.New(first, opts...)

	if err = f.prepare(ctx); err == nil {
		f.prepare = nil
		err = f.Refresh(ctx)
	}
	switch {
	case err == nil:
		return f, nil
	case !db.Remote() || ctx.Err() != nil:
		return nil, errors.Join(err, db.Close())
	}
	log.Error().Err(err).Str("database", db.Name()).Str("catalog", f.CatalogRevision()).
		Msg("the database does not answer: starting with the last catalog that is known, changes are " +
			"refused until it does")
	return f, nil
}

// keep writes what answers are made with to its file; a file that cannot be written is no reason not to serve.
func (c *catalogFlags) keep(database string, log zerolog.Logger) func(service.Snapshot) {
	return func(s service.Snapshot) {
		if err := store.Keep(c.Snapshot, database, s); err != nil {
			log.Warn().Err(err).Msg("a start without the database would begin with an older catalog")
		}
	}
}

// follow keeps the catalog in step until close.
func (f *follower) follow(ctx context.Context) {
	ctx, f.stop = context.WithCancel(ctx)
	f.done.Go(func() {
		f.Follow(ctx, f.interval, f.prepare, func(err error) {
			if err != nil {
				f.log.Error().Err(err).Str("database",
					f.database.Name()).Msg("the database does not answer: going on " +
					"with the last catalog, changes are refused")
				return
			}
			f.log.Info().Str("database", f.database.Name()).Str("catalog",
				f.CatalogRevision()).Msg("the database answers again")
		})
	})
	f.done.Go(func() {
		f.WatchWrites(ctx, func(err error) {
			if err != nil {
				f.log.Error().Err(err).Str("database", f.database.Name()).
					Msg("the database does not take what is written: changes are refused, answers go on")
				return
			}
			f.log.Info().Str("database", f.database.Name()).Msg("the database takes what is written again")
		})
	})
	f.done.Go(func() {
		f.Audit(ctx, func(faults []string, count int, err error) {
			switch {
			case err != nil:
				f.log.Error().Err(err).Msg("the database could not be looked at as a whole")
			case count == 0:
				f.log.Info().Msg("everything in the database is as it was written")
			default:
				f.log.Error().Strs("faults", faults[:min(len(faults), 10)]).Int("count", count).Str("database",
					f.database.Name()).
					Msg("the database is not what was written: vramplan verify shows all of it")
			}
		})
	})
	f.done.Go(func() {
		f.Retain(ctx, func(dropped int64, err error) {
			if err != nil {
				f.log.Error().Err(err).Msg("old observations could not be deleted")
			}
			if dropped > 0 {
				f.log.Info().Int64("observations", dropped).Msg("old observations were deleted")
			}
		})
	})
}

func (f *follower) close() error {
	f.stop()
	f.done.Wait()
	return f.database.Close()
}
