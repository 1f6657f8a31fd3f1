// Package objectives reads training.objective: what a trainer makes of a step besides the loss of a language model. A
// kind of training is a file that says what it reads of the document and what it refuses; package step/objective
// replays it.
package objectives

import "github.com/vramplan/vramplan/estimator/resolved"

// Pursuer reads the objective of a job.
type Pursuer struct{ *resolved.Job }

// On reads the objective of j.
func On(j *resolved.Job) Pursuer { return Pursuer{j} }
