package result

import "github.com/vramplan/vramplan/estimator/job"

// Assumed is how the job was taken to train: what it says, and the defaults of its framework for the rest. It is for
// people to check an answer against what they run; the words are those of the job document.
type Assumed struct {
	// Objective is the kind of training; empty where it is the loss that the model returns.
	Objective  string `json:"objective,omitempty"`
	MicroBatch int64  `json:"micro_batch"`
	// SequenceLength is in tokens; 0 where the model's input has a fixed size.
	SequenceLength int64 `json:"sequence_length,omitempty"`
	// Images are the pictures of a sequence where the model reads any, ImageSize the height and the width of each in
	// pixels, and ImageTokens how many of the sequence's tokens stand for them.
	Images               int64         `json:"images,omitempty"`
	ImageSize            []int64       `json:"image_size,omitempty"`
	ImageTokens          int64         `json:"image_tokens,omitempty"`
	GradientAccumulation int64         `json:"gradient_accumulation"`
	Precision            job.Precision `json:"precision"`
	// Optimizer is with its implementation: "adamw, foreach".
	Optimizer             string `json:"optimizer"`
	Attention             string `json:"attention"`
	GradientCheckpointing string `json:"gradient_checkpointing"`
	// Adapters are "lora" or "qlora", with what the base is stored in; empty where the model itself is trained.
	Adapters  string `json:"adapters,omitempty"`
	Compiled  bool   `json:"compile,omitempty"`
	Framework string `json:"framework"`
	// Releases are those whose behaviour was followed, of the libraries that every job uses.
	Releases map[string]string `json:"releases"`
	// Training is the job's training with every field that it leaves out and that may be said: a job with it in place
	// of its own has the same bytes and leaves nothing to assume.
	Training *job.Training `json:"training,omitempty"`
}
