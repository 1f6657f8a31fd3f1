package resolve

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/denoising"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
)

// diffusion resolves a job on a diffusion pipeline, which has fields, precisions and a loop of its own.
func (r resolver) diffusion(in *resolved.Input, errs *invalid.List) {
	j := &in.Job
	t, d := &j.Training, j.Model.Diffusion
	o := t.Objective
	if len(t.Versions) == 0 { // the releases that its scripts were traced with
		r.Stack = release.Assumed(resolved.FormerTransformers)
	}
	if d == nil {
		errs.Add("/model", "conflict", "the objective diffusion trains a pipeline: give it as diffusion, in place of "+
			"the model that is given")
		return
	}
	if o == nil || t.ObjectiveKind() != fields.Diffusion {
		errs.Add(fields.ObjectivePointer, "required",
			`a diffusion pipeline is trained with the objective diffusion: give {"kind": "diffusion"}`)
		return
	}
	fields.Unread(denoising.DiffusionFields, fields.Diffusion, o, errs)
	r.follow(cmp.Or(t.Framework, denoising.Diffusers))
	denoising.On(r.Job).RefuseWithDiffusion(j, errs)
	parts, known := pipelines.Pipeline{Transformer: d.Transformer, UNet: d.UNet, VAE: d.VAE,
		ControlNet: d.ControlNet, TextEncoders: d.TextEncoders}.Completed(d.Preset)
	if d.Preset != "" && !known && d.Transformer == nil && d.UNet == nil {
		errs.Add("/model/diffusion/preset", "unknown_model", "the pipeline %.100q is not known; %s are, and of others "+
			"the config.json of each folder is accepted", d.Preset, strings.Join(pipelines.PublishedPipelines(), ", "))
		return
	}
	r.Arch = pipelines.FromPipeline(parts, "/model/diffusion", errs)
	if r.Arch.Family != "" && d.Preset != "" {
		r.Arch.Name = d.Preset
	}
	alone := *t // whatever is said of one GPU
	alone.Distributed = nil
	r.Numerics = r.numericsOf(&alone, denoising.DiffusionPrecision(t, errs), errs)
	r.MicroSteps = microSteps(t)
	r.chooseOptimizer(t, errs)
	r.Recompute = denoising.DiffusionCheckpoints(t, errs)
	if r.Arch.Family == "" {
		return
	}
	script, ok := denoising.ScriptFor(t, r.Arch.Family)
	if !ok {
		errs.Add("/training/script", "unsupported", "%s is not replayed; %s are", denoising.ScriptWords(t, r.Arch.Family),
			strings.Join(denoising.ScriptNames(), ", "))
		return
	}
	r.Script = script.Name
	denoising.On(r.Job).ScriptFits(t, &script, errs)
	denoising.On(r.Job).Pixels(t, errs)
	holds := denoising.On(r.Job).Arrange(t, &script)
	if r.ReadFirst = script.ReadsFirst; r.ReadFirst {
		denoising.On(r.Job).ReadsFirst(t, &script, errs)
	}
	pipelines.Arrange(&r.Arch, holds)
	if t.LoRA != nil {
		denoising.On(r.Job).DiffusionLoRA(t, &script, errs)
	}
	r.Clip = (t.ClipGradNorm == nil || *t.ClipGradNorm) && !script.ClipsNothing
	r.ZeroesGradients = script.KeepsGradients
	r.Objective = denoising.On(r.Job).Learns(t, &script, holds, errs)
	r.Allocator = allocator(t.Allocator, errs)
	r.Versions = len(t.Versions) > 0
	if errs.Err() != nil {
		return
	}
	r.applyVersions()
	r.Cuda = memory.ContextLazy
}
