package denoising

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// Diffusers is the framework whose scripts run it.
const Diffusers = "diffusers"

// DiffusionFields are those of the objective that it reads.
var DiffusionFields = []string{"train", "latents", "text_embeddings", "ema", "train_text_encoder"}

// WithoutDiffusion refuses what belongs to diffusion pipelines alone.
func WithoutDiffusion(j *job.Job, errs *invalid.List) {
	t := &j.Training
	const where = "%s belongs to the objective diffusion, with a model.diffusion; leave it out"
	if len(t.Resolution) > 0 {
		errs.Add("/training/resolution", "conflict", where, "resolution")
	}
	if t.Script != "" {
		errs.Add("/training/script", "conflict", where, "script")
	}
	if t.Framework == Diffusers {
		errs.Add("/training/framework", "conflict", where, "the framework diffusers")
	}
	if o := t.Objective; o != nil && t.ObjectiveKind() == job.LanguageModel {
		fields.Unread(slicesWithout(o.Given(), DiffusionFields), job.LanguageModel, o, errs)
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

// Learns is what the script makes of a step.
func (r Denoiser) Learns(
	t *job.Training,
	s *DiffusionScript,
	holds pipelines.Arrangement,
	errs *invalid.List,
) step.Objective {
	if s.tellsNoise {
		return r.tellsNoise(t, s, holds, errs)
	}
	return objective.Diffusion{CachedLatents: t.Objective.Latents == "cached", CachedTexts: !s.KeepsTexts,
		Packs: s.packs, Preconditions: s.preconditions, Weights: holds.Frozen, VAE: holds.VAE}
}

// ScriptWords are what was asked for, in words.
func ScriptWords(t *job.Training, family string) string {
	if t.Script != "" {
		return "the script " + t.Script
	}
	if t.LoRA != nil {
		return "a script that trains adapters on " + family
	}
	return "a script that trains " + family + " in full"
}

// ScriptFits refuses what the script does not do.
func (r Denoiser) ScriptFits(t *job.Training, s *DiffusionScript, errs *invalid.List) {
	o := t.Objective
	conflict := func(is bool, pointer, format string, args ...any) {
		if is {
			errs.Add(pointer, "conflict", format, args...)
		}
	}
	conflict(s.family != r.Arch.Family, "/training/script", "%s trains %s, and the pipeline's model is %s", s.Name,
		s.family, r.Arch.Family)
	conflict(o.Train != "" && o.Train != s.Train, fields.ObjectivePointer+"/train", "train is %s, and %s trains the %s",
		o.Train,
		s.Name, s.Train)
	conflict(t.LoRA == nil && s.Adapters, "/training/lora", "%s trains adapters: give lora with their rank", s.Name)
	conflict(t.LoRA != nil && !s.Adapters, "/training/lora", "%s trains the model in full and no adapters; leave lora "+
		"out", s.Name)
	conflict(o.Latents == "cached" && !s.CachesLatents && !s.EncodesFirst, fields.ObjectivePointer+"/latents",
		"%s encodes the pictures in each step; each-step is accepted", s.Name)
	conflict(o.TextEmbeddings == "cached" && s.KeepsTexts && !s.ReadsOnce, fields.ObjectivePointer+"/text_embeddings",
		"%s reads the prompts in each step, and keeps its text encoders on the GPU; each-step is accepted", s.Name)
	unsupported := func(is bool, pointer, what string) {
		if is {
			errs.Add(pointer, "unsupported", "%s is not modelled with %s yet; leave it out", what, s.Name)
		}
	}
	unsupported(o.EMA && !s.averages, fields.ObjectivePointer+"/ema", "an average of the weights")
	unsupported(o.TrainTextEncoder, fields.ObjectivePointer+"/train_text_encoder", "a trained text encoder")
	if o.Latents != "cached" && !s.tellsNoise && !pipelines.HasVAE(&r.Arch) {
		errs.Add("/model/diffusion/vae", "required", "the autoencoder's config.json is missing: %s encodes the "+
			"pictures in each step", s.Name)
	}
	if s.KeepsTexts && !s.tellsNoise && pipelines.TextEncoders(&r.Arch) == 0 {
		errs.Add("/model/diffusion/text_encoders", "required", "text_encoders are missing: %s keeps them on the GPU",
			s.Name)
	}
}

// Pixels is the size of the pictures, and what the model makes of it.
func (r Denoiser) Pixels(t *job.Training, errs *invalid.List) {
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
	side := pipelines.LatentScale(&r.Arch) * pipelines.LatentMultiple(&r.Arch)
	for _, n := range []int64{height, width} {
		if n < side || n > most {
			errs.Add(pointer, "out_of_range", "resolution is [%d, %d]; it is from %d to %d pixels", height, width, side,
				most)
			return
		}
		if n%side != 0 {
			errs.Add(pointer, "not_divisible", "resolution is [%d, %d]; %s reads multiples of %d pixels", height, width,
				r.Arch.Family, side)
			return
		}
	}
	r.Shape = step.Shape{Batch: t.MicroBatch, Height: height, Width: width,
		Tokens: pipelines.LatentTokens(&r.Arch, height/pipelines.LatentScale(&r.Arch),
			width/pipelines.LatentScale(&r.Arch))}
	a := &r.Arch
	tokens := float64(r.Shape.Batch) * float64(r.Shape.Tokens)
	if total := tokens * float64(a.Layers) * 64 * float64(a.Hidden+a.FFN); total > mostDiffusionBytes {
		errs.Add("/training", "too_large", "micro_batch %d × resolution [%d, %d] would need about %.1e bytes; up to "+
			"%.0e are accepted", t.MicroBatch, height, width, total, mostDiffusionBytes)
	}
}

// mostDiffusionBytes is what a micro-step may need: a thousand terabytes.
const mostDiffusionBytes = 1e15

// DiffusionPrecision is accelerate's mixed_precision: what is not trained is stored in the computation's type, what is
// trained in full in float32.
func DiffusionPrecision(t *job.Training, errs *invalid.List) fields.Precision {
	switch t.Precision {
	case "", job.PrecisionAMPBF16, job.PrecisionAMPFP16, job.PrecisionFP32, job.PrecisionTF32:
		return fields.PrecisionOf(t, errs)
	}
	errs.Add("/training/precision", "unsupported", "the scripts of diffusers have mixed_precision bf16, fp16 and "+
		"no: amp-bf16, amp-fp16 and fp32 are accepted, and precision is %.40q", t.Precision)
	return fields.Precision{Stored: step.F32}
}

// DiffusionCheckpoints is --gradient_checkpointing: diffusers checkpoints every block, and never reentrantly.
// Source: diffusers/models/modeling_utils.py (enable_gradient_checkpointing), 0.39.
func DiffusionCheckpoints(t *job.Training, errs *invalid.List) resolved.Recompute {
	c := t.GradientCheckpointing
	if c == nil || (c.Mode == "" || c.Mode == "none") && *c == (job.Checkpointing{Mode: c.Mode}) {
		return resolved.Recompute{}
	}
	if c.Mode != "full" && c.Mode != "" || c.Every > 1 || c.Offload || c.Reentrant != nil && *c.Reentrant {
		errs.Add("/training/gradient_checkpointing", "unsupported", "diffusers checkpoints every block, not "+
			"reentrantly; full and none are accepted")
		return resolved.Recompute{}
	}
	return resolved.Recompute{Mode: "full", Every: 1}
}

// Arrange is how the script holds the pipeline.
func (r Denoiser) Arrange(t *job.Training, s *DiffusionScript) pipelines.Arrangement {
	half := r.Numerics.Compute
	a := pipelines.Arrangement{Trained: step.F32, Frozen: half, VAE: half, KeepsTexts: s.KeepsTexts,
		KeepsVAE: t.Objective.Latents != "cached" && !s.EncodesFirst, Order: s.order, Adapted: t.LoRA != nil,
		Controls: s.controls}
	if t.Objective.EMA {
		a.Order = append(slices.Clone(s.order), pipelines.PartAverage)
	}
	if s.wideVAE {
		a.VAE = step.F32
	}
	a.PromptsStay = !s.KeepsTexts && !s.EncodesFirst || s.ReadsOnce
	if a.EmbeddedTokens = s.t5Tokens; s.tellsNoise {
		a.EmbeddedTokens = s.clipTokens
	}
	if s.preconditions {
		a.EmbeddedTokens += s.clipTokens // CLIP's two encoders side by side, and T5's behind them
	}
	last := pipelines.TextEncoders(&r.Arch) - 1
	for i := range max(last+1, 1) {
		tokens := s.clipTokens
		if i == last && s.t5Tokens > 0 {
			tokens = s.t5Tokens
		}
		a.TextTokens = append(a.TextTokens, tokens)
	}
	return a
}

// DiffusionLoRA puts adapters on the denoiser. peft makes them in the base's type, and the scripts cast them up where
// that is float16. Source: diffusers/training_utils.py (cast_training_params), 0.39.
func (r Denoiser) DiffusionLoRA(t *job.Training, s *DiffusionScript, errs *invalid.List) {
	const pointer = "/training/lora"
	l := t.LoRA
	if l.Rank < 1 || l.Rank > fields.MaxRank {
		errs.Add(
			pointer+"/rank",
			"out_of_range",
			"rank is %d; it is a whole number from 1 to %d",
			l.Rank,
			fields.MaxRank,
		)
		return
	}
	const perLayer, most = 32, 1e13 // adapters of a layer; a published model has 1e8 numbers in them
	if a := &r.Arch; perLayer*float64(a.Layers)*float64(l.Rank)*float64(a.Hidden+a.FFN) > most {
		errs.Add(pointer+"/rank", "too_large", "adapters of rank %d on %d layers would have more than %.0e parameters",
			l.Rank, a.Layers, most)
		return
	}
	if p := l.Dropped(); !(p >= 0 && p < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", p)
	}
	dtype := r.Numerics.Compute
	if dtype == step.F16 {
		dtype = step.F32
	}
	r.Base = resolved.Base{Loaded: r.Numerics.Compute, Stored: r.Base.Stored, Adapters: dtype}
	if given := fields.Named(l.AdapterDtype, dtype, pointer+"/adapter_dtype", errs); given != dtype {
		errs.Add(pointer+"/adapter_dtype", "conflict", "adapter_dtype is %s, and with precision %s the script's "+
			"adapters are %s; leave it out", l.AdapterDtype, cmp.Or(t.Precision, job.PrecisionAMPBF16), result.Dtype(dtype))
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"base_precision", l.BasePrecision != "" && fields.Named(l.BasePrecision, r.Numerics.Compute,
		pointer+"/base_precision", errs) != r.Numerics.Compute},
		{"dora", l.DoRA}, {"modules_to_save", len(l.ModulesToSave) > 0},
		{"double_quantization", l.Doubles()}, {"upcast_base", l.UpcastBase != nil},
		{"bias", l.Bias != "" && l.Bias != "none"}, {"layers_to_transform", l.LayersToTransform != nil},
		{"rank_pattern", len(l.RankPattern) > 0}, {"alpha_pattern", len(l.AlphaPattern) > 0},
		{"exclude_modules", len(l.ExcludeModules) > 0}, {"use_rslora", l.UseRSLoRA}} {
		if f.given {
			errs.Add(pointer+"/"+f.name, "unsupported", "%s is not modelled with %s; leave it out", f.name, s.Name)
		}
	}
	adapters := model.LoRA{Rank: l.Rank, Dropout: l.Dropped(), Targets: l.TargetModules, Dtype: dtype,
		Half: r.Numerics.Compute, Late: true}
	if len(adapters.Targets) == 0 {
		adapters.Targets = s.targets
	}
	r.Adapted = true
	r.Arch.Adapt(adapters, pointer, errs)
}

// RefuseWithDiffusion names, all at once, what no script of diffusers has or no trace has shown.
func (r Denoiser) RefuseWithDiffusion(j *job.Job, errs *invalid.List) {
	t, m := &j.Training, &j.Model
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
		{"logits_dtype", t.LogitsDtype != ""}, {"hold_logits", t.HoldLogits != nil},
		{"label_smoothing", t.LabelSmoothing != 0}, {"neftune_noise_alpha", t.NEFTuneNoiseAlpha != 0}, {"kernels", len(t.Kernels) > 0},
		{"compile", t.Compile != nil && (t.Compile.Model || t.Compile.Loss)}, {"dropout", t.Dropout != nil},
		{"distributed", t.Distributed != nil && t.Distributed.WorldSize > 1}, {"evaluation", t.Evaluation != nil},
	} {
		if f.given {
			errs.Add("/training/"+f.field, "unsupported", "%s is not modelled with the objective diffusion; leave the "+
				"field out", f.field)
		}
	}
	if r.Framework != Diffusers {
		errs.Add("/training/framework", "unsupported", "the objective diffusion is replayed as the "+
			"scripts of diffusers "+
			"run it, and not as %.40s; diffusers is accepted", r.Framework)
	}
	if j.Model.Head != nil {
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
