package resolve

import (
	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/denoising"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// answerFor begins an answer with what the job asks of it: the releases, and how sure its bounds shall be.
func answerFor(in *resolved.Input, errs *invalid.List) *resolved.Job {
	r := &resolved.Job{
		Work: resolved.Work{ByNumbers: in.Job.Model.Dimensions != nil},
		Software: resolved.Software{Held: in.Held, Given: in.Job.Training.Versions,
			Stack: release.Assumed(in.Job.Training.Versions), OwnLoop: in.OwnLoop},
		Card: resolved.Card{Confidence: in.Job.Confidence, Reserve: in.Job.ReserveBytes},
	}
	if r.Confidence == 0 {
		r.Confidence = resolved.DefaultConfidence
	}
	if !(r.Confidence >= 0.5 && r.Confidence <= 0.999) {
		errs.Add("/confidence", "out_of_range", "confidence is %g; it is from 0.5 to 0.999", r.Confidence)
	}
	if r.Reserve < 0 {
		errs.Add("/reserve_bytes", "out_of_range", "reserve_bytes is %d; it is 0 or more", r.Reserve)
	}
	return r
}

// Resolve turns a job document into what the replay needs, or says everything that is wrong with it.
func Resolve(in *resolved.Input) (*resolved.Job, error) {
	var errs invalid.List
	in.Job = withObjective(job.StoredBase(withoutDefaults(defaults.Filled(in.Job))), &errs)
	r := answerFor(in, &errs)
	if in.Job.Model.Diffusion != nil || in.Job.Training.ObjectiveKind() == fields.Diffusion {
		On(r).diffusion(in, &errs)
		return r, errs.Err()
	}
	denoising.WithoutDiffusion(&in.Job, &errs)
	r.Arch = architecture(in, &errs)
	r.PictureNotes = picturesByDefault(&in.Job.Training, &r.Arch)
	On(r).recordedVersions()
	r.Arch.SetHead(in.Job.Model.Head, "/model/head", &errs)
	On(r).refuseQuantised(&in.Job, &errs)
	On(r).training(&in.Job, &errs)
	On(r).applyVersions()
	unsupported(&in.Job, &errs)
	if in.Job.Training.TargetSequenceLength != 0 && r.Arch.Family != "" && !r.Arch.TargetTokens() {
		errs.Add("/training/target_sequence_length", "unsupported",
			"%s has no decoder behind an encoder whose length could be given; leave the field out", r.Arch.Family)
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	On(r).classFits(&errs)
	On(r).lossFits(&errs)
	On(r).picturesFit(&errs)
	On(r).bound(&errs)
	On(r).idleFields(&in.Job.Training)
	if !r.Arch.Generic && evidence.Knows(r.Arch.Family) {
		r.Missing = append(evidence.Missing(r.Arch.Family, On(r).evidence(&in.Job.Training)),
			unshownWords(r.Arch.Family, &in.Job.Training)...)
	}
	if r.Calibration = in.Calibration; r.Calibration != nil {
		r.Key = resolved.CalibrationKey(&in.Job, r.Arch.Family, nil)
	}
	return r, errs.Err()
}

func architecture(in *resolved.Input, errs *invalid.List) model.Architecture {
	m := &in.Job.Model
	given := 0
	for _, is := range []bool{m.Preset != "", m.HFConfig != nil, m.NanoGPT != nil, m.Dimensions != nil,
		m.Recorded != nil, m.Diffusion != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		code := "conflict"
		if given == 0 {
			code = "required"
		}
		errs.Add("/model", code, "exactly one of preset, hf_config, nanogpt, dimensions, recorded and "+
			"diffusion is given, here %d are", given)
		return model.Architecture{}
	}
	switch {
	case m.NanoGPT != nil:
		return model.FromNanoGPT(*m.NanoGPT, "/model/nanogpt", errs)
	case m.HFConfig != nil:
		return model.FromHF(m.HFConfig, "/model/hf_config", errs)
	case m.Recorded != nil:
		return model.FromRecording(m.Recorded, "/model/recorded", errs)
	case m.Dimensions != nil:
		return model.FromDimensions(m.Dimensions, "/model/dimensions", errs)
	case in.Preset == nil:
		errs.Add("/model/preset", "unknown_model", "the preset %.100q was not looked up in a catalog", m.Preset)
		return model.Architecture{}
	}
	return model.FromPreset(in.Preset, "/model/preset", errs)
}

// training resolves the training half of the document.
func (r resolver) training(j *job.Job, errs *invalid.List) {
	t := &j.Training
	r.Shape.Batch, r.Shape.Tokens = t.MicroBatch*max(r.Arch.Choices, 1), t.SequenceLength
	positive := func(field string, v int64, zero bool) {
		if v < 0 || v == 0 && !zero || v > 1<<30 {
			least := 1
			if zero {
				least = 0
			}
			errs.Add("/training/"+field, "out_of_range", "%s is %d; it is a whole number from %d to %d", field, v,
				least, 1<<30)
		}
	}
	if t.MicroBatch == 0 {
		errs.Add("/training/micro_batch", "required", "micro_batch is missing: sequences in one forward pass on "+
			"one GPU, at least 1")
	} else {
		positive("micro_batch", t.MicroBatch, false)
	}
	positive("sequence_length", t.SequenceLength, true)
	positive("target_sequence_length", t.TargetSequenceLength, true)
	positive("gradient_accumulation", t.GradientAccumulation, true)
	r.context(t, errs)
	r.vision(t, errs)

	r.Flash, r.Versions = t.Attention == "flash", len(t.Versions) > 0
	r.MicroSteps = microSteps(t)
	r.loop(t, errs)
	strategies.On(r.Job).WriteAsMegatron(t)
	wide := strategies.On(r.Job).WideWithoutFSDP(t)
	asked := fields.PrecisionOf(&wide, errs)
	r.Numerics = r.numericsOf(&wide, asked, errs)
	r.chooseOptimizer(t, errs)
	r.Unsaid = t.Attention == ""
	switch t.Attention {
	case "", "sdpa":
	case "flash":
		r.Asked = step.AttentionFlash
	case "eager":
		r.Asked = step.AttentionEager
	default:
		errs.Add("/training/attention", "unknown_value", "attention is %.40q; sdpa, flash or eager are accepted",
			t.Attention)
	}
	if t.Attention == "flash" && r.Arch.EagerOnly {
		errs.Add("/training/attention", "conflict", "transformers has no flash attention for %s; use eager",
			r.Arch.Family)
	}
	if t.Attention == "flash" && r.Arch.NoFlash {
		errs.Add("/training/attention", "conflict", "transformers has no flash attention for %s with alibi; "+
			"use sdpa or eager", r.Arch.Family)
	}
	if t.Attention == "flash" && asked.Compute == step.F32 {
		errs.Add("/training/attention", "conflict", "flash attention computes in half precision, and "+
			"precision is %s; use sdpa", t.Precision)
	}
	if r.Arch.NanoGPT() && r.Attention() == step.AttentionEager {
		r.Arch.BufferSide = r.Arch.MaxPositions // the mask that flash attention does without
	}
	strategies.On(r.Job).WriteAsTitan(t)
	r.writeAsTorchtune(t)
	r.Compilation = r.compilationOf(t)
	if r.UpdatesInBackward && r.Compilation.Compile {
		errs.Add("/training/optimizer/in_backward", "unsupported",
			"an optimizer in backward is not modelled together with torch.compile yet")
	}
	if why := r.Arch.Uncompiled(); why != "" && t.Compile != nil && t.Compile.Model {
		errs.Add("/training/compile", "unsupported", "%s", why)
	}
	r.Recompute = r.checkpointing(t, errs)
	if d := t.Dropout; d != nil {
		if d.Hidden != nil {
			r.Arch.SetHiddenDropout(*d.Hidden)
		}
		if d.Attention != nil && !r.Arch.UndroppedAttention {
			r.Arch.AttentionDropout = *d.Attention
		}
		for _, p := range []*float64{d.Hidden, d.Attention} {
			if p != nil && !(*p >= 0 && *p < 1) {
				errs.Add("/training/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", *p)
			}
		}
	}
	r.Padded = r.mask(t, errs)
	r.evaluate(t, errs)
	r.lora(t, errs)
	r.freeze(t, errs)
	r.Criterion = r.loss(t, errs)
	strategies.On(r.Job).Distributed(t, errs)
	if r.Flash && r.Adapted && r.Numerics.Compute == step.F32 && t.Precision != job.PrecisionFP32 &&
		t.Precision != job.PrecisionTF32 {
		errs.Add("/training/attention", "conflict", "flash attention takes half precision, and adapters on a base in fp32 "+
			"compute in fp32 without autocast; precision amp-bf16, lora.base_precision bf16 or attention sdpa are accepted")
	}
	r.Fused = r.kernels(t, errs)
	r.selectiveFits(errs)
	r.recordedModel(t, errs)
	r.Objective = objectives.On(r.Job).Pursued(t, errs)
	r.Saves, r.Resumes = r.By.Saves(), t.Resume
	if t.Save != nil {
		r.Saves = *t.Save
	}
	r.Clip = (t.ClipGradNorm == nil || *t.ClipGradNorm) && !r.UpdatesInBackward
	r.Allocator = allocator(t.Allocator, errs)
}

// microSteps is how many micro-steps an optimizer step has.
func microSteps(t *job.Training) int64 { return max(t.GradientAccumulation, 1) }

// compilationOf is training.compile. torchtune compiles every layer inside its checkpoint, and the loss where that is
// taken chunk by chunk: the loss that compile_loss makes of another is dropped by its recipes. What Inductor makes of
// adapters, and of layers in float32, was not traced: they are replayed as they run uncompiled.
// Source: torchtune/training/_compile.py, recipes/full_finetune_single_device.py, 0.6.1.
func (r resolver) compilationOf(t *job.Training) step.Compilation {
	c := t.Compile
	switch {
	case c == nil:
		return step.Compilation{}
	case rewritten.Torchtune(&r.Arch):
		return step.Compilation{CheckpointsAround: c.Model,
			CompileBlocks: c.Model && t.LoRA == nil && strategies.On(r.Job).CompilesBlocks(t),
			CompileLoss:   c.Loss && t.Loss != nil && t.Loss.Kind == "chunked"}
	case c.Model && strategies.On(r.Job).CompilesBlocks(t):
		return step.Compilation{CompileBlocks: true, CompileLoss: c.Loss}
	}
	return step.Compilation{Compile: c.Model, CompileLoss: c.Loss && !c.Model}
}

var ignoresCheckpointing = resolved.Of(func(*resolved.Job) bool { return false },
	release.Declare("ignores-checkpointing", release.Change{
		Library: "transformers", From: "4.53", To: "5.0",
		What: "transformers from 4.53 accepts gradient checkpointing for gpt_bigcode and does nothing; 5.0 " +
			"checkpoints again",
		Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock), 4.53.3, 4.57.6, 5.0.0, 5.10.0, 5.14.0, " +
			"5.17.0 and 5.23.0",
		Shown: "traces of gpt_bigcode",
	}))

// checkpointing is what is dropped in forward and made again in backward.
func (r resolver) checkpointing(t *job.Training, errs *invalid.List) (made resolved.Recompute) {
	c := t.GradientCheckpointing
	if rec := recordings.Recording(&r.Arch); rec != nil && rec.Checkpoints != "" {
		refuseBesideOwn(rec, c, errs)
		r.Arch.CheckpointEvery = 1
		return resolved.Recompute{Mode: "full", Every: 1, Reentrant: rec.Checkpoints == "reentrant"}
	}
	if c == nil {
		return made
	}
	mode, every := c.Mode, c.Every
	if mode == "" && (every != 0 || c.Offload || c.Reentrant != nil) {
		mode = "full"
	}
	if every < 0 {
		errs.Add("/training/gradient_checkpointing/every", "out_of_range", "every is %d; it is from 1", every)
		return made
	}
	if mode != "full" && (every != 0 || c.Offload || c.Reentrant != nil) {
		errs.Add("/training/gradient_checkpointing", "conflict",
			"every, offload and reentrant go with the mode full, and the mode is %.40q", mode)
		return made
	}
	if mode == "full" && r.Arch.NeverCheckpoints && r.Holds(ignoresCheckpointing) {
		r.HooksEmbeddings = t.LoRA != nil // the hook on the embeddings is put there all the same
		r.Idle = append(r.Idle, "gradient checkpointing does nothing for "+r.Arch.Family+" in "+r.Transformers())
		return made
	}
	if r.Arch.Uncheckpointed && mode != "" && mode != "none" {
		errs.Add("/training/gradient_checkpointing", "conflict", "transformers has no gradient checkpointing for "+
			"%s, and the trainer stops there; none is accepted", r.Arch.Family)
		return made
	}
	if why := r.Arch.CheckpointsApart; why != "" && mode != "" && mode != "none" && mode != "full" {
		errs.Add("/training/gradient_checkpointing", "unsupported", "mode %s is not modelled for %s: %s; full is",
			mode, r.Arch.Family, why)
		return made
	}
	switch mode {
	case "", "none":
	case resolved.Selective:
		r.refuseSelective(errs)
		made.Mode = mode
	case resolved.SelectiveOps:
		r.refuseSelectiveOps(errs)
		made = resolved.Recompute{Mode: mode, Every: 1}
		r.Arch.CheckpointEvery = 1
	case "full":
		if c.Offload && r.Arch.Decoder > 0 {
			errs.Add("/training/gradient_checkpointing/offload", "unsupported",
				"offloading is not modelled for an encoder with a decoder; leave it out")
		}
		made = resolved.Recompute{Mode: mode, Every: max(every, 1), Offload: c.Offload, Reentrant: r.reentrant(t, errs)}
		if why := r.Arch.CheckpointsApart; why != "" && made.Reentrant {
			errs.Add("/training/gradient_checkpointing/reentrant", "unsupported", "reentrant checkpoints are not modelled "+
				"for %s: %s; use_reentrant=False (reentrant: false) is", r.Arch.Family, why)
		}
		r.Arch.CheckpointEvery = made.Every
		if made.Every > r.Arch.Layers {
			r.Arch.CheckpointEvery = 0
		}
	default:
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"gradient_checkpointing %.40q is not modelled yet; none, full, selective and selective-op are", mode)
	}
	return made
}

