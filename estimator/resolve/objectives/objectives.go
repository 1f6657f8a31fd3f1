package objectives

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// FormerTRL is the release that is followed for the trainers that were not looked at in a later one, where a job names
// none.
const FormerTRL = "0.26.2"

// trainer is what a kind of training needs and how it is replayed.
type trainer struct {
	// Pairs: prompts and completions are given in their own lengths.
	Pairs bool
	// Fields are those of the objective that the kind reads besides its lengths.
	Fields []string
	// Until is the first release of trl that the replay is not of; "" is none.
	Until string
	// Undropped says that the trainer switches dropout off (disable_dropout), that of adapters, too.
	Undropped bool
	// generations is how many completions are written for a prompt, and beta how the divergence is weighed, where the
	// job does not say. Sources: trl/trainer/grpo_config.py and rloo_config.py (num_generations, beta), gkd_config.py
	// (beta), 0.26.
	generations int64
	beta        float64
	// sequences is how many of them a micro-batch of one has.
	sequences int64
	build     func(r Pursuer, t *job.Training, errs *invalid.List) step.Objective
}

// generated are the fields of trainers that write completions.
var generated = []string{"num_generations", "beta", "num_iterations", "steps_per_generation", "rollout",
	"vllm_gpu_memory_utilization", "vllm_sleep"}

// Trainers are the kinds that are replayed.
var Trainers = map[string]trainer{
	"sft": {sequences: 1, Fields: []string{"loss_type", "packing", "packing_strategy", "padding_free"},
		build: Pursuer.sft},
	"orpo":  {sequences: 2, Pairs: true, Undropped: true, build: Pursuer.likelihoods},
	"cpo":   {sequences: 2, Pairs: true, Undropped: true, build: Pursuer.likelihoods},
	"simpo": {sequences: 2, Pairs: true, Undropped: true, build: Pursuer.simpo},
	"kto": {sequences: 1, Pairs: true, Undropped: true, build: Pursuer.kto,
		Fields: []string{"reference", "reference_dtype", "reference_resident", "loss_type"}},
	"grpo": {sequences: 1, generations: 8, Pairs: true, Fields: append(slices.Clone(generated), "loss_type"),
		build: Pursuer.grpo},
	"rloo": {sequences: 1, generations: 2, beta: 0.05, Pairs: true, Fields: generated, build: Pursuer.rloo},
	"ppo": {
		sequences: 1,
		Pairs:     true,
		Undropped: true,
		Until:     "1.0",
		Fields:    []string{"rollout_forward_batch", "rollout"},
		build:     Pursuer.ppo,
	},
	"gkd":    {sequences: 1, beta: 0.5, Undropped: true, Fields: []string{"teacher", "teacher_dtype", "beta"}, build: Pursuer.gkd},
	"reward": {sequences: 2, Undropped: true, build: Pursuer.reward},
	"dpo": {sequences: 2, Undropped: true, Pairs: true, Fields: []string{"reference", "reference_dtype",
		"reference_resident", "loss_type", "use_logits_to_keep", "padding_free"}, build: Pursuer.dpo},
}

