// Package denoising reads jobs that train diffusion pipelines: which script of diffusers runs, what stands beside the
// denoiser, and when it goes.
package denoising

import "github.com/vramplan/vramplan/estimator/resolved"

// Denoiser reads the pipeline of a job.
type Denoiser struct{ *resolved.Job }

// On reads the pipeline of j.
func On(j *resolved.Job) Denoiser { return Denoiser{j} }
