package estimator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// referenceName is what the model is for that preferences are measured by.
const referenceName = "reference"

const objectivePointer = "/training/objective"

// withObjective is the job with what its objective says of other fields, and the defaults of the trainer: the length of
// a sequence, the framework, and gradient checkpointing, which trl's trainers switch on where nothing is said. Sources:
// trl/trainer/sft_config.py, dpo_config.py (gradient_checkpointing), 0.26; trl/trainer/base_config.py, 1.16.
func withObjective(j Job, errs *invalid.List) Job {
	t := &j.Training
	if o := t.Objective; o != nil && o.Kind == "" && t.Framework == "trl" { // whose trainer it is, then
		named := *o
		named.Kind = "sft"
		t.Objective = &named
	}
	kind := t.ObjectiveKind()
	if kind == job.LanguageModel || kind == visionLanguage || kind == diffusion {
		return j
	}
	if kind == contrastive {
		t.Framework = cmp.Or(t.Framework, sentenceTransformers)
		return baseModel(j)
	}
	o := t.Objective
	if sum := o.PromptTokens + o.CompletionTokens; o.PromptTokens > 0 && o.CompletionTokens > 0 {
		if t.SequenceLength != 0 && t.SequenceLength != sum {
			errs.Add("/training/sequence_length", "conflict",
				"sequence_length is %d, and prompt_tokens and completion_tokens of the objective are %d together; "+
					"leave one of them out", t.SequenceLength, sum)
		}
		t.SequenceLength = sum
	}
	if t.GradientCheckpointing == nil && kind != ppoKind {
		t.GradientCheckpointing = &Checkpointing{Mode: "full"}
	}
	t.Framework = cmp.Or(t.Framework, "trl")
	if trainers[kind].undropped && t.LoRA != nil && t.LoRA.Dropout < 1 { // adapters' dropout is a module like others
		adapters := *t.LoRA
		adapters.Dropout = min(adapters.Dropout, 0)
		t.LoRA = &adapters
	}
	if _, named := t.Versions["trl"]; !named && trainers[kind].until != "" {
		t.Versions = maps.Clone(t.Versions)
		if t.Versions == nil {
			t.Versions = map[string]string{}
		}
		t.Versions["trl"] = formerTRL
	}
	return j
}

// formerTRL is the release that is followed for the trainers that were not looked at in a later one, where a job names
// none.
const formerTRL = "0.26.2"

// trainer is what a kind of training needs and how it is replayed.
type trainer struct {
	// pairs: prompts and completions are given in their own lengths.
	pairs bool
	// fields are those of the objective that the kind reads besides its lengths.
	fields []string
	// until is the first release of trl that the replay is not of; "" is none.
	until string
	// undropped says that the trainer switches dropout off (disable_dropout), that of adapters, too.
	undropped bool
	// sequences is how many of them a micro-batch of one has.
	sequences int64
	build     func(r *resolved, t *Training, errs *invalid.List) step.Objective
}

// generated are the fields of trainers that write completions.
var generated = []string{"num_generations", "beta", "num_iterations", "steps_per_generation", "rollout",
	"vllm_gpu_memory_utilization", "vllm_sleep"}

// trainers are the kinds that are replayed.
var trainers = map[string]trainer{
	"sft": {sequences: 1, fields: []string{"loss_type", "packing", "packing_strategy", "padding_free"},
		build: (*resolved).sft},
	"orpo":  {sequences: 2, pairs: true, undropped: true, build: (*resolved).likelihoods},
	"cpo":   {sequences: 2, pairs: true, undropped: true, build: (*resolved).likelihoods},
	"simpo": {sequences: 2, pairs: true, undropped: true, build: (*resolved).simpo},
	"kto": {sequences: 1, pairs: true, undropped: true, build: (*resolved).kto,
		fields: []string{"reference", "reference_dtype", "reference_resident", "loss_type"}},
	"grpo": {sequences: 1, pairs: true, fields: append(slices.Clone(generated), "loss_type"),
		build: (*resolved).grpo},
	"rloo": {sequences: 1, pairs: true, fields: generated, build: (*resolved).rloo},
	"ppo": {sequences: 1, pairs: true, undropped: true, until: "1.0", fields: []string{"rollout_forward_batch", "rollout"},
		build: (*resolved).ppo},
	"gkd":    {sequences: 1, undropped: true, fields: []string{"teacher", "teacher_dtype", "beta"}, build: (*resolved).gkd},
	"reward": {sequences: 2, undropped: true, build: (*resolved).reward},
	"dpo": {sequences: 2, undropped: true, pairs: true, fields: []string{"reference", "reference_dtype",
		"reference_resident", "loss_type", "use_logits_to_keep", "padding_free"}, build: (*resolved).dpo},
}

