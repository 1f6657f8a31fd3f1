package estimator

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
)

// hopper and blackwells are the major compute capabilities of Hopper and of the last Blackwell.
const hopper, blackwells = 9, 12

// hardware puts into a recipe what a GPU decides of it. Without a GPU, or where the catalog does not know, it is
// an A100: compute capability 8.0 and 108 multiprocessors.
func hardware(rc step.Recipe, g *GPU) step.Recipe {
	cc, sms := 80, 108
	if g != nil && g.ComputeCapability > 0 {
		cc = g.ComputeCapability
	}
	if g != nil && g.Multiprocessors > 0 {
		sms = g.Multiprocessors
	}
	rc.ComputeCapability, rc.Multiprocessors = cc, int64(sms)
	rc.ThreadsPerMultiprocessor = threadsPerMultiprocessor(cc)
	rc.WorkspaceBytes, rc.LtWorkspaceBytes = 8_519_680, 1<<20
	if g := cc / 10; g == hopper || rc.Software.WidensWorkspaces && g > hopper && g <= blackwells {
		rc.WorkspaceBytes = 32 << 20
	}
	return rc
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

// cudaContext is what the CUDA context takes where a recipe runs.
func (r *resolved) cudaContext(rc step.Recipe) memory.Context {
	if r.cuda == memory.ContextLazy && rc.Software.LoadsCUDA13 && rc.ComputeCapability/10 == hopper {
		return memory.ContextHopper
	}
	return r.cuda
}

// outside is what a process takes on the card outside PyTorch's allocator.
func (r *resolved) outside(rc step.Recipe) memory.Context {
	c := r.cudaContext(rc)
	return memory.Context{Bytes: c.Bytes + r.nccl.Bytes, Low: c.Low + r.nccl.Low, High: c.High + r.nccl.High}
}
