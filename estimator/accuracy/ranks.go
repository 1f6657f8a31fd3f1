package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// Ranks holds estimates against traced ranks of jobs on several GPUs: unmodified DeepSpeed, transformers' Trainer,
// torchtitan and plain PyTorch over an NCCL that sends nothing.
type Ranks struct{ rows []Row }

// readRanks scores them; root is the repository. A job with a field that is not known is refused, as the service does.
func readRanks(root string) (*Ranks, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/ranks/*.jsonl"))
	r := &Ranks{}
	for _, path := range files {
		err := tracefile.EachLine(path, func(line []byte) error {
			var c struct {
				ID    string          `json:"id"`
				Job   json.RawMessage `json:"job"`
				Truth Truth           `json:"truth"`
				// Versions are the releases that were traced.
				Versions map[string]string `json:"versions"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			r.rows = append(r.rows, scoreRank(Case{ID: c.ID, Truth: c.Truth, Versions: c.Versions}, c.Job))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

func scoreRank(c Case, job []byte) Row {
	row := Row{Case: c}
	strict := json.NewDecoder(bytes.NewReader(job))
	strict.DisallowUnknownFields()
	if row.Failure = strict.Decode(&row.Job); row.Failure != nil {
		return row
	}
	row.name()
	in := estimator.Input{Job: row.Job}
	if len(row.Job.GPUs) > 0 {
		g := hardware[row.Job.GPUs[0].Name]
		g.ID = row.Job.GPUs[0].Name
		in.GPUs = []estimator.GPU{g}
	}
	if row.Result, row.Failure = estimator.Estimate(in); row.Failure != nil {
		return row
	}
	row.Allocated = float64(row.Result.Peak.AllocatedBytes)/float64(c.Truth.AllocatedBytes) - 1
	row.Reserved = float64(row.Result.Peak.ReservedBytes)/float64(c.Truth.ReservedBytes) - 1
	return row
}

// answered are the rows with an answer.
func (r *Ranks) answered() []Row {
	var out []Row
	for _, row := range r.rows {
		if row.Failure == nil {
			out = append(out, row)
		}
	}
	return out
}

// errors are the absolute errors of the answered rows, in percent.
func (r *Ranks) errors(of func(Row) float64) []float64 {
	var out []float64
	for _, row := range r.answered() {
		out = append(out, 100*math.Abs(of(row)))
	}
	return out
}

func allocatedError(r Row) float64 { return r.Allocated }
func reservedError(r Row) float64  { return r.Reserved }

// Print writes a line for each rank.
func (r *Ranks) Print(w io.Writer) {
	allocated, reserved := r.errors(allocatedError), r.errors(reservedError)
	fmt.Fprintf(w, "%d of %d traced ranks of several GPUs are answered; of these, half are within %.3f %% of what is "+
		"allocated, nine in ten within %.2f %%, all within %.2f %%; nine in ten within %.2f %% of what is reserved\n\n",
		len(allocated), len(r.rows), at(allocated, .5), at(allocated, .9), at(allocated, 1), at(reserved, .9))
	fmt.Fprintf(w, "| rank | allocated | reserved |\n|---|---|---|\n")
	for _, row := range r.rows {
		if row.Failure != nil {
			fmt.Fprintf(w, "| %s | refused: %s | |\n", row.ID, whyRefused(row.Failure))
			continue
		}
		fmt.Fprintf(w, "| %s | %+.3f %% | %+.2f %% |\n", row.ID, 100*row.Allocated, 100*row.Reserved)
	}
}

// whyRefused is why a rank is not answered: the fields, or what the document has that is not known.
func whyRefused(err error) string {
	if fields := refusedFields(err.Error()); fields != "" {
		return fields
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// Promises about the ranks that are answered, in percent of what is allocated; but for those of frameworks that write
// their models themselves, which are replayed as transformers writes them and say so.
const ranksMost, ranksAll = 0.5, 3

// ownModules says that an answer is about a model that its framework writes itself.
func ownModules(row Row) bool {
	return slices.ContainsFunc(row.Result.Doubts, func(d estimator.DoubtSource) bool {
		return d.Source == "framework-modules"
	})
}

// Broken says which promises do not hold.
func (r *Ranks) Broken() []string {
	var out []string
	var allocated []float64
	for _, row := range r.answered() {
		if ownModules(row) {
			continue
		}
		allocated = append(allocated, 100*math.Abs(row.Allocated))
		if 100*math.Abs(row.Allocated) > ranksAll {
			out = append(out, fmt.Sprintf("%s: allocated is off by %+.2f %%", row.ID, 100*row.Allocated))
		}
	}
	if got := at(allocated, .85); got > ranksMost {
		out = append(out, fmt.Sprintf("ranks of several GPUs: 85 in a hundred are within %.2f %% of what is "+
			"allocated, promised are %.1f %%", got, ranksMost))
	}
	return out
}

// document writes the part of the page about these ranks.
func (r *Ranks) document(w io.Writer) {
	fmt.Fprintf(w, `
## Traced ranks of several GPUs
%[2]d ranks of unmodified DeepSpeed 0.19.8, transformers' Trainer, torchtitan 0.2.0 and plain PyTorch 2.9.1, over an NCCL that sends nothing:
%[1]sestimator/accuracy/testdata/ranks%[1]s; %[1]sgo run ./estimator/accuracy -ranks%[1]s prints this table.

`, "`", len(r.rows))
	r.Print(w)
}
