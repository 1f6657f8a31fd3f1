// Package optim is the optimizers: what each keeps from step to step and what an update allocates besides.
//
// # What it holds
//
//   - The table (optimizertable.go): one row for each optimizer and who implements it, with every property that
//     anything in the program asks for: states, temporaries, whether it works on parts and inside backward, what its
//     states are called in an answer, how the learning rate follows the batch, what an update moves, the spellings of
//     other tools. Nobody else knows an optimizer by its name.
//   - The updates of those that cannot be said in numbers: adafactor.go, bitsandbytes.go, lion.go, muon.go; and what
//     the loops of PyTorch's own keep in variables (adam.go).
//
// docs/dev/adding-an-optimizer.md says how one more is added.
//
// # A worked example
//
// AdamW, foreach, and one float32 matrix of 1,000 × 1,000: 4,000,000 bytes, 4,000,256 in blocks. The first update makes
// two moments of that size, which stay: 8,000,512 bytes. Every update takes the square roots of all second moments at
// once: 4,000,256 bytes more for a moment. Fused, the roots are not made, and the number of steps lies on the GPU: 512
// bytes for each parameter.
//
// # Glossary
//
//   - moment: a state with the shape of its parameter.
//   - foreach: all parameters of a type at once, one kernel an operation; fused: one kernel for all operations;
//     for-loop: one parameter after the other.
//   - temporary: what an update allocates and lets go of. A variable in a loop keeps the last one until the next is
//     there.
//   - eager: an optimizer that makes its states when it is made, not in the first step.
package optim
