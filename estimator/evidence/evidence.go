// Package evidence says which crosses of a family of models and a recipe a trace of PyTorch has shown.
//
// A cell of the matrix is a family and one value of an axis, such as (falcon, lora: adapters). It is proven where a
// trace has both: a whole list of events that the replay equals, or a reference case. The cells are generated from
// these traces; docs/lab/evidence.md shows them.
package evidence

import (
	_ "embed"
	"strings"
	"sync"
)

//go:generate go run ./gen -root ../..

// Axis is one side of a recipe.
type Axis string

// The axes.
const (
	Precision     Axis = "precision"
	Optimizer     Axis = "optimizer"
	Checkpointing Axis = "checkpointing"
	Attention     Axis = "attention"
	Mask          Axis = "mask"
	LoRA          Axis = "lora"
	Compile       Axis = "compile"
	Parallel      Axis = "parallel"
	Mesh          Axis = "mesh"
	Loop          Axis = "loop"
	Evaluation    Axis = "evaluation"
)

// Axes are all of them, in the order of the matrix.
var Axes = [...]Axis{Precision, Optimizer, Checkpointing, Attention, Mask, LoRA, Compile, Parallel, Mesh, Loop,
	Evaluation}

// Recipe has the value of every axis; an axis that a job leaves at nothing, such as no adapters, is absent.
type Recipe map[Axis]string

// Cell is a family and a value of an axis.
type Cell struct {
	Family string
	Axis   Axis
	Value  string
}

// proven has a cell a line: family, axis and value between tabs, then how many whole traces and how many reference
// cases show it.
//
//go:embed proven.txt
var proven string

// table is proven, by cell; a cell without value stands for any value of the axis, one without axis for the family.
var table = sync.OnceValue(func() map[Cell]bool {
	all := map[Cell]bool{}
	for line := range strings.Lines(proven) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(fields) == 5 {
			all[Cell{fields[0], Axis(fields[1]), fields[2]}] = true
			all[Cell{Family: fields[0], Axis: Axis(fields[1])}] = true
			all[Cell{Family: fields[0]}] = true
		}
	}
	return all
})

// Knows says whether any trace is of the family.
func Knows(family string) bool { return table()[Cell{Family: family}] }

// Shows says whether any trace of the family has a value of the axis.
func Shows(family string, axis Axis) bool { return table()[Cell{Family: family, Axis: axis}] }

// Missing are the cells of a recipe that no trace has shown, in the order of the axes.
func Missing(family string, r Recipe) []Cell {
	var out []Cell
	for _, axis := range Axes {
		if value, given := r[axis]; given && !table()[Cell{family, axis, value}] {
			out = append(out, Cell{family, axis, value})
		}
	}
	return out
}
