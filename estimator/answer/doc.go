// Package answer puts what a replay found into an answer: components and where their bytes come from, phases, notes,
// doubts, what was assumed, and the verdict on each card.
package answer

import "github.com/vramplan/vramplan/estimator/resolved"

// Answerer answers about a job.
type Answerer struct{ *resolved.Job }

// On answers about j.
func On(j *resolved.Job) Answerer { return Answerer{j} }
