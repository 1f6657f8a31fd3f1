package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

type verifyCommand struct {
	databaseFlags `embed:""`
	Snapshot      string `default:"vramplan-catalog.json" setting:"VRAMPLAN_SNAPSHOT" placeholder:"PATH" help:"File in which a service keeps what it saw of a PostgreSQL database: the database must not have less. off compares with none."`
	Accept        bool   `help:"Take what the tables hold now as what they are meant to hold, after older versions wrote beside this one or you did by hand; then look."`
	Output        string `short:"o" enum:"table,json" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table or json."`
}

// Run looks at everything in the database. It ends with 0 when all of it is what was written, with 1 when
// something is not, and with 3 when it could not be looked at.
func (c *verifyCommand) Run(ctx context.Context, t *terminal) error {
	report, name, err := c.look(ctx)
	if err != nil {
		return &exitError{code: exitUndecided, err: err}
	}
	out := bufio.NewWriter(t.stdout)
	if c.Output == "json" {
		err = json.NewEncoder(out).Encode(report)
	} else {
		printReport(out, name, report)
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return &exitError{code: exitUndecided, err: err}
	}
	if report.Count > 0 {
		return exit(exitFailure)
	}
	return nil
}

// look is a report also of a database that is too damaged to be opened.
func (c *verifyCommand) look(ctx context.Context) (report *store.Report, name string, err error) {
	db, err := store.OpenExisting(ctx, c.Database)
	if errors.Is(err, store.ErrDamaged) {
		report = store.NewReport()
		report.Note(err.Error())
		return report, c.Database, nil
	}
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if closing := db.Close(); err == nil && report.Count == 0 { // a damaged one may not close
			err = closing
		}
	}()
	if c.Accept {
		if err := db.Accept(ctx); err != nil {
			return nil, "", err
		}
	}
	if report, err = db.Verify(ctx); err != nil {
		return nil, "", err
	}
	if db.Remote() && c.Snapshot != "off" {
		switch kept, err := store.Kept(c.Snapshot, db.Name()); {
		case err == nil:
			for _, fault := range (&service.StoreCheck{Writes: report.Writes}).Older(kept.Writes) {
				report.Note(fault)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, "", err
		}
	}
	return report, db.Name(), nil
}

func printReport(out *bufio.Writer, name string, report *store.Report) {
	rows := int64(0)
	for _, n := range report.Rows {
		rows += n
	}
	if report.Count == 0 {
		fmt.Fprintf(out, "The database %s is whole: %d rows are as they were written, and the catalog as it was "+
			"shipped and entered.\n", name, rows)
		return
	}
	for _, f := range report.Faults {
		fmt.Fprintln(out, f)
	}
	if more := report.Count - len(report.Faults); more > 0 {
		fmt.Fprintf(out, "… and %d more\n", more)
	}
	fmt.Fprintf(out, "%s wrong with the database %s. docs/operations.md says what to do.\n", things(report.Count), name)
}

func things(n int) string {
	if n == 1 {
		return "1 thing is"
	}
	return fmt.Sprintf("%d things are", n)
}
