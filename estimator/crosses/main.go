// Command crosses holds the replay against traced crosses of families and recipes, event by event, and prints every
// inequality with the operation and the module that made it.
//
//	go run ./estimator/crosses [-list 6] [-equal file] events.jsonl …
//
// The files are what oracle/trace.py --events writes. -equal writes the traces that the replay equals into a file, as
// they were read; traces that are there already are left out of it by name. Refused jobs are listed and are no failure.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/vramplan/vramplan/oracle/traced"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("crosses", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.Int("list", 6, "print this many inequalities of a cross")
	equal := flags.String("equal", "", "append the traces that the replay equals to this file")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "crosses: no files of events")
		return 2
	}
	var kept io.Writer = io.Discard
	if *equal != "" {
		f, err := os.OpenFile(*equal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(stderr, "crosses:", err)
			return 2
		}
		defer f.Close()
		kept = f
	}
	var all tally
	for _, path := range flags.Args() {
		if err := all.read(path, *list, stdout, kept); err != nil {
			fmt.Fprintln(stderr, "crosses:", err)
			return 2
		}
	}
	return all.print(stdout)
}

// tally counts what became of the crosses.
type tally struct{ equal, unequal, refused int }

func (t *tally) read(path string, list int, out, kept io.Writer) error {
	return tracefile.EachLine(path, func(line []byte) error {
		var c traced.Job
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		if err := c.Check(); err != nil {
			return err
		}
		replayed, err := c.Replayed(nil)
		switch {
		case err != nil:
			t.refused++
			fmt.Fprintf(out, "%s: refused: %v\n", c.ID, err)
		case printed(&c, out, replayed, list):
			t.equal++
			if _, err := fmt.Fprintf(kept, "%s\n", line); err != nil {
				return err
			}
		default:
			t.unequal++
		}
		return nil
	})
}

// print is the last line, and what the command exits with.
func (t *tally) print(out io.Writer) int {
	fmt.Fprintf(out, "%d crosses: %d equal, %d unequal, %d refused\n", t.equal+t.unequal+t.refused, t.equal, t.unequal,
		t.refused)
	if t.unequal > 0 {
		return 1
	}
	return 0
}
