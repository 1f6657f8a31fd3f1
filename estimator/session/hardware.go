package session

import (
	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// widensWorkspaces gives cuBLAS on Blackwell the workspace that it has on Hopper.
var widensWorkspaces = release.Declare("widens-workspaces", release.Change{
	Library: "torch", After: "2.10", From: "2.15",
	What:   "torch 2.15 gives cuBLAS 32 MiB on Blackwell, too, which had 8.1 before",
	Source: "aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize), 2.9.1 and 2.15.0",
	Shown:  "traces of Llama, BERT and GPT-2 on a B200",
})

// Hardware is a recipe on a GPU.
func Hardware(rc step.Recipe, g *job.GPU) step.Recipe {
	rc.Hardware = hardwareOf(g, &rc.Software, nil)
	return rc
}

// hardwareOf is what a GPU decides of a recipe. Without a GPU, or where the catalog does not know, it is an A100:
// compute capability 8.0 and 108 multiprocessors. Where all are played like another, its multiprocessors count, and
// what later cards do otherwise than an A100 in workspaces alone.
func hardwareOf(g *job.GPU, software *release.Set, like *step.Hardware) step.Hardware {
	cc, sms := 80, int64(108)
	if g != nil && g.ComputeCapability > 0 {
		cc = g.ComputeCapability
	}
	if g != nil && g.Multiprocessors > 0 {
		sms = int64(g.Multiprocessors)
	}
	workspace := int64(8_519_680)
	if g := cc / 10; g == bounds.Hopper ||
		software.Has(widensWorkspaces) && g > bounds.Hopper && g <= bounds.Blackwells {
		workspace = 32 << 20
	}
	threads := threadsPerMultiprocessor(cc)
	if like != nil {
		cc, sms = min(cc, 80), like.Multiprocessors
	}
	return step.Hardware{ComputeCapability: cc, Multiprocessors: sms, ThreadsPerMultiprocessor: threads,
		WorkspaceBytes: workspace, LtWorkspaceBytes: 1 << 20}
}

// threadsPerMultiprocessor is the most resident threads of a multiprocessor.
// Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
func threadsPerMultiprocessor(cc int) int64 {
	switch {
	case cc == 75:
		return 1024
	case cc == 86, cc == 87, cc == 89, cc/10 == 12:
		return 1536
	}
	return 2048
}
