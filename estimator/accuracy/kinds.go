package main

import (
	"encoding/json"
	"fmt"
	"github.com/vramplan/vramplan/oracle/tracefile"
	"io"
	"math"
	"path/filepath"
	"slices"
)

// Kinds holds estimates against traced runs of trl's own trainers.
type Kinds struct {
	Ranks
	kinds []string // in the order of the first row of each
	of    map[string][]Row
}

// readKinds scores them; root is the repository.
func readKinds(root string) (*Kinds, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/kinds/*.jsonl"))
	k := &Kinds{of: map[string][]Row{}}
	for _, path := range files {
		err := tracefile.EachLine(path, func(line []byte) error {
			var c struct {
				ID    string          `json:"id"`
				Job   json.RawMessage `json:"job"`
				Truth Truth           `json:"truth"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			var said struct {
				Training struct {
					Objective struct {
						Kind string `json:"kind"`
					} `json:"objective"`
				} `json:"training"`
			}
			if err := json.Unmarshal(c.Job, &said); err != nil {
				return err
			}
			kind := said.Training.Objective.Kind
			if !slices.Contains(k.kinds, kind) {
				k.kinds = append(k.kinds, kind)
			}
			row := scoreRank(Case{ID: c.ID, Truth: c.Truth}, c.Job)
			k.rows, k.of[kind] = append(k.rows, row), append(k.of[kind], row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Print writes a line for each kind, and one for each run that is refused or off by more than half a percent.
func (k *Kinds) Print(w io.Writer) {
	fmt.Fprintf(w, "| kind | runs | answered | allocated: median | nine in ten | worst | reserved: median | "+
		"nine in ten | worst |\n|---|---|---|---|---|---|---|---|---|\n")
	line := func(name string, rows []Row) {
		one := Ranks{rows: rows}
		allocated, reserved := one.errors(allocatedError), one.errors(reservedError)
		if len(allocated) == 0 {
			fmt.Fprintf(w, "| %s | %d | 0 | | | | | | |\n", name, len(rows))
			return
		}
		fmt.Fprintf(w, "| %s | %d | %d | %.3f %% | %.3f %% | %.3f %% | %.2f %% | %.2f %% | %.2f %% |\n", name, len(rows),
			len(allocated), at(allocated, .5), at(allocated, .9), at(allocated, 1), at(reserved, .5), at(reserved, .9),
			at(reserved, 1))
	}
	for _, kind := range k.kinds {
		line(kind, k.of[kind])
	}
	line("all", k.rows)
	fmt.Fprintln(w)
	for _, row := range k.rows {
		switch {
		case row.Failure != nil:
			fmt.Fprintf(w, "- %s is refused: %s\n", row.ID, whyRefused(row.Failure))
		case math.Abs(row.Allocated) > .005:
			fmt.Fprintf(w, "- %s: allocated %+.2f %%, reserved %+.2f %%\n", row.ID, 100*row.Allocated, 100*row.Reserved)
		}
	}
}

// Promises about the kinds that are answered, in percent of what is allocated: nine in ten, and all; and all of the
// Trainer's own (language-model).
const kindsMost, kindsAll, kindsTrainer = 0.5, 2.0, 0.1

// Broken says which promises do not hold.
func (k *Kinds) Broken() []string {
	var out []string
	allocated := k.errors(allocatedError)
	for _, row := range k.answered() {
		if 100*math.Abs(row.Allocated) > kindsAll {
			out = append(out, fmt.Sprintf("%s: allocated is off by %+.2f %%", row.ID, 100*row.Allocated))
		}
	}
	if len(k.of["language-model"]) == 0 {
		out = append(out, "no row of the Trainer itself (language-model)")
	}
	for _, row := range k.of["language-model"] {
		if row.Failure != nil || 100*math.Abs(row.Allocated) > kindsTrainer {
			out = append(out, fmt.Sprintf("%s: the Trainer itself allocated %d bytes, replayed are %+.3f %% (%v)", row.ID,
				row.Truth.AllocatedBytes, 100*row.Allocated, row.Failure))
		}
	}
	if got := at(allocated, .9); got > kindsMost {
		out = append(out, fmt.Sprintf("kinds of training: nine in ten are within %.2f %% of what is allocated, "+
			"promised are %.1f %%", got, kindsMost))
	}
	return out
}