// pursued is training.objective; nil is the loss that the model returns. It comes last: it asks for what the other
// fields have decided.
func (r *resolved) pursued(t *Training, errs *invalid.List) step.Objective {
	kind := t.ObjectiveKind()
	switch kind {
	case job.LanguageModel:
		return r.superviseAlone(t)
	case visionLanguage:
		return nil
	case contrastive:
		return r.contrasts(t, errs)
	}
	refuse := func(is bool, pointer, format string, args ...any) {
		if is {
			errs.Add(pointer, "unsupported", format, args...)
		}
	}
	how, ok := trainers[kind]
	if !ok {
		refuse(true, objectivePointer+"/kind", "the kind of training %.40q is not modelled yet; %s are", kind,
			listed(trainers))
		return nil
	}
	refuse(t.Framework != "trl", "/training/framework", "the objective %s is replayed as trl's trainer runs it, and "+
		"not as %.40s's; trl is accepted", kind, t.Framework)
	r.shareObjective(kind, t, refuse)
	refuse(r.compilation.Compiles(), "/training/compile",
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
	scored := kind == "reward" && r.arch.Scores()
	refuse(r.arch.Family != "" && !r.arch.LanguageModel() && !scored, "/model",
		"the objective %s is modelled for decoders with a language-model head, and not for %s as it is given", kind,
		r.arch.Family)
	how.lengths(kind, t.Objective, errs)
	how.unread(kind, t.Objective, errs)
	const most = 1 << 12
	if sequences := how.sequences * t.MicroBatch; sequences > most {
		errs.Add("/training/micro_batch", "out_of_range", "micro_batch is %d; with the objective %s it is from 1 to %d",
			t.MicroBatch, kind, most/how.sequences)
		return nil
	}
	if v := r.trlRelease(); how.until != "" {
		until, _ := release.Parse(how.until)
		refuse(!v.Before(until), "/training/versions", "the objective %s is modelled as trl before %s runs it, and "+
			"here it is %s; name the release in training.versions.trl", kind, how.until, r.trlVersion())
	}
	r.sequences = how.sequences
	if how.undropped {
		r.arch.SetHiddenDropout(0)
		r.arch.AttentionDropout = 0
	}
	built := how.build(r, t, errs)
	_, evaluates := built.(step.Evaluable)
	refuse(t.Evaluation != nil && !evaluates, "/training/evaluation", "an evaluation pass is not modelled together with "+
		"the objective %s; leave one of them out", kind)
	return built
}

// lengths asks for the lengths that a kind cannot do without.
func (how *trainer) lengths(kind string, o *Objective, errs *invalid.List) {
	if !how.pairs {
		return
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"prompt_tokens", o.PromptTokens}, {"completion_tokens", o.CompletionTokens}} {
		if f.value == 0 {
			errs.Add(objectivePointer+"/"+f.name, "required",
				"%s is missing: the objective %s has prompts and completions, at least one token each", f.name, kind)
		}
	}
}

// unread refuses what is said of other kinds.
func (how *trainer) unread(kind string, o *Objective, errs *invalid.List) {
	for _, f := range o.Given() {
		if !slices.Contains(how.fields, f) {
			errs.Add(objectivePointer+"/"+f, "conflict", "%s does not belong to the objective %s; leave it out", f,
				kind)
		}
	}
}

