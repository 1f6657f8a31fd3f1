package resolve

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

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

// applyVersions takes what the job's releases do otherwise than the rest, and notes what that of named ones changed.
func (r resolver) applyVersions() {
	r.AssumeStack()
	defaults, unshown := r.Defaults(), false
	software, rows := r.InReleases()
	asked := arch.Use{Attention: r.Asked, Checkpoints: r.Recomputes(false).CheckpointEvery > 0}
	for _, c := range rows {
		if _, named := release.Parse(r.Given[c.Library]); named && r.Concerns(c.ID(), asked) {
			r.Changes = append(r.Changes, c.What)
			unshown = unshown || !resolved.TracedWith(c)
		}
	}
	if r.Unsaid && r.Arch.LacksSDPA(&software) {
		r.Asked = step.AttentionEager
		asked.Attention = r.Asked
	}
	r.Arch.Software = software
	r.RepeatsKV = r.Arch.RepeatsKV(r.Attention())
	r.Arch.Settle(asked)
	r.Recipe = r.Compose(resolved.Composed{})
	r.Cuda = contextOf(&software)
	traced, found := release.Traced(r.ReleaseOf("torch", defaults), r.ReleaseOf("transformers", defaults))
	eager := !r.Recipe.Compile && !r.Recipe.CompileBlocks && r.Copies < 2
	if found && !unshown && !r.Arch.StandInExperts() && traced.Proves(r.Arch.Family, eager) {
		r.ProvenOn = traced.Name
	}
}
