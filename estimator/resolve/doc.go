// Package resolve turns a job document into what runs ([resolved.Job]), or says everything that is wrong with it.
//
// [Resolve] is its front. A part of the document is a file here; what is spread over GPUs, pursued or denoised stands
// in the packages below: strategies, objectives, denoising. They read fields with package fields.
package resolve

import "github.com/vramplan/vramplan/estimator/resolved"

// resolver writes a job's parts.
type resolver struct{ *resolved.Job }

// On resolves what j has so far.
func On(j *resolved.Job) resolver { return resolver{j} }
