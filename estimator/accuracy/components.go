package main

import (
	"fmt"
	"io"
	"math"
)

// tracedComponents are those that a trace without a driver can hold.
var tracedComponents = []string{"weights", "gradients", "optimizer_state", "precision_copies", "activations",
	"logits_and_loss", "temporaries"}

// PrintComponents says how far the components are from what was traced alive at the peak, as shares of it. Compiled
// cases have no names of operations and are left out.
func (r *Report) PrintComponents(w io.Writer) {
	fmt.Fprintf(w, "| component | rows | equal within 0.1 %% of the peak | nine in ten within | largest "+
		"|\n|---|---|---|---|---|\n")
	for _, name := range tracedComponents {
		var errors []float64
		near := 0
		for _, row := range r.Rows {
			if row.Components == nil || row.compiled() {
				continue
			}
			e := 100 * math.Abs(row.Components[name])
			errors = append(errors, e)
			if e <= 0.1 {
				near++
			}
		}
		if len(errors) > 0 {
			fmt.Fprintf(w, "| %s | %d | %.0f %% | %.2f %% | %.1f %% |\n", name, len(errors),
				100*float64(near)/float64(len(errors)), at(errors, .9), at(errors, 1))
		}
	}
}
