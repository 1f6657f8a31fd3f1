package estimator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// diffusion is the kind of training that tells noise from pictures, and diffusers the framework whose scripts run it.
const (
	diffusion = "diffusion"
	diffusers = "diffusers"
)

// diffusionFields are those of the objective that it reads.
var diffusionFields = []string{"train", "latents", "text_embeddings", "ema", "train_text_encoder"}

// withoutDiffusion refuses what belongs to diffusion pipelines alone.
func withoutDiffusion(j *Job, errs *invalid.List) {
	t := &j.Training
	const where = "%s belongs to the objective diffusion, with a model.diffusion; leave it out"
	if len(t.Resolution) > 0 {
		errs.Add("/training/resolution", "conflict", where, "resolution")
	}
	if t.Script != "" {
		errs.Add("/training/script", "conflict", where, "script")
	}
	if t.Framework == diffusers {
		errs.Add("/training/framework", "conflict", where, "the framework diffusers")
	}
	if o := t.Objective; o != nil && t.ObjectiveKind() == job.LanguageModel {
		how := trainer{fields: slicesWithout(o.Given(), diffusionFields)}
		how.unread(job.LanguageModel, o, errs)
	}
}

// slicesWithout are those of all that are not in some.
func slicesWithout(all, some []string) []string {
	var rest []string
	for _, name := range all {
		if !strings.Contains(" "+strings.Join(some, " ")+" ", " "+name+" ") {
			rest = append(rest, name)
		}
	}
	return rest
}

// diffusion resolves a job on a diffusion pipeline, which has fields, precisions and a loop of its own.
func (r *resolved) diffusion(in *Input, errs *invalid.List) {
	job := &in.Job
	t, d := &job.Training, job.Model.Diffusion
	o := t.Objective
	if len(t.Versions) == 0 { // the releases that its scripts were traced with
		r.stack = release.Assumed(formerTransformers)
	}
	if d == nil {
		errs.Add("/model", "conflict", "the objective diffusion trains a pipeline: give it as diffusion, in place of "+
			"the model that is given")
		return
	}
	if o == nil || t.ObjectiveKind() != diffusion {
		errs.Add(objectivePointer, "required",
			`a diffusion pipeline is trained with the objective diffusion: give {"kind": "diffusion"}`)
		return
	}
	how := trainer{fields: diffusionFields}
	how.unread(diffusion, o, errs)
	r.follow(cmp.Or(t.Framework, diffusers))
	r.refuseWithDiffusion(job, errs)
	parts, known := pipelines.Pipeline{Transformer: d.Transformer, UNet: d.UNet, VAE: d.VAE,
		ControlNet: d.ControlNet, TextEncoders: d.TextEncoders}.Completed(d.Preset)
	if d.Preset != "" && !known && d.Transformer == nil && d.UNet == nil {
		errs.Add("/model/diffusion/preset", "unknown_model", "the pipeline %.100q is not known; %s are, and of others "+
			"the config.json of each folder is accepted", d.Preset, strings.Join(pipelines.PublishedPipelines(), ", "))
		return
	}
	r.arch = pipelines.FromPipeline(parts, "/model/diffusion", errs)
	if r.arch.Family != "" && d.Preset != "" {
		r.arch.Name = d.Preset
	}
	alone := *t // whatever is said of one GPU
	alone.Distributed = nil
	r.numerics = r.numericsOf(&alone, diffusionPrecision(t, errs), errs)
	r.chooseOptimizer(t, errs)
	r.recompute = diffusionCheckpoints(t, errs)
	if r.arch.Family == "" {
		return
	}
	script, ok := scriptFor(t, r.arch.Family)
	if !ok {
		errs.Add("/training/script", "unsupported", "%s is not replayed; %s are", scriptWords(t, r.arch.Family),
			strings.Join(scriptNames(), ", "))
		return
	}
	r.scriptFits(t, &script, errs)
	r.pixels(t, errs)
	r.microSteps = microSteps(t)
	holds := r.arrange(t, &script)
	if r.readFirst = script.readsFirst; r.readFirst {
		r.readsFirst(t, &script, errs)
	}
	pipelines.Arrange(&r.arch, holds)
	if t.LoRA != nil {
		r.diffusionLoRA(t, &script, errs)
	}
	r.clip = (t.ClipGradNorm == nil || *t.ClipGradNorm) && !script.clipsNothing
	r.zeroesGradients = script.keepsGradients
	r.objective = r.learns(t, &script, holds, errs)
	r.expand = t.Allocator != nil && t.Allocator.ExpandableSegments
	r.versions = len(t.Versions) > 0
	if errs.Err() != nil {
		return
	}
	r.applyVersions()
	r.cuda = memory.ContextLazy
}

