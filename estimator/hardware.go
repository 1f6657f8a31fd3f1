package estimator

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// hopper and blackwells are the major compute capabilities of Hopper and of the last Blackwell.
const hopper, blackwells = 9, 12

// widensWorkspaces gives cuBLAS on Blackwell the workspace that it has on Hopper.
var widensWorkspaces = release.Declare("widens-workspaces", release.Change{
	Library: "torch", After: "2.10", From: "2.15",
	What:   "torch 2.15 gives cuBLAS 32 MiB on Blackwell, too, which had 8.1 before",
	Source: "aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize), 2.9.1 and 2.15.0",
	Shown:  "traces of Llama, BERT and GPT-2 on a B200",
})

var loadsAllKernels = release.Declare("loads-all-kernels", release.Change{
	Library: "torch", To: "1.13",
	What:   "before torch 1.13 all kernels are loaded with the context",
	Source: "CUDA_MODULE_LOADING in c10/cuda (pytorch/pytorch#86509), 1.13", Shown: "published runs",
}, release.Change{
	Library: "cuda", To: "11.7",
	What:   "before CUDA 11.7 all kernels are loaded with the context",
	Source: "CUDA 11.7 release notes (lazy loading)", Shown: "published runs",
})

var loadsMoreKernels = release.Declare("loads-all-kernels-cuda-11", release.Change{
	Library: "cuda", From: "11.0", To: "11.7",
	What:   "CUDA 11 before 11.7 loads more kernels than CUDA 10 did",
	Source: "CUDA 11.7 release notes (lazy loading)", Shown: "published runs",
})

// contextOf is what the CUDA context takes by the releases of a job.
func contextOf(software *release.Set) memory.Context {
	switch {
	case software.Has(loadsMoreKernels):
		return memory.ContextCUDA11
	case software.Has(loadsAllKernels):
		return memory.ContextEager
	}
	return memory.ContextLazy
}

// hardware is a recipe on a GPU.
func hardware(rc step.Recipe, g *GPU) step.Recipe {
	rc.Hardware = hardwareOf(g, &rc.Software, nil)
	return rc
}

// hardwareOf is what a GPU decides of a recipe. Without a GPU, or where the catalog does not know, it is an A100:
// compute capability 8.0 and 108 multiprocessors. Where all are played like another, its multiprocessors count, and
// what later cards do otherwise than an A100 in workspaces alone.
func hardwareOf(g *GPU, software *release.Set, like *step.Hardware) step.Hardware {
	cc, sms := 80, int64(108)
	if g != nil && g.ComputeCapability > 0 {
		cc = g.ComputeCapability
	}
	if g != nil && g.Multiprocessors > 0 {
		sms = int64(g.Multiprocessors)
	}
	workspace := int64(8_519_680)
	if g := cc / 10; g == hopper || software.Has(widensWorkspaces) && g > hopper && g <= blackwells {
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

// loadsCUDA13 is PyTorch built for CUDA 13, whose context and kernels were seen to take more on Hopper.
var loadsCUDA13 = release.Declare("loads-cuda-13", release.Change{
	Library: "torch", After: "2.10", From: "2.11",
	What: "torch from 2.11 is built for CUDA 13, whose context and kernels take 751 to 767 MiB on an H200; " +
		"published runs of CUDA 11 and 12 show 246 to 553",
	Source: "the requirements of the wheels of 2.10.0 and 2.11.0 (nvidia-cuda-runtime)",
	Shown:  "NVML beside 17 steps of torch 2.11 on an H200",
})

// cudaContext is what the CUDA context takes where a recipe runs.
func (r *resolved) cudaContext(rc step.Recipe) memory.Context {
	if r.cuda == memory.ContextLazy && rc.Software.Has(loadsCUDA13) && rc.ComputeCapability/10 == hopper {
		return memory.ContextHopper
	}
	return r.cuda
}

// outside is what a process takes on the card outside PyTorch's allocator.
func (r *resolved) outside(rc step.Recipe) memory.Context {
	c := r.cudaContext(rc)
	return memory.Context{Bytes: c.Bytes + r.nccl.Bytes, Low: c.Low + r.nccl.Low, High: c.High + r.nccl.High}
}