// trlVersion is the same as it is written.
func (r *software) trlVersion() string { return cmp.Or(r.given["trl"], r.defaults()["trl"]) }

// trlRelease is the release of trl whose trainers are replayed.
func (r *software) trlRelease() release.Version { return r.releaseOf("trl", r.defaults()) }

// sft is trl's SFTTrainer. Packing of whole documents, and padding_free, make one row of the batch, whose attention
// sdpa masks. Source: trl/trainer/sft_trainer.py (SFTTrainer.__init__, padding_free), 0.26 and 1.16.
func (r *resolved) sft(t *Training, errs *invalid.List) step.Objective {
	o := t.Objective
	s := objective.SFT{Rows: r.shape.Batch, Sequences: r.shape.Batch, Tokens: r.shape.Tokens,
		Fused: r.chunksSFT(o, errs)}
	if s.Liger = r.ligersSFT(t); s.Liger { // the default of 1.7 to 1.14 is nll then
		s.Fused = false
	}
	if o.PaddingFree || o.Packing && o.PackingStrategy != "wrapped" {
		if t.AttentionMask == "explicit" {
			errs.Add("/training/attention_mask", "conflict", "a batch without padding has no mask; leave the field out")
		}
		r.shape.Batch, r.shape.Tokens = 1, r.shape.N()
		s.Rows, s.Tokens, s.Packed = 1, r.shape.Tokens, true
	}
	return s
}

var fusesTRLHead = of(func(r *resolved) bool {
	return r.objective != nil
}, release.Declare("fuses-trl-head", release.Change{
	Library: "trl", After: "1.13", From: "1.15",
	What: "trl from 1.15 on computes log-probabilities in SFTTrainer, DPOTrainer and " +
		"GRPOTrainer without logits",
	Source: "trainer/utils.py (add_fused_lm_head), 1.16.0",
	Shown:  "traces of SFTTrainer and DPOTrainer with trl 1.16",
}))

// ligersSFT says that SFTTrainer runs with use_liger_kernel, whose model takes the head into the loss. From 1.15 on its
// own loss takes the head, and Liger's kernels are those of the layers alone.
// Source: trl/trainer/sft_trainer.py (SFTTrainer.compute_loss), 0.26 and 1.16.
func (r *software) ligersSFT(t *Training) bool {
	return t.ObjectiveKind() == "sft" && t.Loss != nil && t.Loss.Kind == "fused-linear" && !r.holds(fusesTRLHead)
}

var chunksSFTLoss = of(func(r *resolved) bool {
	return r.objective != nil
}, release.Declare("chunks-sft-loss", release.Change{
	Library: "trl", From: "1.7",
	What: "SFTTrainer of trl from 1.7 on computes its loss in chunks, without logits, where " +
		"loss_type is not given",
	Source: "trainer/sft_config.py (loss_type), 1.7 and 1.16", Shown: "traces of SFTTrainer with trl 1.16",
}))

// chunksSFT says whether SFTTrainer computes its loss without logits.
func (r *resolved) chunksSFT(o *Objective, errs *invalid.List) bool {
	always, byDefault := r.holds(fusesTRLHead), r.holds(chunksSFTLoss)
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
			errs.Add(objectivePointer+"/loss_type", "unsupported",
				"the loss type %.40q is not modelled for sft in trl %s; %s", name, r.trlVersion(), accepted)
		}
	}
	r.fits(chunks, errs)
	return chunks
}

// fusesPreferences says whether the trainers of preferences compute log-probabilities without logits.
func (r *resolved) fusesPreferences(errs *invalid.List) bool {
	fuses := r.rewritten(errs)
	r.fits(fuses, errs)
	return fuses
}

// rewritten says whether the trainers of preferences are those of 1.15 and later. Between 1.0, which wrote them anew,
// and 1.15 nobody has looked.
func (r *software) rewritten(errs *invalid.List) bool {
	fuses := r.holds(fusesTRLHead)
	anew, _ := release.Parse("1.0")
	if !fuses && !r.trlRelease().Before(anew) {
		errs.Add("/training/versions", "unsupported", "preferences are modelled as trl before 1.0 and from 1.15 on "+
			"runs them, and here it is %s; name the release in training.versions.trl", r.trlVersion())
	}
	return fuses
}

