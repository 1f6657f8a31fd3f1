// Package diagnose explains why a training run ran out of memory, from what it printed.
//
// It takes text: an out-of-memory message of any release of PyTorch since 0.1, with or without its traceback, a log
// around it, a torch.cuda.memory_summary(), nvidia-smi's table or CSV, cuBLAS's and NCCL's failures, the kernel's
// report of a killed process. [Read] finds the messages in it, and [Explain] says what follows from them, in this
// order:
//
//  1. Accounting. The card's memory is what is free, what this process holds (allocated, reserved beside it, the CUDA context)
//     and what others hold. Where another process holds the card, or the driver refused although enough was free, or the
//     allocator had as much in fragments as was asked for, no other cause is looked for.
//  2. The traceback. The line outside PyTorch that asked says most surely what for: a loss, an optimizer's step, an evaluation,
//     the loading of weights.
//  3. The size. What the job is known to ask for in one piece, against what was printed: [Window] is the range of requests that
//     print alike. A caller that knows the job hands in its tensors; without a job only sizes that hardly anything else has are
//     named, and several candidates are all listed.
//
// Nothing is guessed beyond that: where a message does not tell, the class is "unknown" and the answer says what would
// tell.
//
// # A worked example
//
//	Tried to allocate 786.00 MiB (GPU 0; 15.78 GiB total capacity; 14.28 GiB already allocated; 620.69 MiB free; 14.32 GiB
//	reserved in total by PyTorch)
//
// The card has 15.78 GiB = 14.32 reserved + 0.61 free + 0.85 for the context and whatever else is outside PyTorch:
// nobody else holds the card. Of what is reserved 0.04 GiB is not allocated, less than the 786 MiB asked for: no
// fragmentation. PyTorch asks the driver for multiples of 2 MiB, so the request was more than 784 MiB and at most 786
// MiB. GPT-2's logits of 4 × 1024 tokens are 4 × 1024 × 50,257 × 4 B = 785.3 MiB: the tensor, if that is the job.
//
// # Words
//
//   - allocated: what tensors hold, in blocks.
//   - reserved: what the caching allocator has taken from the driver; cached in releases before 1.4, where it leaves out what is
//     allocated.
//   - unallocated: reserved, and no tensor's.
//   - segment: what the allocator asks the driver for in one piece: 2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB,
//     else a multiple of 2 MiB. A message prints the segment that it did not get.
//   - floor: what a job holds however small its micro-batch is: weights, gradients, optimizer state.
package diagnose
