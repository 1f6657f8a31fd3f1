package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestHouse counts a small house by hand.
func TestHouse(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"estimator/work.go": `package estimator

type work struct{ recipe step.Recipe; shape int }

func (w *work) first() { rc := &w.recipe; rc.Stored = 1; second(w) }
`,
		"estimator/second.go": `package estimator

type whole struct{ work; n int }

func second(w *work) { w.recipe.Stored++; w.shape = 2 }

func looks(w *work) int { return w.shape }

func made() step.Recipe { return step.Recipe{Compute: 1} }

var strided = release.Declare("strides", release.Change{})

func asks(w *work) bool { return w.recipe.Software.Has(strided) }
`,
		"estimator/top.go":            "package estimator\n\nfunc top(w *whole) { w.first(); w.recipe.Loss.Kind = 2 }\n",
		"docs/start.md":               "three words here\n",
		"docs/lab/found.md":           "not counted\n",
		"estimator/testdata/left.go":  "package left\n\nfunc (\n",
		"estimator/second_test.go":    "package estimator\n\nfunc (w *work) third() {}\n",
		"service/readers/lonely.go":   "package readers\n",
		"service/readers/lonely.json": "{}",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := houseOf(root)
	if err != nil {
		t.Fatal(err)
	}
	r := h.packages["estimator"]
	if n := r.all("work", map[string]bool{}); n != 2 { // first, and second, which writes to it
		t.Errorf("work has %d methods", n)
	}
	if n := r.all("whole", map[string]bool{}); n != 3 { // those of work, and top
		t.Errorf("whole has %d methods", n)
	}
	for field, want := range map[string]int{"Stored": 2, "Compute": 1, "Loss": 1, "shape": 0} {
		if got := len(h.recipe[field]); got != want {
			t.Errorf("%s is written in %d functions, not %d", field, got, want)
		}
	}
	if got := h.changes["strided"]; got != 2 || len(h.changes) != 1 {
		t.Errorf("changes are named %v", h.changes)
	}
	if pairs, back, floors := r.back(); pairs != 4 || back != 1 || floors != 3 {
		t.Errorf("%d pairs, %d back, %d floors", pairs, back, floors)
	}
	if h.words != 3 {
		t.Errorf("%d words", h.words)
	}
	if got := largest(map[string]int{"b": 3, "a": 3, "c": 1}, 1); got != "a 3, b 3" {
		t.Errorf("largest: %s", got)
	}
	if !slices.ContainsFunc(h.lines(), func(l [2]string) bool { return l[1] == "1 of 3" }) {
		t.Errorf("one of three fields is written in two functions: %v", h.lines())
	}
}
