// Package bounds says how sure the figures of a replay are: which doubts apply to a run, what a process takes outside
// of PyTorch's allocator, and what measured runs corrected.
package bounds

import "github.com/vramplan/vramplan/estimator/resolved"

// Bounder bounds the figures of a job.
type Bounder struct{ *resolved.Job }

// On bounds the figures of j.
func On(j *resolved.Job) Bounder { return Bounder{j} }
