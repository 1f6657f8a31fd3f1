// Package resolved is what runs: a job with every default filled in, as values that nobody changes once package resolve
// has made them.
//
// A [Job] has six parts: the [Work], the [Software] that does it, its [Layout] over GPUs, the [Card], the models in
// [Company] of the trained one, and the [Proof]. What the parts decide of the recipe stands in the work's decisions,
// and [Job.Compose] says what they come to together. [Replayed] is what a replay found, and [Input] the question.
//
// Package resolve writes them, package session plays them, package answer reads them.
package resolved
