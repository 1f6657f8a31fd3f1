// Package planner answers "how do I run this job on this card?": every exact
// pair of micro-batch and gradient accumulation for an effective batch, which of
// them fit, which to take, and what else would make room.
//
// The planner computes no byte itself. Every figure about memory is the answer of
// an [Estimator] to one candidate job, so a pair here and an estimate of the same
// job elsewhere agree to the byte. What the planner adds is
//
//   - which candidates to ask about (pairs.go, largest.go, levers.go, combine.go, gpus.go),
//   - how long a step takes beside today's, from a stated model (steptime.go, card.go),
//   - what a change does to training (effects.go),
//   - an order among the candidates (rank.go, pareto.go), and words for it (present.go,
//     words.go, notes.go, render.go).
//
// The package is pure: no input or output, no clock, and the same request gives
// the same answer whatever the number of processors.
package planner
