package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// DDP is a job that so many GPUs hold whole.
type DDP struct {
	world int64
	// views says that gradients are views of the buckets.
	views bool
	parallel.DDP
}

// Strategy is what package step/parallel replays.
func (d DDP) Strategy() step.Strategy { return d.DDP }

// How leaves every component's words as they are on one GPU.
func (DDP) How(string, string, *resolved.Replayed) (string, bool) { return "", false }

// Doubts widen nothing.
func (DDP) Doubts() []doubt.Doubt { return nil }

// MicroStep is m.
func (DDP) MicroStep(m int64) int64 { return m }

// Notes say what the job was taken to be.
func (d DDP) Notes() []result.Note {
	notes := []result.Note{{Code: "data-parallel", Text: fmt.Sprintf("each of %d GPUs holds the whole job, and "+
		"DistributedDataParallel a copy of its gradients to sum them in; the buckets were replayed from PyTorch's "+
		"source, NCCL's own memory was not", d.world)}}
	if d.views {
		notes = append(notes, result.Note{Code: "bucket-views", Text: "gradient_as_bucket_view makes gradients views of the " +
			"buckets once both are there; the replay counts both, which is no more than is there before, but more at " +
			"the optimizer step"})
	}
	return notes
}
