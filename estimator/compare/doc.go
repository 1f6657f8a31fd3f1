// Package compare says why two jobs take different amounts of memory: bytes by
// component, and which difference between the two documents moved them.
//
// It computes no byte itself. The first job is turned into the second one
// change at a time, in the order in which a job document names its fields, and
// every job on the way is estimated. What a change moves is the difference of the
// estimates before and after it, so the causes add up to the difference of
// the two jobs to the byte, in every component. A change can weigh otherwise by
// itself than after those before it (a smaller micro-batch saves less once
// activations are recomputed), so each cause says both.
//
// The package is pure, like the estimator.
package compare