// unsupported names every field that asks for something that is not modelled yet.
func unsupported(j *job.Job, errs *invalid.List) {
	t := &j.Training
	refuse := func(field, what string) {
		errs.Add("/training/"+field, "unsupported", "%s not modelled yet; leave the field out", what)
	}
	if t.FP8 != nil {
		refuse("fp8", "fp8 is")
	}
}

// bound refuses jobs whose bytes would not fit into the arithmetic. The largest tensors of a layer and of the
// loss are formed in floating point first, so that no product can wrap around.
func (r resolver) bound(errs *invalid.List) {
	const limit = 1e15 // bytes; a thousand terabytes
	a := &r.Arch
	tokens := float64(max(r.Shape.Tokens, r.Shape.Target))
	scores := float64(a.Heads) * tokens * tokens
	perToken := float64(a.Vocabulary) + 2*float64(a.Layers)*(6*float64(a.Hidden)+4*float64(a.FFN+a.ChosenWidth())+
		4*float64(a.Heads)*float64(a.HeadDim))
	adapters, adapted := r.adapterSize()
	check := func(pointer string, batch int64) {
		total := 16 * (float64(batch)*(tokens*(perToken+adapted)+float64(a.Layers)*scores) + adapters)
		if total > limit {
			errs.Add(pointer, "too_large", "micro_batch %d × sequence_length %d would need about %.1e bytes; up to "+
				"%.0e are accepted", batch, r.Shape.Tokens, total, limit)
		}
	}
	check("/training", r.Shape.Batch*max(r.Sequences, 1))
	if r.Evaluation != nil {
		check("/training/evaluation", r.Evaluation.MicroBatch)
	}
}
