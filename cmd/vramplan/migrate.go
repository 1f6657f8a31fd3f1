package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/store"
)

// databaseFlags name the database of serve and migrate.
type databaseFlags struct {
	Database string `default:"file:vramplan.db" setting:"VRAMPLAN_DATABASE" placeholder:"NAME" help:"file:PATH, an SQLite file, made if it does not exist, or postgres://USER@HOST/DATABASE."`
}

type migrateCommand struct {
	Action        string `arg:"" optional:"" enum:"up,status" default:"up" help:"up (the default) or status."`
	databaseFlags `embed:""`
	Output        string `short:"o" enum:"table,json" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table or json."`
}

// Run migrates the database, or shows which migrations it has.
func (c *migrateCommand) Run(ctx context.Context, t *terminal) (err error) {
	db, err := store.Open(ctx, c.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	do := db.Status
	if c.Action == "up" {
		do = db.Migrate
	}
	migrations, err := do(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	switch {
	case c.Output == "json":
		if migrations == nil {
			migrations = []store.Migration{}
		}
		if err := json.NewEncoder(out).Encode(map[string]any{"migrations": migrations}); err != nil {
			return err
		}
	case c.Action == "up" && len(migrations) == 0:
		fmt.Fprintln(out, "The database is up to date.")
	default:
		g := screen.NewGrid("right", "left", "left")
		for _, m := range migrations {
			version := ""
			if m.Version > 0 {
				version = fmt.Sprint(m.Version)
			}
			g.Add(version, m.Name, migrationState(c.Action, m))
		}
		g.Write(out)
	}
	return out.Flush()
}

func migrationState(action string, m store.Migration) string {
	switch {
	case action == "up":
		return "applied now"
	case m.AppliedAt != nil:
		return "applied " + m.AppliedAt.Format(time.RFC3339)
	case m.Applied:
		return "applied"
	default:
		return "not applied"
	}
}
