package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is a table of what was run, in Markdown, that calls add to. The zero page keeps nothing.
type page struct {
	file string
	rows []tried
}

// row is a line of the page's table: package, test, runs, failures, seconds of a core a run, first and last day.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\w+) \\| (\\d+) \\| (\\d+) \\| ([\\d.]+) \\| ([\\d-]*) " +
	"\\| ([\\d-]*) \\|$")

// readPage reads a page, which need not be there yet.
func readPage(file string, wanted bool) (*page, error) {
	p := &page{}
	if !wanted {
		return p, nil
	}
	p.file = file
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		t := tried{folder: m[1], name: m[2], from: m[6], to: m[7]}
		var each float64
		var errs [3]error
		t.done, errs[0] = strconv.Atoi(m[3])
		t.failures, errs[1] = strconv.Atoi(m[4])
		each, errs[2] = strconv.ParseFloat(m[5], 64)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("%s, the row of %s: %w", file, t.name, err)
		}
		t.spent = time.Duration(each * float64(t.done) * float64(time.Second))
		p.rows = append(p.rows, t)
	}
	return p, nil
}

// restore gives the tests what the page says of them.
func (p *page) restore(tests []*tried) {
	for _, t := range tests {
		for _, r := range p.rows {
			if r.folder == t.folder && r.name == t.name {
				t.done, t.failures, t.spent, t.from, t.to = r.done, r.failures, r.spent, r.from, r.to
			}
		}
	}
}

// head is what stands above the table.
//
//go:embed head.md
var head string

// write writes the page with what the tests have now; rows of tests that were not asked for stay.
func (p *page) write(tests []*tried) error {
	if p.file == "" {
		return nil
	}
	of := map[string]*tried{}
	for i := range p.rows {
		of[p.rows[i].folder+" "+p.rows[i].name] = &p.rows[i]
	}
	for _, t := range tests {
		of[t.folder+" "+t.name] = t
	}
	var b strings.Builder
	b.WriteString(head)
	runs, failures, often := 0, 0, 0
	for _, t := range of {
		runs, failures = runs+t.done, failures+t.failures
		if t.done >= 500 && t.failures == 0 {
			often++
		}
	}
	fmt.Fprintf(&b, "%d tests, %d runs, %d failures; %d tests ran 500 times or more without one.\n\n", len(of), runs,
		failures, often)
	b.WriteString("| package | test | runs | failures | seconds of a core | from | to |\n")
	b.WriteString("|---|---|---:|---:|---:|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(of)) {
		t := of[key]
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d | %.3f | %s | %s |\n", t.folder, t.name, t.done, t.failures,
			t.spent.Seconds()/float64(max(t.done, 1)), t.from, t.to)
	}
	return os.WriteFile(p.file, []byte(b.String()), 0o644)
}
