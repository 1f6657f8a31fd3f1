package estimator

import (
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/result"
)

// The answer is package result's; these are its names for users of this package.
type (
	// Result is the answer to one job.
	Result = result.Result
	// Versions names everything that decides the bytes of an answer.
	Versions = result.Versions
	// ModelInfo says what was understood of the model.
	ModelInfo = result.ModelInfo
	// Assumed is how the job was taken to train.
	Assumed = result.Assumed
	// Peak is the largest moment of the job.
	Peak = result.Peak
	// Component is what one kind of tensor holds at the peak.
	Component = result.Component
	// Part is a share of a component.
	Part = result.Part
	// Phase is the largest allocated figure within one phase of the step.
	Phase = result.Phase
	// GPUFit is the judgement of one card.
	GPUFit = result.GPUFit
	// Verdict is whether a job fits on a card.
	Verdict = result.Verdict
	// Note explains something about an answer.
	Note = result.Note
	// DoubtSource is one reason why a real run may hold fewer or more bytes than device_bytes.
	DoubtSource = result.DoubtSource
	// RankPeak is what one of the GPUs that may hold most takes.
	RankPeak = result.RankPeak
	// TimelineEvent is the live memory after one moment of the step.
	TimelineEvent = result.TimelineEvent
	// Tensor is Count tensors of one kind and size that are alive at the peak.
	Tensor = result.Tensor
	// Bytes prints a size for people.
	Bytes = result.Bytes
)

// The verdicts, from high_bytes, device_bytes and low_bytes against usable_bytes.
const (
	Fits       = result.Fits
	Tight      = result.Tight
	Unlikely   = result.Unlikely
	DoesNotFit = result.DoesNotFit
	Unknown    = result.Unknown
)

// Turn is a share of the processors: whoever answers many at once lends it to an estimate.
type Turn = replay.Turn

// ErrStopped says that [Input.Done] was closed before the answer was there.
var ErrStopped = replay.ErrStopped
