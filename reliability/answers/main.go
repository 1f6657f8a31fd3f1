// Command answers holds the answers of one checkout against those of another, byte for byte:
//
//	go run ./reliability/answers make [-jobs CHECKOUT] [-cards REGEXP] [-match REGEXP] [-plans N] FILE
//	go run ./reliability/answers compare FILE OTHER
//
// make asks for an estimate of every job that was traced or measured (the rows with a job below testdata), once on each
// card of the catalog, and writes what the API would answer, refusals included; a row that names no releases is asked
// with the present ones and with those that it was traced with. -jobs takes the jobs of another checkout, so that two
// checkouts whose traces differ are asked the same; one from before this command needs a copy of its folder. -plans
// asks for plans of every Nth job in place of estimates, with their pages: whole ones, brief ones and layouts of a
// cluster in turn. compare says which answers differ, in which fields, and ends with 1 where one does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "answers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	const usage = "give make FILE or compare FILE OTHER"
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("answers "+args[0], flag.ContinueOnError)
	flags.SetOutput(out)
	switch args[0] {
	case "make":
		jobs := flags.String("jobs", ".", "the `checkout` whose jobs are asked about")
		cards := flags.String("cards", "", "cards whose name matches `regexp`")
		plans := flags.Int("plans", 0, "ask for plans of every `N`th job")
		match := flags.String("match", "", "jobs whose file and id match `regexp`")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 1 {
			return errors.New(usage)
		}
		of, err := regexp.Compile(*cards)
		if err != nil {
			return fmt.Errorf("-cards: %w", err)
		}
		only, err := regexp.Compile(*match)
		if err != nil {
			return fmt.Errorf("-match: %w", err)
		}
		if *plans < 0 {
			return fmt.Errorf("-plans: %d was given; give how many jobs there are to one that is planned", *plans)
		}
		return write(ctx, asked{root: *jobs, cards: of, only: only, plans: *plans}, flags.Arg(0), out)
	case "compare":
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if flags.NArg() != 2 {
			return errors.New(usage)
		}
		return compareFiles(flags.Arg(0), flags.Arg(1), out)
	}
	return errors.New(usage)
}
