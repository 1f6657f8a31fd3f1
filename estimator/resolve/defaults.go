package resolve

import "github.com/vramplan/vramplan/estimator/job"

// withoutDefaults is the job without what it says as it is anyway, so that who says a default is answered as who leaves
// it out. What is the default of a framework alone is seen where the framework is.
func withoutDefaults(j job.Job) job.Job {
	t := &j.Training
	if t.LogitsDtype == "compute" {
		t.LogitsDtype = ""
	}
	if t.AttentionMask == "none" {
		t.AttentionMask = ""
	}
	leaveOut(&t.Compile)
	leaveOut(&t.Loss)
	leaveOut(&t.States)
	leaveOut(&t.Allocator)
	leaveOut(&t.Optimizer)
	leaveOut(&t.Dropout)
	return j
}

// leaveOut takes away an object that says nothing.
func leaveOut[T comparable](at **T) {
	var nothing T
	if *at != nil && **at == nothing {
		*at = nil
	}
}
