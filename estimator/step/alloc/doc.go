// Package alloc is the heap as those see it who allocate from it: PyTorch's caching allocator, or something that writes
// down or adds up what it is asked for. It imports nothing of the replay, so that everything in it can be handed a
// heap.
//
// # What it holds
//
//   - [Heap]: bytes in, a handle out, and the handle back. Whoever needs more than that looks whether its heap has it:
//     [Streaming] knows streams, [Keeping] keeps states by itself, [Settling] plays whole scripts and tells whether it
//     is in the same state again.
//   - [Tally], a heap that only adds up.
//   - What every heap rounds to: [Rounded].
//
// # A worked example
//
// A tensor of 1,000 float32 values asks for 4,000 bytes and takes 4,096: the allocator gives blocks of 512. Two of them
// on a [Tally] are 8,192 bytes alive; when the first is freed 4,096 are, and the most that ever was stays 8,192.
//
// # Glossary
//
//   - handle: what a heap returns for an allocation; [None] is the handle of nothing.
//   - stream: a queue of work on a GPU. Memory that was allocated on one is not given to another.
//   - block: what a request is rounded up to.
package alloc
