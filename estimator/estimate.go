package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// Input is a job with its names resolved: what a catalog says of the preset and
// the GPUs that the job names.
type Input struct {
	Job Job
	// Preset is the catalog's entry for Job.Model.Preset; nil otherwise.
	Preset *model.Preset
	// GPUs are the cards to judge, in the order in which the answer lists them.
	GPUs []GPU
	// Timeline and Tensors ask for those parts of the answer.
	Timeline, Tensors bool
}

// Estimate replays one job. The error is an *InvalidJobError where the job
// cannot be understood or asks for something that is not modelled.
func Estimate(in Input) (*Result, error) {
	var v invalid.List
	v.Add("/model", "unsupported", "not modelled yet")
	return nil, v.Err()
}
