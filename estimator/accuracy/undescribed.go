package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"sort"
	"strings"
)

// Undescribed holds estimates of decoders under a name that nobody described, put together from their dimensions,
// against traced runs.
type Undescribed struct{ Rows []UndescribedRow }

// UndescribedRow is one of them. Low and High are the bounds without the CUDA context, as shares of what was reserved.
type UndescribedRow struct {
	Row
	Family     string
	Parameters float64
	Low, High  float64
}

// readUndescribed scores the reference cases of undescribed families; root is the repository.
func readUndescribed(root string) (*Undescribed, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/undescribed/*.jsonl"))
	cases, err := Read(files...)
	if err != nil {
		return nil, err
	}
	for i := range cases {
		if err := hideFamily(&cases[i]); err != nil {
			return nil, err
		}
	}
	u := &Undescribed{}
	for _, row := range Score(cases).Rows {
		x := UndescribedRow{Row: row}
		for _, t := range row.Tags {
			if family, ok := strings.CutPrefix(t, "family:"); ok {
				x.Family = family
			}
		}
		if row.Failure == nil {
			truth := float64(row.Truth.ReservedBytes)
			x.Parameters = float64(row.Result.Model.Parameters)/float64(row.Truth.Parameters) - 1
			context := row.Result.Components[len(row.Result.Components)-1].Bytes
			x.Low = float64(row.Result.Peak.LowBytes-context)/truth - 1
			x.High = float64(row.Result.Peak.HighBytes-context)/truth - 1
		}
		u.Rows = append(u.Rows, x)
	}
	sort.SliceStable(u.Rows, func(i, j int) bool { return u.Rows[i].ID < u.Rows[j].ID })
	return u, nil
}

// hideFamily gives a case a model_type that nobody describes, whether or not its own is described by now.
func hideFamily(c *Case) error {
	var config map[string]any
	if err := json.Unmarshal(c.Job.Model.HFConfig, &config); err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	config["model_type"] = "undescribed"
	hidden, err := json.Marshal(config)
	c.Job.Model.HFConfig = hidden
	return err
}

// undescribedBand is how far allocated bytes of an undescribed family may be off.
const undescribedBand = 0.12

// Broken says which promises do not hold: what was reserved lies between the bounds, and allocated bytes are near.
func (u *Undescribed) Broken() []string {
	var out []string
	for _, r := range u.Rows {
		switch {
		case r.Failure != nil:
			out = append(out, fmt.Sprintf("%s: no answer: %v", r.ID, r.Failure))
		case r.Low > 0 || r.High < 0:
			out = append(out, fmt.Sprintf("%s: what was reserved does not lie between %+.1f %% and %+.1f %%", r.ID,
				100*r.Low, 100*r.High))
		case math.Abs(r.Allocated) > undescribedBand:
			out = append(out, fmt.Sprintf("%s: allocated is off by %+.2f %%", r.ID, 100*r.Allocated))
		}
	}
	return out
}

// Print writes the table.
func (u *Undescribed) Print(w io.Writer) {
	fmt.Fprint(w, "| family | job | parameters | allocated | reserved | low | high |\n|---|---|---|---|---|---|---|\n")
	var allocated, reserved []float64
	for _, r := range u.Rows {
		t := r.Job.Training
		checkpointing := ""
		if t.GradientCheckpointing != nil {
			checkpointing = ", checkpointed"
		}
		fmt.Fprintf(w, "| %s | %s, %d × %d%s | %+.2f %% | %+.2f %% | %+.2f %% | %+.1f %% | %+.1f %% |\n", r.Family,
			t.Precision, t.MicroBatch, t.SequenceLength, checkpointing,
			100*r.Parameters, 100*r.Allocated, 100*r.Reserved, 100*r.Low, 100*r.High)
		allocated, reserved = append(allocated, 100*math.Abs(r.Allocated)), append(reserved, 100*math.Abs(r.Reserved))
	}
	fmt.Fprintf(w, "\n%d runs: allocated median %.2f %%, largest %.2f %%; reserved median %.2f %%, largest %.2f %%.\n",
		len(u.Rows),
		at(allocated, .5), at(allocated, 1), at(reserved, .5), at(reserved, 1))
}
