// Package estimator says how much GPU memory a training job takes, before it runs.
//
// It replays one training step on shapes: package model runs the forward of the model as its PyTorch module does,
// package step records what every operation allocates, keeps for backward and frees, walks backward as autograd's
// engine would, and package memory plays the allocations on a model of PyTorch's caching allocator. The answer is read
// off that: the peak, what holds it, and whether it fits.
//
//   - [Job] is the document: a model, how it is trained, where it should run.
//   - [Estimate] answers one job. [Judge] does the same for those who ask about hundreds;
//     [Replays] lets questions that belong together share work.
//   - [Result] is the answer: the three numbers that a user can see (allocated, reserved, device), ten components that
//     add up to the device figure, bounds, verdicts and notes.
//   - [Replay] plays the allocations and frees on a heap of the caller's.
//   - Package planner looks for the ways out of "does not fit".
//
// The package is pure: it does no input or output, reads no clock, and gives the same answer to the same input on every
// machine. All functions may be called from several goroutines at once. Sizes are in bytes, lengths in tokens.
//
// What is not modelled is refused with an [InvalidJobError] that names the field, never ignored.
package estimator
