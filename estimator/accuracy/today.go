package main

import (
	"fmt"
	"io"
	"path/filepath"
)

// Today holds estimates of today's releases against steps that were traced with them.
type Today struct{ Report }

// readToday scores the reference cases of today's releases; root is the repository.
func readToday(root string) (*Today, error) {
	// the pattern is well formed
	files, _ := filepath.Glob(filepath.Join(root, "estimator/accuracy/testdata/today/*.jsonl"))
	cases, err := Read(files...)
	if err != nil {
		return nil, err
	}
	return &Today{*Score(cases)}, nil
}

// proven says that the answer calls its family and recipe proven with the releases.
func (r Row) proven() bool { return r.Failure == nil && r.Result.Versions.ProvenOn != "" }

// Broken says which promises do not hold: every row is answered, what is called proven is equal to the byte in
// allocated bytes, and of the others the bounds hold what was reserved.
func (t *Today) Broken() []string {
	var out []string
	for _, row := range t.Rows {
		switch {
		case row.Failure != nil:
			out = append(out, fmt.Sprintf("%s: no answer: %v", row.ID, row.Failure))
		case !row.ParametersRight:
			out = append(out, row.ID+": the number of parameters is wrong")
		case row.proven() && row.Allocated != 0:
			out = append(out, fmt.Sprintf("%s: is called proven on %s, and allocated is off by %+.3f %%", row.ID,
				row.Result.Versions.ProvenOn, 100*row.Allocated))
		case !row.proven() && !row.held():
			out = append(out, row.ID+": what was reserved lies outside the bounds")
		}
	}
	return out
}

// held says that what was reserved lies within the bounds, which have the context besides.
func (r Row) held() bool {
	p, context := r.Result.Peak, r.Result.Components[len(r.Result.Components)-1].Bytes
	return p.LowBytes-context <= r.Truth.ReservedBytes && r.Truth.ReservedBytes <= p.HighBytes-context
}

// Print writes the table.
func (t *Today) Print(w io.Writer, markdown bool, worst int) {
	if !markdown {
		fmt.Fprintln(w, "today's releases")
	}
	proven := 0
	for _, row := range t.Rows {
		if row.proven() {
			proven++
		}
	}
	t.Report.Print(w, markdown, worst)
	fmt.Fprintf(w, "\n%d of %d rows are of families that are called proven with these releases\n", proven, len(t.Rows))
}
