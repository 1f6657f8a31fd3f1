package planner

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/planner/document"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The tables are made with made-up bytes: they show the form of an answer.
func TestTables(t *testing.T) {
	r := story()
	r.Frontier = true
	p := mustMake(t, r, storyFake())
	golden(t, "story_fake.md", p.Markdown())
	golden(t, "story_fake.txt", p.Text())

	r.Input.GPUs[0].UsableBytes = 2100 * mib
	golden(t, "nothing_fits_fake.md", mustMake(t, r, storyFake()).Markdown())
}

func TestNamesCannotBreakATable(t *testing.T) {
	p := &document.Plan{Options: []document.Option{{Title: "a|b\nc<script>\x1b[31m", Settings: []string{"`x`"}}}}
	golden(t, "hostile.md", p.Markdown())
	golden(t, "hostile.txt", p.Text())
}
