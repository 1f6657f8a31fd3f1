// Package calibration says what measured runs add to the constants of the estimator.
//
// What a training step allocates is replayed, and no measurement changes that. Three things are not: what the process
// takes on the card outside PyTorch's allocator (the context), what the allocator reserves beyond the replay in
// proportion to it (the allocator) and whatever it comes to (the workspace). And there is how far all of this may be
// off. Those have constants that come with the estimator, read off published runs; a [Calibration] corrects them by
// group of jobs, from runs that somebody measured.
//
//   - [Calibration] is a value: the same one gives the same correction to the same job for ever.
//   - [Fit] makes its groups from measured runs.
//   - [HoldOut] says what such a fit would have been worth on runs that it did not see.
//
// The package is pure, as the estimator is.
package calibration