// Pursued is training.objective; nil is the loss that the model returns. It comes last: it asks for what the other
// fields have decided.
func (r Pursuer) Pursued(t *job.Training, errs *invalid.List) step.Objective {
	kind := t.ObjectiveKind()
	switch kind {
	case job.LanguageModel:
		return r.superviseAlone(t)
	case fields.VisionLanguage:
		return nil
	case Contrastive:
		return r.contrasts(t, errs)
	}
	refuse := func(is bool, pointer, format string, args ...any) {
		if is {
			errs.Add(pointer, "unsupported", format, args...)
		}
	}
	how, ok := Trainers[kind]
	if !ok {
		refuse(true, fields.ObjectivePointer+"/kind", "the kind of training %.40q is not modelled yet; %s are", kind,
			fields.Listed(Trainers))
		return nil
	}
	refuse(t.Framework != "trl", "/training/framework", "the objective %s is replayed as trl's trainer runs it, and "+
		"not as %.40s's; trl is accepted", kind, t.Framework)
	r.shareObjective(kind, t, refuse)
	refuse(r.Compilation.Compiles(), "/training/compile",
		"torch.compile is not modelled together with the objective %s; leave one of them out", kind)
	refuse(t.Evaluation != nil && t.Evaluation.KeepLogits, "/training/evaluation/keep_logits", "an evaluation of the "+
		"objective %s is modelled without compute_metrics, whose trainer then asks for the loss alone; leave the field "+
		"out", kind)
	refuse(t.Loss != nil && t.Loss.Kind != "standard" && t.Loss.Kind != "" && !r.ligersSFT(t), "/training/loss",
		"the objective %s has a loss of its own; leave the field out (SFTTrainer before trl 1.15 has Liger's with "+
			"use_liger_kernel: fused-linear)", kind)
	refuse(t.HoldLogits != nil, "/training/hold_logits", "the trainer of the objective %s decides what it keeps; "+
		"leave the field out", kind)
	refuse(t.LogitsDtype != "", "/training/logits_dtype", "the trainer of the objective %s decides the type of the "+
		"logits; leave the field out", kind)
	scored := kind == "reward" && r.Arch.Scores()
	refuse(r.Arch.Family != "" && !r.Arch.LanguageModel() && !scored, "/model",
		"the objective %s is modelled for decoders with a language-model head, and not for %s as it is given", kind,
		r.Arch.Family)
	how.lengths(kind, t.Objective, errs)
	fields.Unread(how.Fields, kind, t.Objective, errs)
	const most = 1 << 12
	if sequences := how.sequences * t.MicroBatch; sequences > most {
		errs.Add("/training/micro_batch", "out_of_range", "micro_batch is %d; with the objective %s it is from 1 to %d",
			t.MicroBatch, kind, most/how.sequences)
		return nil
	}
	if v := r.TRLRelease(); how.Until != "" {
		until, _ := release.Parse(how.Until)
		refuse(!v.Before(until), "/training/versions", "the objective %s is modelled as trl before %s runs it, and "+
			"here it is %s; name the release in training.versions.trl", kind, how.Until, r.TRLVersion())
	}
	r.Sequences = how.sequences
	if how.Undropped {
		r.Arch.SetHiddenDropout(0)
		r.Arch.AttentionDropout = 0
	}
	built := how.build(r, t, errs)
	_, evaluates := built.(step.Evaluable)
	refuse(
		t.Evaluation != nil && !evaluates,
		"/training/evaluation",
		"an evaluation pass is not modelled together with "+
			"the objective %s; leave one of them out",
		kind,
	)
	return built
}

// lengths asks for the lengths that a kind cannot do without.
func (how *trainer) lengths(kind string, o *job.Objective, errs *invalid.List) {
	if !how.Pairs {
		return
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"prompt_tokens", o.PromptTokens}, {"completion_tokens", o.CompletionTokens}} {
		if f.value == 0 {
			errs.Add(fields.ObjectivePointer+"/"+f.name, "required",
				"%s is missing: the objective %s has prompts and completions, at least one token each", f.name, kind)
		}
	}
}

// sft is trl's SFTTrainer. Packing of whole documents, and padding_free, make one row of the batch, whose attention
// sdpa masks. Source: trl/trainer/sft_trainer.py (SFTTrainer.__init__, padding_free), 0.26 and 1.16.
func (r Pursuer) sft(t *job.Training, errs *invalid.List) step.Objective {
	o := t.Objective
	s := objective.SFT{Rows: r.Shape.Batch, Sequences: r.Shape.Batch, Tokens: r.Shape.Tokens,
		Fused: r.chunksSFT(o, errs)}
	if s.Liger = r.ligersSFT(t); s.Liger { // the default of 1.7 to 1.14 is nll then
		s.Fused = false
	}
	if o.PaddingFree || o.Packing && o.PackingStrategy != wrapped {
		if t.AttentionMask == "explicit" {
			errs.Add("/training/attention_mask", "conflict", "a batch without padding has no mask; leave the field out")
		}
		r.Shape.Batch, r.Shape.Tokens = 1, r.Shape.N()
		s.Rows, s.Tokens, s.Packed = 1, r.Shape.Tokens, true
	}
	return s
}