// fits refuses trl's fused head where the model's is more than a matrix.
func (r *work) fits(fused bool, errs *invalid.List) {
	if fused && r.arch.Family != "" && (!r.arch.MatrixHead() || r.arch.AdaptedHead()) {
		errs.Add("/model", "unsupported", "trl's fused head is modelled for models whose logits are the output of one "+
			"matrix, without an adapter on it; name a release before 1.7 in training.versions.trl")
	}
}

// dpo is trl's DPOTrainer.
func (r *resolved) dpo(t *Training, errs *invalid.List) step.Objective {
	o := t.Objective
	d := objective.DPO{Preference: preference(t),
		Reference: r.reference(t, errs), KeepsCompletion: o.UseLogitsToKeep, Fused: r.fusesPreferences(errs)}
	for _, name := range o.LossType {
		switch {
		case name == "sft" || name == "rpo":
			d.NLL = true
		case !slices.Contains(sameCost, name):
			errs.Add(objectivePointer+"/loss_type", "unsupported",
				"the loss type %.40q is not modelled for dpo; sft, rpo and %v are", name, sameCost)
		}
	}
	r.flattens(t, &d, errs)
	return d
}

// flattens is padding_free of DPOTrainer, which the one of 1.15 and later has for a word that it warns of and passes
// over. Source: trl/trainer/dpo_trainer.py (concatenated_forward, 0.26; DPOTrainer.__init__, 1.16).
func (r *resolved) flattens(t *Training, d *objective.DPO, errs *invalid.List) {
	switch o := t.Objective; {
	case !o.PaddingFree:
	case d.Fused:
		r.idle = append(r.idle, "padding_free does nothing under DPOTrainer of trl "+r.trlVersion()+
			", which pads as without it")
	case o.UseLogitsToKeep:
		errs.Add(objectivePointer+"/padding_free", "conflict", "DPOTrainer fails with padding_free and "+
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
func (r *resolved) reference(t *Training, errs *invalid.List) objective.Reference {
	o := t.Objective
	adapters := t.LoRA != nil
	kind := o.Reference
	if kind == "" {
		kind = "separate"
		if adapters {
			kind = "adapter-off"
		}
	}
	switch {
	case kind == "adapter-off" && !adapters:
		errs.Add(objectivePointer+"/reference", "conflict", "adapter-off turns adapters off, and the job trains none; "+
			"separate and precomputed are accepted")
	case kind == "separate" && adapters:
		errs.Add(objectivePointer+"/reference", "conflict", "trl takes no reference model beside adapters: the model "+
			"without them is the reference; adapter-off and precomputed are accepted")
	case o.ReferenceResident && kind != "precomputed":
		errs.Add(objectivePointer+"/reference_resident", "conflict",
			"reference_resident says that a reference stays though its log-probabilities are precomputed, "+
				"and reference is %s", kind)
	}
	stands := kind == "separate" || kind == "precomputed" && o.ReferenceResident
	if o.ReferenceDtype != "" && !stands {
		errs.Add(objectivePointer+"/reference_dtype", "conflict",
			"reference_dtype is the type of a model that stands beside the trained one, and there is none")
	}
	loaded := r.loadedType()
	dtype := r.besideType(named(o.ReferenceDtype, loaded, objectivePointer+"/reference_dtype", errs))
	if f, dealt := r.parallel.(*fsdp); dealt { // whose passes are in the type that everything is gathered in
		f.Beside, loaded = dtype, dtype
	}
	if kind == "separate" && dtype != loaded {
		r.beside = append(r.beside, companion{name: referenceName, arch: r.arch, dtype: dtype, passed: true})
		return objective.Passed
	}
	if stands {
		r.beside = append(r.beside, companion{name: referenceName, arch: r.arch, dtype: dtype})
	}
	return map[string]objective.Reference{"separate": objective.Separate, "adapter-off": objective.AdapterOff,
		"precomputed": objective.Precomputed}[kind]
}
