// Command reliability shows how vramplan serve behaves under load and under
// attack. It builds the program, starts it on loopback and measures it from the
// outside, on the machine where it runs.
//
//	go run ./reliability load   # throughput and latency beside a bare chi handler
//	go run ./reliability soak   # memory under steady load, for ten minutes
//	go run ./reliability siege  # honest clients among hostile ones
//	go run ./reliability mutate # requests that are nearly right, each held against the bound of what it may take
//	go run ./reliability sweep  # every key of every model type with every kind of wrong value
//
// Each prints a table and ends with 1 where what it shows does not hold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	const usage = "give load, soak, siege, mutate or sweep"
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	program := flags.String("program", "", "vramplan to measure; built from the sources if not given")
	switch args[0] {
	case "bare": // the other half of load, in a process of its own
		return serveBare(ctx, out)
	case "attack": // the other half of siege
		return attackAlone(ctx, out, args[1:])
	case "load":
		round := flags.Duration("round", 3*time.Second, "length of one measurement")
		rounds := flags.Int("rounds", 5, "measurements of each; the median counts")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return load(ctx, out, *program, *round, *rounds)
	case "soak":
		length := flags.Duration("duration", 10*time.Minute, "how long")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return soak(ctx, out, *program, *length)
	case "siege":
		length := flags.Duration("duration", 10*time.Second, "length of each attack")
		only := flags.String("only", "", "the attacks with this in their name")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return siege(ctx, out, *program, *length, *only)
	case "mutate":
		requests := flags.Int("requests", 100_000, "how many")
		seed := flags.Uint64("seed", 1, "others with another seed")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return mutate(ctx, out, *requests, *seed)
	case "sweep", "sweep-part": // the latter is a process that sweep starts
		var s sweeping
		flags.IntVar(&s.singles, "singles", 0, "how many documents with one wrong value, drawn at random; 0 is all")
		flags.IntVar(&s.pairs, "pairs", 100_000, "how many with two")
		flags.Uint64Var(&s.seed, "seed", 1, "others with another seed")
		part, parts := flags.Int("part", 0, "which part"), flags.Int("parts", 1, "of how many")
		from := flags.Int("from", 0, "the first document that is asked about")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if args[0] == "sweep" {
			return sweep(ctx, out, *program, s)
		}
		return answerSweep(ctx, out, s, *part, *parts, *from)
	}
	return fmt.Errorf("%q: %s", args[0], usage)
}
