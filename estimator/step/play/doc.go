// Package play plays a recorded micro-step as a whole run: the model is loaded, then optimizer steps of several
// micro-steps each.
//
// # What it holds
//
//   - The session ([Session], session.go, update.go, clip.go, states.go, evaluation.go): loading, micro-steps of which
//     the first finds no gradients, clipping, the update, the evaluation, in the order in which a training loop does
//     them, on any heap of package alloc.
//   - The folding (player.go, mixturefold.go, unfoldmixture.go): a program that was recorded with five units is played
//     with all of them.
//   - The ledger ([Ledger], ledger.go, survey.go, totals.go): what is alive by component at every moment and where the
//     most is, without playing repeated layers one by one.
//   - Short cuts that change no byte: micro-steps that go round in circles (circle.go), runs that stand where another
//     stood (saved.go), sessions that ask the same of a heap (script.go).
//
// # A worked example
//
// A job with 100 MB of float32 weights, AdamW and two micro-steps. Begin allocates the weights and the first batch. The
// first micro-step leaves 100 MB of gradients behind ([step.Keep]); the second forms as many again, one by one, each of
// which is added to the one that is there and freed. The update makes 200 MB of moments and, for a moment, 100 MB of
// roots: 500 MB at once, which is the peak unless more is alive between forward and backward. zero_grad lets go of the
// gradients; 300 MB and the batch stay.
//
// # Glossary
//
//   - standing: where a micro-step stands in its optimizer step: the first finds no gradients, the last sums them over
//     the GPUs.
//   - moment ([Moment]): a point of the run at which live memory was taken stock of.
//   - steady: what stays between two optimizer steps.
//   - span: live memory at the end of a segment of a program.
package play