// learns is what the script makes of a step.
func (r *work) learns(t *Training, s *diffusionScript, holds pipelines.Arrangement, errs *invalid.List) step.Objective {
	if s.tellsNoise {
		return r.tellsNoise(t, s, holds, errs)
	}
	return objective.Diffusion{CachedLatents: t.Objective.Latents == "cached", CachedTexts: !s.keepsTexts,
		Packs: s.packs, Preconditions: s.preconditions, Weights: holds.Frozen, VAE: holds.VAE}
}

// scriptWords are what was asked for, in words.
func scriptWords(t *Training, family string) string {
	if t.Script != "" {
		return "the script " + t.Script
	}
	if t.LoRA != nil {
		return "a script that trains adapters on " + family
	}
	return "a script that trains " + family + " in full"
}

// scriptFits refuses what the script does not do.
func (r *work) scriptFits(t *Training, s *diffusionScript, errs *invalid.List) {
	o := t.Objective
	conflict := func(is bool, pointer, format string, args ...any) {
		if is {
			errs.Add(pointer, "conflict", format, args...)
		}
	}
	conflict(s.family != r.arch.Family, "/training/script", "%s trains %s, and the pipeline's model is %s", s.name,
		s.family, r.arch.Family)
	conflict(o.Train != "" && o.Train != s.train, objectivePointer+"/train", "train is %s, and %s trains the %s",
		o.Train,
		s.name, s.train)
	conflict(t.LoRA == nil && s.adapters, "/training/lora", "%s trains adapters: give lora with their rank", s.name)
	conflict(t.LoRA != nil && !s.adapters, "/training/lora", "%s trains the model in full and no adapters; leave lora "+
		"out", s.name)
	conflict(o.Latents == "cached" && !s.cachesLatents && !s.encodesFirst, objectivePointer+"/latents",
		"%s encodes the pictures in each step; each-step is accepted", s.name)
	conflict(o.TextEmbeddings == "cached" && s.keepsTexts && !s.readsOnce, objectivePointer+"/text_embeddings",
		"%s reads the prompts in each step, and keeps its text encoders on the GPU; each-step is accepted", s.name)
	unsupported := func(is bool, pointer, what string) {
		if is {
			errs.Add(pointer, "unsupported", "%s is not modelled with %s yet; leave it out", what, s.name)
		}
	}
	unsupported(o.EMA && !s.averages, objectivePointer+"/ema", "an average of the weights")
	unsupported(o.TrainTextEncoder, objectivePointer+"/train_text_encoder", "a trained text encoder")
	if o.Latents != "cached" && !s.tellsNoise && !pipelines.HasVAE(&r.arch) {
		errs.Add("/model/diffusion/vae", "required", "the autoencoder's config.json is missing: %s encodes the "+
			"pictures in each step", s.name)
	}
	if s.keepsTexts && !s.tellsNoise && pipelines.TextEncoders(&r.arch) == 0 {
		errs.Add("/model/diffusion/text_encoders", "required", "text_encoders are missing: %s keeps them on the GPU",
			s.name)
	}
}

// pixels is the size of the pictures, and what the model makes of it.
func (r *work) pixels(t *Training, errs *invalid.List) {
	const pointer, most = "/training/resolution", 1 << 14
	height, width := t.Resolution.Size()
	if height == 0 {
		errs.Add(pointer, "required", "resolution is missing: pixels a side, or [height, width]")
		return
	}
	const mostPictures = 1 << 12
	if t.MicroBatch > mostPictures {
		errs.Add("/training/micro_batch", "out_of_range", "micro_batch is %d; of pictures it is from 1 to %d",
			t.MicroBatch, mostPictures)
		return
	}
	side := pipelines.LatentScale(&r.arch) * pipelines.LatentMultiple(&r.arch)
	for _, n := range []int64{height, width} {
		if n < side || n > most {
			errs.Add(pointer, "out_of_range", "resolution is [%d, %d]; it is from %d to %d pixels", height, width, side,
				most)
			return
		}
		if n%side != 0 {
			errs.Add(pointer, "not_divisible", "resolution is [%d, %d]; %s reads multiples of %d pixels", height, width,
				r.arch.Family, side)
			return
		}
	}
	r.shape = step.Shape{Batch: t.MicroBatch, Height: height, Width: width,
		Tokens: pipelines.LatentTokens(&r.arch, height/pipelines.LatentScale(&r.arch),
			width/pipelines.LatentScale(&r.arch))}
	a := &r.arch
	tokens := float64(r.shape.Batch) * float64(r.shape.Tokens)
	if total := tokens * float64(a.Layers) * 64 * float64(a.Hidden+a.FFN); total > mostDiffusionBytes {
		errs.Add("/training", "too_large", "micro_batch %d × resolution [%d, %d] would need about %.1e bytes; up to "+
			"%.0e are accepted", t.MicroBatch, height, width, total, mostDiffusionBytes)
	}
}

