// Package result is what oracle/drift finds out about a stack, and the committed answers.
package result

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Stack is what the traces of a stack show of the rows of the table of releases.
type Stack struct {
	Stack string `json:"stack"`
	// Jobs is how many were traced; Equal how many of them the replay equals event by event with the rows that they
	// show. Unequal and Refused are the names of the others.
	Jobs    int      `json:"jobs"`
	Equal   int      `json:"equal"`
	Unequal []string `json:"unequal,omitempty"`
	Refused []string `json:"refused,omitempty"`
	Rows    []Row    `json:"rows"`
	// Unexplained are the operations whose allocations moved as no row says.
	Unexplained []string `json:"unexplained,omitempty"`
}

// Row is how many jobs show that a row is in the stack, how many that it is not, and the operations and modules
// whose allocations it moved.
type Row struct {
	Switch  string   `json:"switch"`
	With    int      `json:"with"`
	Without int      `json:"without"`
	Moved   []string `json:"moved"`
}

//go:embed *.json
var files embed.FS

// Stacks are the committed answers, by the names of their files.
func Stacks() ([]Stack, error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	out := make([]Stack, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name.Name())
		if err != nil {
			return nil, err
		}
		var s Stack
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", name.Name(), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// Markdown is a table of rows, in the given order, by stacks, and what the stacks show besides.
func Markdown(stacks []Stack, order []string) string {
	var b strings.Builder
	b.WriteString("| row |")
	for i := range stacks {
		fmt.Fprintf(&b, " %s |", stacks[i].Stack)
	}
	b.WriteString(" what it moves |\n|---|" + strings.Repeat("---|", len(stacks)) + "---|\n")
	for _, row := range order {
		b.WriteString(line(stacks, row))
	}
	b.WriteString("\n")
	for i := range stacks {
		stacks[i].write(&b)
	}
	return b.String()
}

// line is that of a row; none where no stack shows anything of it.
func line(stacks []Stack, row string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", row)
	var moved []string
	shown := false
	for i := range stacks {
		at := slices.IndexFunc(stacks[i].Rows, func(r Row) bool { return r.Switch == row })
		if at < 0 {
			b.WriteString(" |")
			continue
		}
		r := &stacks[i].Rows[at]
		fmt.Fprintf(&b, " %s |", r.words())
		shown = true
		if len(moved) < len(r.Moved) {
			moved = r.Moved
		}
	}
	if !shown {
		return ""
	}
	fmt.Fprintf(&b, " %s |\n", strings.Join(moved, "; "))
	return b.String()
}

// write says how far the rows explain what was traced.
func (s *Stack) write(b *strings.Builder) {
	fmt.Fprintf(b, "- %s: of %d jobs, %d are equal event by event with the rows that they show", s.Stack, s.Jobs, s.Equal)
	for _, rest := range [...]struct {
		what  string
		names []string
	}{{"unequal are", s.Unequal}, {"refused are", s.Refused}, {"what no row says was moved by", s.Unexplained}} {
		if len(rest.names) > 0 {
			fmt.Fprintf(b, "; %s %s", rest.what, strings.Join(rest.names, ", "))
		}
	}
	b.WriteString(".\n")
}

// words say whether the stack has the row.
func (r *Row) words() string {
	switch {
	case r.Without == 0:
		return fmt.Sprintf("yes (%d)", r.With)
	case r.With == 0:
		return fmt.Sprintf("no (%d)", r.Without)
	}
	return fmt.Sprintf("%d yes, %d no", r.With, r.Without)
}
