package estimator

import "fmt"

// ddp is a job that so many GPUs hold whole.
type ddp struct {
	world int64
	// views says that gradients are views of the buckets.
	views bool
}

// how leaves every component's words as they are on one GPU.
func (ddp) how(string, string, *run) (string, bool) { return "", false }

// doubts widen nothing.
func (ddp) doubts() []doubt { return nil }

// microStep is m.
func (ddp) microStep(m int64) int64 { return m }

// notes say what the job was taken to be.
func (d ddp) notes() []Note {
	notes := []Note{{Code: "data-parallel", Text: fmt.Sprintf("each of %d GPUs holds the whole job, and "+
		"DistributedDataParallel a copy of its gradients to sum them in; the buckets were replayed from PyTorch's "+
		"source, NCCL's own memory was not", d.world)}}
	if d.views {
		notes = append(notes, Note{Code: "bucket-views", Text: "gradient_as_bucket_view makes gradients views of the " +
			"buckets once both are there; the replay counts both, which is no more than is there before, but more at " +
			"the optimizer step"})
	}
	return notes
}
