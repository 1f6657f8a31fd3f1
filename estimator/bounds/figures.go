package bounds

import (
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Group is what the calibration says of the job on a card; nil where it says nothing.
func (r Bounder) Group(g *job.GPU) *calibration.Group {
	if r.Calibration == nil {
		return nil
	}
	k := r.Key
	if g != nil {
		k.GPU, k.ComputeCapability = g.ID, g.ComputeCapability
	}
	return r.Calibration.For(k)
}

// Bounded is what a group makes of a base.
func (r Bounder) Bounded(b memory.Base, g *calibration.Group) memory.Figures {
	return b.Bounded(g.Correction(b.Reserved, r.Confidence), r.Confidence)
}

// Hopper and blackwells are the major compute capabilities of Hopper and of the last Blackwell.
const Hopper, Blackwells = 9, 12

// loadsCUDA13 is PyTorch built for CUDA 13, whose context and kernels were seen to take more on Hopper.
var loadsCUDA13 = release.Declare("loads-cuda-13", release.Change{
	Library: "torch", After: "2.10", From: "2.11",
	What: "torch from 2.11 is built for CUDA 13, whose context and kernels take 751 to 767 MiB on an H200; " +
		"published runs of CUDA 11 and 12 show 246 to 553",
	Source: "the requirements of the wheels of 2.10.0 and 2.11.0 (nvidia-cuda-runtime)",
	Shown:  "NVML beside 17 steps of torch 2.11 on an H200",
})

// CUDAContext is what the CUDA context takes where a recipe runs.
func (r Bounder) CUDAContext(rc step.Recipe) memory.Context {
	if r.Cuda == memory.ContextLazy && rc.Software.Has(loadsCUDA13) && rc.ComputeCapability/10 == Hopper {
		return memory.ContextHopper
	}
	return r.Cuda
}

// Outside is what a process takes on the card outside PyTorch's allocator.
func (r Bounder) Outside(rc step.Recipe) memory.Context {
	c := r.CUDAContext(rc)
	return memory.Context{Bytes: c.Bytes + r.Nccl.Bytes, Low: c.Low + r.Nccl.Low, High: c.High + r.Nccl.High}
}