// ligersSFT says that SFTTrainer runs with use_liger_kernel, whose model takes the head into the loss. From 1.15 on its
// own loss takes the head, and Liger's kernels are those of the layers alone.
// Source: trl/trainer/sft_trainer.py (SFTTrainer.compute_loss), 0.26 and 1.16.
func (r Pursuer) ligersSFT(t *job.Training) bool {
	return t.ObjectiveKind() == "sft" && t.Loss != nil && t.Loss.Kind == "fused-linear" &&
		!r.Holds(resolved.FusesTRLHead)
}

var chunksSFTLoss = resolved.Of(func(r *resolved.Job) bool {
	return r.Objective != nil
}, release.Declare("chunks-sft-loss", release.Change{
	Library: "trl", From: "1.7",
	What: "SFTTrainer of trl from 1.7 on computes its loss in chunks, without logits, where " +
		"loss_type is not given",
	Source: "trainer/sft_config.py (loss_type), 1.7 and 1.16", Shown: "traces of SFTTrainer with trl 1.16",
}))

// chunksSFT says whether SFTTrainer computes its loss without logits.
func (r Pursuer) chunksSFT(o *job.Objective, errs *invalid.List) bool {
	always, byDefault := r.Holds(resolved.FusesTRLHead), r.Holds(chunksSFTLoss)
	chunks := byDefault
	accepted := "nll is"
	switch {
	case always:
		accepted = "nll and dft are"
	case byDefault:
		accepted = "nll and chunked_nll are"
	}
	for _, name := range o.LossType {
		switch {
		case name == "nll":
			chunks = always
		case name == "dft" && always, name == "chunked_nll" && byDefault && !always:
			chunks = true
		default:
			errs.Add(fields.ObjectivePointer+"/loss_type", "unsupported",
				"the loss type %.40q is not modelled for sft in trl %s; %s", name, r.TRLVersion(), accepted)
		}
	}
	r.fits(chunks, errs)
	return chunks
}

// fusesPreferences says whether the trainers of preferences compute log-probabilities without logits.
func (r Pursuer) fusesPreferences(errs *invalid.List) bool {
	fuses := r.rewritten(errs)
	r.fits(fuses, errs)
	return fuses
}

// rewritten says whether the trainers of preferences are those of 1.15 and later. Between 1.0, which wrote them anew,
// and 1.15 nobody has looked.
func (r Pursuer) rewritten(errs *invalid.List) bool {
	fuses := r.Holds(resolved.FusesTRLHead)
	anew, _ := release.Parse("1.0")
	if !fuses && !r.TRLRelease().Before(anew) {
		errs.Add("/training/versions", "unsupported", "preferences are modelled as trl before 1.0 and from 1.15 on "+
			"runs them, and here it is %s; name the release in training.versions.trl", r.TRLVersion())
	}
	return fuses
}

// fits refuses trl's fused head where the model's is more than a matrix.
func (r Pursuer) fits(fused bool, errs *invalid.List) {
	if fused && r.Arch.Family != "" && (!r.Arch.MatrixHead() || r.Arch.AdaptedHead()) {
		errs.Add("/model", "unsupported", "trl's fused head is modelled for models whose logits are the output of one "+
			"matrix, without an adapter on it; name a release before 1.7 in training.versions.trl")
	}
}

