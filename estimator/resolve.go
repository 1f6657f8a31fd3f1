package estimator

import (
	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// resolved is a job with every default filled in: its parts. A method stands with the part that is all it needs.
type resolved struct {
	work
	software
	layout
	card
	company
	proof
}

// resolve turns a job document into what the replay needs, or says everything that is wrong with it.
func resolve(in *Input) (*resolved, error) {
	var errs invalid.List
	in.Job = withObjective(job.StoredBase(in.Job), &errs)
	r := answerFor(in, &errs)
	if in.Job.Model.Diffusion != nil || in.Job.Training.ObjectiveKind() == diffusion {
		r.diffusion(in, &errs)
		return r, errs.Err()
	}
	withoutDiffusion(&in.Job, &errs)
	r.arch = architecture(in, &errs)
	r.pictureNotes = picturesByDefault(&in.Job.Training, &r.arch)
	r.recordedVersions()
	r.arch.SetHead(in.Job.Model.Head, "/model/head", &errs)
	r.refuseQuantised(&in.Job, &errs)
	r.training(&in.Job, &errs)
	r.applyVersions()
	unsupported(&in.Job, &errs)
	if in.Job.Training.TargetSequenceLength != 0 && r.arch.Family != "" && !r.arch.TargetTokens() {
		errs.Add("/training/target_sequence_length", "unsupported",
			"%s has no decoder behind an encoder whose length could be given; leave the field out", r.arch.Family)
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	r.classFits(&errs)
	r.lossFits(&errs)
	r.picturesFit(&errs)
	r.bound(&errs)
	r.idleFields(&in.Job.Training)
	if !r.arch.Generic && evidence.Knows(r.arch.Family) {
		r.missing = append(evidence.Missing(r.arch.Family, r.evidence(&in.Job.Training)),
			unshownWords(r.arch.Family, &in.Job.Training)...)
	}
	if r.calibration = in.Calibration; r.calibration != nil {
		r.key = CalibrationKey(&in.Job, r.arch.Family, nil)
	}
	return r, errs.Err()
}

func architecture(in *Input, errs *invalid.List) model.Architecture {
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
func (r *resolved) training(job *Job, errs *invalid.List) {
	t := &job.Training
	r.shape.Batch, r.shape.Tokens = t.MicroBatch*max(r.arch.Choices, 1), t.SequenceLength
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

	r.flash, r.versions = t.Attention == "flash", len(t.Versions) > 0
	r.microSteps = microSteps(t)
	r.loop(t, errs)
	r.writeAsMegatron(t)
	wide := r.wideWithoutFSDP(t)
	asked := precisionOf(&wide, errs)
	r.numerics = r.numericsOf(&wide, asked, errs)
	r.chooseOptimizer(t, errs)
	switch t.Attention {
	case "", "sdpa":
	case "flash":
		r.asked = step.AttentionFlash
	case "eager":
		r.asked = step.AttentionEager
	default:
		errs.Add("/training/attention", "unknown_value", "attention is %.40q; sdpa, flash or eager are accepted",
			t.Attention)
	}
	if t.Attention == "flash" && r.arch.EagerOnly {
		errs.Add("/training/attention", "conflict", "transformers has no flash attention for %s; use eager",
			r.arch.Family)
	}
	if t.Attention == "flash" && r.arch.NoFlash {
		errs.Add("/training/attention", "conflict", "transformers has no flash attention for %s with alibi; "+
			"use sdpa or eager", r.arch.Family)
	}
	if t.Attention == "flash" && asked.compute == step.F32 {
		errs.Add("/training/attention", "conflict", "flash attention computes in half precision, and "+
			"precision is %s; use sdpa", t.Precision)
	}
	if r.arch.NanoGPT() && r.attention() == step.AttentionEager {
		r.arch.BufferSide = r.arch.MaxPositions // the mask that flash attention does without
	}
	r.writeAsTitan(t)
	r.writeAsTorchtune(t)
	r.compilation = r.compilationOf(t)
	if why := r.arch.Uncompiled(); why != "" && t.Compile != nil && t.Compile.Model {
		errs.Add("/training/compile", "unsupported", "%s", why)
	}
	r.recompute = r.checkpointing(t, errs)
	if d := t.Dropout; d != nil {
		if d.Hidden != nil {
			r.arch.SetHiddenDropout(*d.Hidden)
		}
		if d.Attention != nil && !r.arch.UndroppedAttention {
			r.arch.AttentionDropout = *d.Attention
		}
		for _, p := range []*float64{d.Hidden, d.Attention} {
			if p != nil && !(*p >= 0 && *p < 1) {
				errs.Add("/training/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", *p)
			}
		}
	}
	r.padded = r.mask(t, errs)
	r.evaluate(t, errs)
	r.lora(t, errs)
	r.criterion = r.loss(t, errs)
	r.distributed(t, errs)
	if r.flash && r.adapted && r.numerics.Compute == step.F32 && t.Precision != PrecisionFP32 &&
		t.Precision != PrecisionTF32 {
		errs.Add("/training/attention", "conflict", "flash attention takes half precision, and adapters on a base in fp32 "+
			"compute in fp32 without autocast; precision amp-bf16, lora.base_precision bf16 or attention sdpa are accepted")
	}
	r.fused = r.kernels(t, errs)
	r.selectiveFits(errs)
	r.recordedModel(t, errs)
	r.objective = r.pursued(t, errs)
	r.clip = (t.ClipGradNorm == nil || *t.ClipGradNorm) && !r.updatesInBackward
	r.expand = t.Allocator != nil && t.Allocator.ExpandableSegments
}

// microSteps is how many micro-steps an optimizer step has.
func microSteps(t *Training) int64 { return max(t.GradientAccumulation, 1) }

// compilationOf is training.compile. torchtune compiles every layer inside its checkpoint, and the loss where that is
// taken chunk by chunk: the loss that compile_loss makes of another is dropped by its recipes. What Inductor makes of
// adapters, and of layers in float32, was not traced: they are replayed as they run uncompiled.
// Source: torchtune/training/_compile.py, recipes/full_finetune_single_device.py, 0.6.1.
func (r *resolved) compilationOf(t *Training) step.Compilation {
	c := t.Compile
	switch {
	case c == nil:
		return step.Compilation{}
	case rewritten.Torchtune(&r.arch):
		return step.Compilation{CheckpointsAround: c.Model,
			CompileBlocks: c.Model && t.LoRA == nil && r.compilesBlocks(t),
			CompileLoss:   c.Loss && t.Loss != nil && t.Loss.Kind == "chunked"}
	case c.Model && r.compilesBlocks(t):
		return step.Compilation{CompileBlocks: true, CompileLoss: c.Loss}
	}
	return step.Compilation{Compile: c.Model, CompileLoss: c.Loss && !c.Model}
}

var ignoresCheckpointing = of(func(*resolved) bool { return false },
	release.Declare("ignores-checkpointing", release.Change{
		Library: "transformers", From: "4.53", To: "5.0",
		What: "transformers from 4.53 accepts gradient checkpointing for gpt_bigcode and does nothing; 5.0 " +
			"checkpoints again",
		Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock), 4.53.3, 4.57.6, 5.0.0, 5.10.0, 5.14.0, " +
			"5.17.0 and 5.23.0",
		Shown: "traces of gpt_bigcode",
	}))

// checkpointing is what is dropped in forward and made again in backward.
func (r *resolved) checkpointing(t *Training, errs *invalid.List) (made recompute) {
	c := t.GradientCheckpointing
	if rec := recordings.Recording(&r.arch); rec != nil && rec.Checkpoints != "" {
		refuseBesideOwn(rec, c, errs)
		r.arch.CheckpointEvery = 1
		return recompute{mode: "full", every: 1, reentrant: rec.Checkpoints == "reentrant"}
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
	if mode == "full" && r.arch.NeverCheckpoints && r.holds(ignoresCheckpointing) {
		r.hooksEmbeddings = t.LoRA != nil // the hook on the embeddings is put there all the same
		r.idle = append(r.idle, "gradient checkpointing does nothing for "+r.arch.Family+" in "+r.transformers())
		return made
	}
	if r.arch.Uncheckpointed && mode != "" && mode != "none" {
		errs.Add("/training/gradient_checkpointing", "conflict", "transformers has no gradient checkpointing for "+
			"%s, and the trainer stops there; leave the field out", r.arch.Family)
		return made
	}
	if why := r.arch.CheckpointsApart; why != "" && mode != "" && mode != "none" && mode != "full" {
		errs.Add("/training/gradient_checkpointing", "unsupported", "mode %s is not modelled for %s: %s; full is",
			mode, r.arch.Family, why)
		return made
	}
	switch mode {
	case "", "none":
	case selective:
		r.refuseSelective(errs)
		made.mode = mode
	case selectiveOps:
		r.refuseSelectiveOps(errs)
		made = recompute{mode: mode, every: 1}
		r.arch.CheckpointEvery = 1
	case "full":
		if c.Offload && r.arch.Decoder > 0 {
			errs.Add("/training/gradient_checkpointing/offload", "unsupported",
				"offloading is not modelled for an encoder with a decoder; leave it out")
		}
		made = recompute{mode: mode, every: max(every, 1), offload: c.Offload, reentrant: r.reentrant(t, errs)}
		if why := r.arch.CheckpointsApart; why != "" && made.reentrant {
			errs.Add("/training/gradient_checkpointing/reentrant", "unsupported", "reentrant checkpoints are not modelled "+
				"for %s: %s; use_reentrant=False (reentrant: false) is", r.arch.Family, why)
		}
		r.arch.CheckpointEvery = made.every
		if made.every > r.arch.Layers {
			r.arch.CheckpointEvery = 0
		}
	default:
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"gradient_checkpointing %.40q is not modelled yet; none, full, selective and selective-op are", mode)
	}
	return made
}

// unsupported names every field that asks for something that is not modelled yet.
func unsupported(job *Job, errs *invalid.List) {
	t := &job.Training
	refuse := func(field, what string) {
		errs.Add("/training/"+field, "unsupported", "%s not modelled yet; leave the field out", what)
	}
	if t.FP8 != nil {
		refuse("fp8", "fp8 is")
	}
}

// bound refuses jobs whose bytes would not fit into the arithmetic. The largest tensors of a layer and of the
// loss are formed in floating point first, so that no product can wrap around.
func (r *work) bound(errs *invalid.List) {
	const limit = 1e15 // bytes; a thousand terabytes
	a := &r.arch
	tokens := float64(max(r.shape.Tokens, r.shape.Target))
	scores := float64(a.Heads) * tokens * tokens
	perToken := float64(a.Vocabulary) + 2*float64(a.Layers)*(6*float64(a.Hidden)+4*float64(a.FFN+a.ChosenWidth())+
		4*float64(a.Heads)*float64(a.HeadDim))
	adapters, adapted := r.adapterSize()
	check := func(pointer string, batch int64) {
		total := 16 * (float64(batch)*(tokens*(perToken+adapted)+float64(a.Layers)*scores) + adapters)
		if total > limit {
			errs.Add(pointer, "too_large", "micro_batch %d × sequence_length %d would need about %.1e bytes; up to "+
				"%.0e are accepted", batch, r.shape.Tokens, total, limit)
		}
	}
	check("/training", r.shape.Batch*max(r.sequences, 1))
	if r.evaluation != nil {
		check("/training/evaluation", r.evaluation.MicroBatch)
	}
}

// defaultConfidence is what low_bytes…high_bytes cover where the job does not say.
const defaultConfidence = 0.95
