// Package parallel is the strategies that spread a job over GPUs, each a file named as its users call it: ddp.go,
// fsdp1.go, fsdp2.go, zero.go (DeepSpeed's stages 1 and 2), zero3.go, dtensor.go (GPUs that share layers), ring.go
// (GPUs that share sequences), pipeline.go (stages). The last three embed the strategy that a job has besides.
//
// # What it holds
//
// Each strategy is a value that implements [step.Strategy]: what this GPU holds of every parameter, how the model is
// loaded, what stays from step to step, and the hooks that act while a micro-step is recorded. It embeds [step.OneGPU]
// for everything that it leaves as it is there, and its hooks embed [step.NoHooks]. The tape and the session know no
// strategy; they only call these moments:
//
//	forward          BeforeForward, then for each unit BeforeUnit and AfterUnit, then AfterForward
//	backward         BeforeBackward and AfterBackward of each unit, GradientReady of each parameter, EndBackward
//	checkpointing    BeforeRerun and AfterRerun of a unit that runs again
//	between steps    BeforeFirstForward, NextStep, Clip
//
// fsdp.go has what both FSDPs share: groups of parameters, the order in which they are gathered, and the marks on the
// nodes whose backward needs them.
//
// # A worked example
//
// FSDP2 on 8 GPUs, a matrix of 1,000 × 1,000 stored in float32 and computed with in bfloat16. Each GPU holds 125 rows,
// 500,000 bytes; the optimizer's states are of the same size each. Before the layer's forward the part is cast, 250,000
// bytes, and all parts arrive in a buffer of 2,000,000 on the gather's stream; they are copied out into the whole
// matrix, 2,000,000 more. After the forward it goes. In backward it comes again, and the whole gradient, 2,000,000
// bytes, is copied into a buffer from which every GPU gets the sum of its part. A vector of 10 elements is dealt out in
// rows of 2: the first five GPUs have two each, and the others none, but all hold room.
//
// # Glossary
//
//   - part, shard: what one GPU holds of a parameter.
//   - group: parameters that are gathered and summed together: a layer, or everything outside the layers (the root).
//   - gather, unshard: put parts together; reshard: let go of the whole again.
//   - reduce, reduce-scatter: sum gradients over the GPUs, each keeping its part.
//   - stream: collectives run beside the computation, on streams whose memory is not given to others.
package parallel
