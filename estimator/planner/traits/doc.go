// Package traits is what a plan reads off a job before anything is estimated: the shape of its model, the tool that
// runs it, its optimizer, its checkpoints, and whether its state is dealt out already. None of it decides a byte.
package traits
