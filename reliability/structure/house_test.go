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
		"estimator/step/recipe.go": `package step

type Recipe struct { Numerics; Loop; Loss Loss }

type Numerics struct { Stored, Compute int }

type Loop struct { Accumulation int }

type Tape struct { Recipe Recipe; T int }

func (t *Tape) pass() { t.T, t.Recipe.Stored = 1, 2; old := t.Recipe; t.Recipe = old }
`,
		"estimator/parts.go": `package estimator

type decisions struct { numerics step.Numerics; loop step.Loop }

func numbers() step.Numerics { return step.Numerics{Compute: 2} }

func (w *work) parts(d *decisions) { d.numerics = numbers(); n := numbers(); n.Compute = 3; w.recipe.Numerics = n }

func on(w *work) { l := step.Loop{}; l.Accumulation++; w.recipe.Loop.Accumulation, w.recipe.Loop = 1, l }

func (d *decisions) once() { d.loop.Accumulation = 1 }
`,
		"estimator/top.go":            "package estimator\n\nfunc top(w *whole) { w.first(); w.recipe.Loss.Kind = 2 }\n",
		"service/workplace/room.go":   "package workplace\n\nfunc room() {}\n",
		"service/workplace/a_test.go": "package workplace\n",
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
	if n := r.all("work", map[string]bool{}); n != 4 { // first, parts, and second and on, which write to it
		t.Errorf("work has %d methods", n)
	}
	if n := r.all("whole", map[string]bool{}); n != 5 { // those of work, and top
		t.Errorf("whole has %d methods", n)
	}
	for field, want := range map[string]int{"Stored": 2, "Compute": 3, "Loss": 1, "Accumulation": 2, "shape": 0,
		"Numerics": 0, "Loop": 0, "Recipe": 0, "T": 0} {
		if got := len(h.recipe[field]); got != want {
			t.Errorf("%s is written in %d functions, not %d", field, got, want)
		}
	}
	if len(h.passes["Stored"]) != 1 || len(h.passes) != 1 {
		t.Errorf("a tape changes %v of its recipe", h.passes)
	}
	if got := h.changes["strided"]; got != 2 || len(h.changes) != 1 {
		t.Errorf("changes are named %v", h.changes)
	}
	if pairs, back, floors := r.back(); pairs != 5 || back != 1 || floors != 3 {
		t.Errorf("%d pairs, %d back, %d floors", pairs, back, floors)
	}
	if h.bounds != 1 || h.bounding["service/workplace"] != 3 {
		t.Errorf("%d files bound clients, %v lines", h.bounds, h.bounding)
	}
	if h.words != 3 {
		t.Errorf("%d words", h.words)
	}
	if got := largest(map[string]int{"b": 3, "a": 3, "c": 1}, 1); got != "a 3, b 3" {
		t.Errorf("largest: %s", got)
	}
	if !slices.ContainsFunc(h.lines(), func(l [2]string) bool { return l[1] == "3 of 4" }) {
		t.Errorf("three of four fields are written in two functions: %v", h.lines())
	}
}
