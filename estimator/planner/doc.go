// Package planner answers "how do I run this job on this card?": every exact
// pair of micro-batch and gradient accumulation for an effective batch, which of
// them fit, which to take, and what else would make room.
//
// The planner computes no byte itself. Every figure about memory is the answer of
// an [Estimator] to one candidate job, so a pair here and an estimate of the same
// job elsewhere agree to the byte. What the planner adds has a room each:
//
//   - [Make], [Request] and [Plan] are the front,
//   - package asking asks about candidates within what a plan may ask, and remembers,
//   - which candidates: pairs (package pairing, largest.go), settings (package lever, options.go, combine.go), other
//     cards (gpus.go, bygpu.go, moregpus.go), lengths and models (frontier.go), layouts of a cluster (package layouts),
//   - how long a step takes beside today's, from a stated model (package steptime),
//   - an order among the candidates (rank.go, pareto.go) and what a change does to training (effects.go),
//   - words for it (package document; present.go, notes.go).
//
// The package is pure: no input or output, no clock, and the same request gives
// the same answer whatever the number of processors.
package planner
