// Package strategies spreads a job over GPUs: DistributedDataParallel, the two FSDPs, DeepSpeed's ZeRO, Megatron-LM's
// engine, and tensors, sequences, experts and layers that GPUs share. A strategy is a file that says what it needs of
// the document, what it refuses, what it doubts and how its bytes are explained; package step/parallel replays it.
package strategies

import "github.com/vramplan/vramplan/estimator/resolved"

// Spreader spreads a job.
type Spreader struct{ *resolved.Job }

// On spreads j.
func On(j *resolved.Job) Spreader { return Spreader{j} }