// dpo is trl's DPOTrainer.
func (r Pursuer) dpo(t *job.Training, errs *invalid.List) step.Objective {
	o := t.Objective
	d := objective.DPO{Preference: preference(t),
		Reference: r.reference(t, errs), KeepsCompletion: o.UseLogitsToKeep, Fused: r.fusesPreferences(errs)}
	for _, name := range o.LossType {
		switch {
		case name == "sft" || name == "rpo":
			d.NLL = true
		case !slices.Contains(sameCost, name):
			errs.Add(fields.ObjectivePointer+"/loss_type", "unsupported",
				"the loss type %.40q is not modelled for dpo; sft, rpo and %v are", name, sameCost)
		}
	}
	r.flattens(t, &d, errs)
	return d
}

// flattens is padding_free of DPOTrainer, which the one of 1.15 and later has for a word that it warns of and passes
// over. Source: trl/trainer/dpo_trainer.py (concatenated_forward, 0.26; DPOTrainer.__init__, 1.16).
func (r Pursuer) flattens(t *job.Training, d *objective.DPO, errs *invalid.List) {
	switch o := t.Objective; {
	case !o.PaddingFree:
	case d.Fused:
		r.Idle = append(r.Idle, "padding_free does nothing under DPOTrainer of trl "+r.TRLVersion()+
			", which pads as without it")
	case o.UseLogitsToKeep:
		errs.Add(fields.ObjectivePointer+"/padding_free", "conflict", "DPOTrainer fails with padding_free and "+
			"use_logits_to_keep together: the logits that it keeps are of all sequences' last tokens; leave one of them out")
	case t.AttentionMask == "explicit":
		errs.Add("/training/attention_mask", "conflict", "a batch without padding has no mask; leave the field out")
	default:
		d.OneRow = true
	}
}

// sameCost are the losses of DPOTrainer that are computed of the log-probabilities alone.
// Source: trl/trainer/dpo_trainer.py (DPOTrainer.dpo_loss), 0.26.
var sameCost = []string{"sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot",
	"aot_pair", "apo_zero", "apo_down", "discopop"}

// reference is what the preferences are measured by, and puts a model beside the trained one where it is one of its
// own.
func (r Pursuer) reference(t *job.Training, errs *invalid.List) objective.Reference {
	o := t.Objective
	adapters := t.LoRA != nil
	kind := o.Reference
	switch {
	case kind == "adapter-off" && !adapters:
		errs.Add(
			fields.ObjectivePointer+"/reference",
			"conflict",
			"adapter-off turns adapters off, and the job trains none; "+
				"separate and precomputed are accepted",
		)
	case kind == "separate" && adapters:
		errs.Add(
			fields.ObjectivePointer+"/reference",
			"conflict",
			"trl takes no reference model beside adapters: the model "+
				"without them is the reference; adapter-off and precomputed are accepted",
		)
	case o.ReferenceResident && kind != "precomputed":
		errs.Add(fields.ObjectivePointer+"/reference_resident", "conflict",
			"reference_resident says that a reference stays though its log-probabilities are precomputed, "+
				"and reference is %s", kind)
	}
	stands := kind == "separate" || kind == "precomputed" && o.ReferenceResident
	if o.ReferenceDtype != "" && !stands {
		errs.Add(fields.ObjectivePointer+"/reference_dtype", "conflict",
			"reference_dtype is the type of a model that stands beside the trained one, and there is none")
	}
	loaded := r.loadedType()
	dtype := r.besideType(fields.Named(o.ReferenceDtype, loaded, fields.ObjectivePointer+"/reference_dtype", errs))
	if f, dealt := r.Parallel.(*strategies.FSDP); dealt { // whose passes are in the type that everything is gathered in
		f.Beside, loaded = dtype, dtype
	}
	if kind == "separate" && dtype != loaded {
		r.Beside = append(
			r.Beside,
			resolved.Companion{Name: resolved.ReferenceName, Arch: r.Arch, Dtype: dtype, Passed: true},
		)
		return objective.Passed
	}
	if stands {
		r.Beside = append(r.Beside, resolved.Companion{Name: resolved.ReferenceName, Arch: r.Arch, Dtype: dtype})
	}
	return map[string]objective.Reference{"separate": objective.Separate, "adapter-off": objective.AdapterOff,
		"precomputed": objective.Precomputed}[kind]
}