// mostDiffusionBytes is what a micro-step may need: a thousand terabytes.
const mostDiffusionBytes = 1e15

// diffusionPrecision is accelerate's mixed_precision: what is not trained is stored in the computation's type, what is
// trained in full in float32.
func diffusionPrecision(t *Training, errs *invalid.List) precision {
	switch t.Precision {
	case "", PrecisionAMPBF16, PrecisionAMPFP16, PrecisionFP32, PrecisionTF32:
		return precisionOf(t, errs)
	}
	errs.Add("/training/precision", "unsupported", "the scripts of diffusers have mixed_precision bf16, fp16 and "+
		"no: amp-bf16, amp-fp16 and fp32 are accepted, and precision is %.40q", t.Precision)
	return precision{stored: step.F32}
}

// diffusionCheckpoints is --gradient_checkpointing: diffusers checkpoints every block, and never reentrantly.
// Source: diffusers/models/modeling_utils.py (enable_gradient_checkpointing), 0.39.
func diffusionCheckpoints(t *Training, errs *invalid.List) recompute {
	c := t.GradientCheckpointing
	if c == nil || (c.Mode == "" || c.Mode == "none") && *c == (Checkpointing{Mode: c.Mode}) {
		return recompute{}
	}
	if c.Mode != "full" && c.Mode != "" || c.Every > 1 || c.Offload || c.Reentrant != nil && *c.Reentrant {
		errs.Add("/training/gradient_checkpointing", "unsupported", "diffusers checkpoints every block, not "+
			"reentrantly; full and none are accepted")
		return recompute{}
	}
	return recompute{mode: "full", every: 1}
}

// arrange is how the script holds the pipeline.
func (r *work) arrange(t *Training, s *diffusionScript) pipelines.Arrangement {
	half := r.numerics.Compute
	a := pipelines.Arrangement{Trained: step.F32, Frozen: half, VAE: half, KeepsTexts: s.keepsTexts,
		KeepsVAE: t.Objective.Latents != "cached" && !s.encodesFirst, Order: s.order, Adapted: t.LoRA != nil,
		Controls: s.controls}
	if t.Objective.EMA {
		a.Order = append(slices.Clone(s.order), pipelines.PartAverage)
	}
	if s.wideVAE {
		a.VAE = step.F32
	}
	a.PromptsStay = !s.keepsTexts && !s.encodesFirst || s.readsOnce
	if a.EmbeddedTokens = s.t5Tokens; s.tellsNoise {
		a.EmbeddedTokens = s.clipTokens
	}
	if s.preconditions {
		a.EmbeddedTokens += s.clipTokens // CLIP's two encoders side by side, and T5's behind them
	}
	last := pipelines.TextEncoders(&r.arch) - 1
	for i := range max(last+1, 1) {
		tokens := s.clipTokens
		if i == last && s.t5Tokens > 0 {
			tokens = s.t5Tokens
		}
		a.TextTokens = append(a.TextTokens, tokens)
	}
	return a
}

