// Package result is the answer to one job as users read it: figures, components, verdicts, notes, doubts, and how its
// words are written ([Bytes], [Grouped], [InBytes]). It knows nothing of how an answer is found.
package result
