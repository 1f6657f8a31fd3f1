// Package step records one micro-step of training: the forward as the model runs it, then backward as autograd's engine
// would, as a program of allocations and frees.
//
// # What it holds
//
//   - The tape ([Tape], tape.go): tensors ([T]) that share storages, counted references, and the nodes that backward
//     will visit (op.go, autograd.go). Every allocation becomes a [Slot] of a [Program], every allocation and free an
//     [Event].
//   - The operations, in files by kind: linear.go, attention.go and kernels.go, norms.go, elementwise.go, loss.go and
//     losskind.go, experts.go, convolution.go, quantised.go. An operation says what it allocates, what it saves for
//     backward and what its backward allocates, in the order of the PyTorch source that the comment above it names.
//     They stay with the tape, whose references they count: in packages of their own they would export the inside of it
//     and show a reader nothing more.
//   - Checkpointing (checkpoint.go, blocks.go, selective.go, selectiveops.go), which runs the forward of a layer again
//     inside backward and so is half of the engine; and what torch.compile makes of operations (compiled.go: tensors
//     that are not made until something reads them).
//   - Parameters, the recipe ([Recipe]: everything besides the model that decides allocations), and two interfaces by
//     which others take part in a recording: [Strategy] with its [Hooks] (package parallel) and [Updates] (package
//     optim).
//
// What becomes of a program is package play's: how often it is played, what an optimizer does in between, what is alive
// when. All of these allocate from the heap of package alloc.
//
// # A worked example
//
// One linear layer of 512 × 256 weights on 64 tokens, in float32, with the mean of its output as the loss (see the
// example of [Tape.Record]). Forward allocates the output, 64 × 512 × 4 = 131,072 bytes, cuBLAS's workspace, once in
// the life of the process for each thread, and the loss. Backward starts from the gradient of the loss, 4 bytes,
// spreads it over the output, another 131,072, and forms the gradient of the weights, 512 × 256 × 4 = 524,288 bytes,
// which stays: the optimizer will want it. The input got no gradient, so none is formed for it.
//
// # Glossary
//
//   - micro-step: forward and backward of one micro-batch; an optimizer step has as many as gradients are accumulated
//     over.
//   - storage: one allocation, with the references to it; it is freed with the last of them, as CPython does.
//   - slot: a storage in a program. Programs of deep models are recorded with five units and the middle one is
//     repeated.
//   - unit: what repeats in a model, a layer or a few; everything else lies outside, in unit -1.
//   - edge: where a gradient goes: an output of a node, a parameter, or nowhere.
//   - saved: kept alive for backward by a node. Held: kept by a variable of the training loop.
//   - hook: a moment at which a strategy acts.
package step