// diffusionLoRA puts adapters on the denoiser. peft makes them in the base's type, and the scripts cast them up where
// that is float16. Source: diffusers/training_utils.py (cast_training_params), 0.39.
func (r *work) diffusionLoRA(t *Training, s *diffusionScript, errs *invalid.List) {
	const pointer = "/training/lora"
	l := t.LoRA
	if l.Rank < 1 || l.Rank > maxRank {
		errs.Add(pointer+"/rank", "out_of_range", "rank is %d; it is a whole number from 1 to %d", l.Rank, maxRank)
		return
	}
	const perLayer, most = 32, 1e13 // adapters of a layer; a published model has 1e8 numbers in them
	if a := &r.arch; perLayer*float64(a.Layers)*float64(l.Rank)*float64(a.Hidden+a.FFN) > most {
		errs.Add(pointer+"/rank", "too_large", "adapters of rank %d on %d layers would have more than %.0e parameters",
			l.Rank, a.Layers, most)
		return
	}
	if !(l.Dropout >= 0 && l.Dropout < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", l.Dropout)
	}
	dtype := r.numerics.Compute
	if dtype == step.F16 {
		dtype = step.F32
	}
	if given := named(l.AdapterDtype, dtype, pointer+"/adapter_dtype", errs); given != dtype {
		errs.Add(pointer+"/adapter_dtype", "conflict", "adapter_dtype is %s, and with precision %s the script's "+
			"adapters are %s; leave it out", l.AdapterDtype, cmp.Or(t.Precision, PrecisionAMPBF16), result.Dtype(dtype))
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"base_precision", l.BasePrecision != "" && named(l.BasePrecision, r.numerics.Compute,
		pointer+"/base_precision", errs) != r.numerics.Compute},
		{"dora", l.DoRA}, {"modules_to_save", len(l.ModulesToSave) > 0},
		{"double_quantization", l.DoubleQuantization}, {"upcast_base", l.UpcastBase != nil}} {
		if f.given {
			errs.Add(pointer+"/"+f.name, "unsupported", "%s is not modelled with %s; leave it out", f.name, s.name)
		}
	}
	adapters := model.LoRA{Rank: l.Rank, Dropout: l.Dropout, Targets: l.TargetModules, Dtype: dtype,
		Half: r.numerics.Compute, Late: true}
	if len(adapters.Targets) == 0 {
		adapters.Targets = s.targets
	}
	r.adapted = true
	r.arch.Adapt(adapters, pointer, errs)
}

// refuseWithDiffusion names, all at once, what no script of diffusers has or no trace has shown.
func (r *software) refuseWithDiffusion(job *Job, errs *invalid.List) {
	t, m := &job.Training, &job.Model
	for _, other := range []struct {
		name  string
		given bool
	}{{"preset", m.Preset != ""}, {"hf_config", m.HFConfig != nil}, {"nanogpt", m.NanoGPT != nil},
		{"dimensions", m.Dimensions != nil}, {"recorded", m.Recorded != nil}} {
		if other.given {
			errs.Add("/model", "conflict", "exactly one of preset, hf_config, nanogpt, dimensions, recorded and "+
				"diffusion is given, and here %s is given with diffusion", other.name)
		}
	}
	for _, f := range []struct {
		field string
		given bool
	}{
		{"sequence_length", t.SequenceLength != 0}, {"target_sequence_length", t.TargetSequenceLength != 0},
		{"fp8", t.FP8 != nil}, {"states", t.States != nil},
		{"attention", t.Attention != "" && t.Attention != "sdpa"},
		{"attention_mask", t.AttentionMask != "" && t.AttentionMask != "none"}, {"loss", t.Loss != nil},
		{"logits_dtype", t.LogitsDtype != ""}, {"hold_logits", t.HoldLogits != nil}, {"kernels", len(t.Kernels) > 0},
		{"compile", t.Compile != nil && (t.Compile.Model || t.Compile.Loss)}, {"dropout", t.Dropout != nil},
		{"distributed", t.Distributed != nil && t.Distributed.WorldSize > 1}, {"evaluation", t.Evaluation != nil},
	} {
		if f.given {
			errs.Add("/training/"+f.field, "unsupported", "%s is not modelled with the objective diffusion; leave the "+
				"field out", f.field)
		}
	}
	if r.framework != diffusers {
		errs.Add("/training/framework", "unsupported", "the objective diffusion is replayed as the "+
			"scripts of diffusers "+
			"run it, and not as %.40s; diffusers is accepted", r.framework)
	}
	if job.Model.Head != nil {
		errs.Add("/model/head", "conflict", "a diffusion pipeline has no head; leave it out")
	}
	if t.MicroBatch == 0 {
		errs.Add("/training/micro_batch", "required", "micro_batch is missing: pictures in one forward pass on one "+
			"GPU, at least 1")
	}
	for _, f := range []struct {
		field string
		value int64
	}{{"micro_batch", t.MicroBatch}, {"gradient_accumulation", t.GradientAccumulation}} {
		if f.value < 0 || f.value > 1<<30 {
			errs.Add("/training/"+f.field, "out_of_range", "%s is %d; it is a whole number from 1 to %d", f.field,
				f.value,
				1<<30)
		}
	}
}
