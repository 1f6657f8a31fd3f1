// Command judged holds answers against jobs that were traced by whoever trains them (oracle/judges.py): transformers'
// Trainer, trl's trainers, one rank of many.
//
//	go run ./reliability/judged [-keep differing.jsonl] rows.jsonl …
//
// A kind is what stands before the first colon of an id, or else the judge. A row is equal to the byte, within 0.05
// or 0.5 % of its allocated bytes, refused, or takes more than high_bytes says. What differs by more than 0.05 % is
// printed, and kept where -keep names a file.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

const (
	near = 0.0005
	wide = 0.005
)

// row is a line of such a file.
type row struct {
	ID    string          `json:"id"`
	Job   json.RawMessage `json:"job"`
	Judge string          `json:"judge"`
	Truth struct {
		Allocated int64 `json:"allocated_bytes"`
		Reserved  int64 `json:"reserved_bytes"`
	} `json:"truth"`
}

// tally counts the rows of a kind.
type tally struct{ rows, equal, near, wide, refused, above int }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("judged", flag.ContinueOnError)
	flags.SetOutput(stderr)
	keep := flags.String("keep", "", "write the rows that differ into this file")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	rows, err := read(flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "judged:", err)
		return 2
	}
	ctx, answers := context.Background(), service.New(service.EmbeddedCatalog())
	kinds, kept := map[string]*tally{}, strings.Builder{}
	for _, r := range rows {
		kind, _, named := strings.Cut(r.ID, ":")
		if !named {
			kind = cmp.Or(r.Judge, "all")
		}
		if kinds[kind] == nil {
			kinds[kind] = &tally{}
		}
		if differs := r.hold(ctx, answers, kinds[kind], stdout); differs {
			line, err := json.Marshal(r)
			if err != nil {
				fmt.Fprintln(stderr, "judged:", err)
				return 2
			}
			kept.Write(append(line, '\n'))
		}
	}
	fmt.Fprintf(stdout, "%-24s %6s %6s %8s %7s %8s %6s\n", "", "rows", "equal", "0.05 %", "0.5 %", "refused", "above")
	all := tally{}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		c := kinds[kind]
		c.print(stdout, kind)
		all.add(c)
	}
	all.print(stdout, "all")
	if *keep != "" {
		if err := os.WriteFile(*keep, []byte(kept.String()), 0o644); err != nil {
			fmt.Fprintln(stderr, "judged:", err)
			return 2
		}
	}
	if all.above > 0 {
		return 1
	}
	return 0
}

// hold asks for an answer, counts it and says whether it differs.
func (r *row) hold(ctx context.Context, s *service.Service, c *tally, stdout io.Writer) bool {
	c.rows++
	answer, err := r.answer(ctx, s)
	if err != nil {
		c.refused++
		fmt.Fprintf(stdout, "%s: refused: %v\n", r.ID, err)
		return false
	}
	context := answer.Peak.DeviceBytes - answer.Peak.ReservedBytes
	above := ""
	if r.Truth.Allocated > answer.Peak.HighBytes-context {
		c.above++
		above = ", above high_bytes"
	}
	off := float64(answer.Peak.AllocatedBytes)/float64(r.Truth.Allocated) - 1
	switch size := math.Abs(off); {
	case off == 0:
		c.equal++
		fallthrough
	case size <= near:
		c.near++
		fallthrough
	case size <= wide:
		c.wide++
	}
	if math.Abs(off) <= near {
		return false
	}
	fmt.Fprintf(stdout, "%s: allocated %+.3f %%, reserved %+.2f %%%s\n", r.ID, 100*off,
		100*(float64(answer.Peak.ReservedBytes)/float64(r.Truth.Reserved)-1), above)
	return true
}

// answer is what a user would be told of the row's job.
func (r *row) answer(ctx context.Context, s *service.Service) (*estimator.Result, error) {
	job, err := jobdoc.Decode(r.Job)
	if err != nil {
		return nil, err
	}
	return s.Estimate(ctx, job, service.EstimateOptions{})
}

func (c *tally) add(o *tally) {
	c.rows, c.equal, c.near = c.rows+o.rows, c.equal+o.equal, c.near+o.near
	c.wide, c.refused, c.above = c.wide+o.wide, c.refused+o.refused, c.above+o.above
}

func (c *tally) print(w io.Writer, kind string) {
	fmt.Fprintf(w, "%-24s %6d %6d %8d %7d %8d %6d\n", kind, c.rows, c.equal, c.near, c.wide, c.refused, c.above)
}

// read takes the rows of all files that have a truth.
func read(files []string) ([]row, error) {
	if len(files) == 0 {
		return nil, errors.New("name a file of traced rows")
	}
	var rows []row
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			var r row
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				f.Close()
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			if r.Truth.Allocated > 0 && r.Truth.Reserved > 0 {
				rows = append(rows, r)
			}
		}
		err = errors.Join(lines.Err(), f.Close())
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}
