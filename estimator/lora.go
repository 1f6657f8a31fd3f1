package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// dtypes are the types that a job can name.
var dtypes = map[string]step.DType{"fp32": step.F32, "bf16": step.BF16, "fp16": step.F16}

// quantisations are the types of a base in integers.
var quantisations = map[string]step.Quantisation{"nf4": step.NF4, "int8": step.Int8, "gptq-int4": step.GPTQ4,
	"gptq-int8": step.GPTQ8}

var leavesBase = of((*resolved).trainsOnQuantised, release.Declare("leaves-quantised-base", release.Change{
	Library: "trl", From: "0.26",
	What:   "SFTTrainer, GRPOTrainer and RewardTrainer leave a quantised base in the types that it was loaded in, and cast its adapters to bfloat16",
	Source: "trainer/sft_trainer.py, grpo_trainer.py and reward_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.25.1 and 0.26.0",
	Shown:  "traces of SFTTrainer, GRPOTrainer and RewardTrainer with trl 0.26.2",
}))

// lora puts adapters on the model, whose own parameters are frozen then and stored in a type of their own.
func (r *resolved) lora(t *Training, errs *invalid.List) {
	l := t.LoRA
	if l == nil {
		return
	}
	const pointer = "/training/lora"
	if !ranked(l) {
		errs.Add(pointer+"/rank", "out_of_range", "rank is %d; it is a whole number from 1 to %d", l.Rank, maxRank)
		return
	}
	if !(l.Dropout >= 0 && l.Dropout < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", l.Dropout)
	}
	refuseLoRA(l, errs)
	if l.DoRA && r.by.decomposes == no {
		errs.Add(pointer+"/dora", "conflict", "%s has no DoRA; leave one of them out", r.framework)
	}
	saved := l.ModulesToSave
	if len(saved) > 0 && r.by.savesModules == no {
		errs.Add(pointer+"/modules_to_save", "conflict", "%s trains adapters alone beside a frozen model: it has no "+
			"modules_to_save; leave them out", r.framework)
		saved = nil
	}
	r.compiledLoRA(l, errs)
	adapters := model.LoRA{Rank: l.Rank, Dropout: l.Dropout, Targets: l.TargetModules, Saved: saved,
		Decomposed: l.DoRA, Foreign: r.by.usesPEFT == no, Lists: r.by.listsLinears == yes,
		Unscaled: l.Alpha == float64(l.Rank)}
	adapters.Dtype = named(l.AdapterDtype, step.F32, pointer+"/adapter_dtype", errs)
	// Of a Trainer's job that names a release before, trl's trainer was meant in every run that was published; it may
	// not be.
	r.trl = r.by.runsTRL == yes || t.Versions["trl"] != "" && !r.holds(leavesBase)
	r.onBase(t, &adapters, errs)
	if l.AdapterDtype == "" && r.by.asBase == yes {
		// add_adapter puts them in as the base is. Source: transformers/integrations/peft.py (add_adapter), 4.57.
		adapters.Dtype = r.base.stored
	}
	if t.ObjectiveKind() == "reward" {
		r.scores(&adapters)
	}
	r.noteTextTargets(l)
	r.adapted = true
	r.arch.Software = r.softwareAhead()
	r.arch.Adapt(adapters, pointer, errs)
}

// ranked says that adapters of the job have a rank that is accepted.
func ranked(l *LoRA) bool { return l != nil && l.Rank >= 1 && l.Rank <= maxRank }

// base is the frozen model below adapters.
type base struct {
	// loaded is in which type it is loaded, and stored in which it is stored when it was prepared.
	loaded, stored step.DType
	// upcast says that it was brought to float32, leaves that trl's trainer left it as it was loaded.
	upcast, leaves bool
	// gathered says that FSDP's own mixed precision gathers a float32 base and its adapters in the half precision of
	// the job, which computes in that type without autocast.
	// Source: torch/distributed/fsdp/_fully_shard (MixedPrecisionPolicy.param_dtype), torch 2.9 and 2.15.
	gathered bool
}

// baseOf is the type of the frozen model: that of the computation where the job does not say in base_precision or
// states.weights, which is also what a quantised base is loaded in. One that bitsandbytes quantised is upcast where the
// framework's users do so.
func (r *resolved) baseOf(t *Training, compute step.DType, autocast bool) base {
	l := t.LoRA
	b := base{loaded: compute}
	quantised := quantisations[l.BasePrecision]
	switch quantised {
	case step.NotQuantised:
		if b.loaded = baseStored(t, compute); l.BasePrecision != "" {
			b.loaded = dtypes[l.BasePrecision]
		}
	case step.NF4, step.Int8:
		b.leaves = r.leavesBase(t)
		b.upcast = r.by.upcasts == yes && !b.leaves
	}
	if l.UpcastBase != nil && quantised != step.GPTQ4 && quantised != step.GPTQ8 {
		b.upcast = *l.UpcastBase
	}
	// prepare_model_for_kbit_training is left out where a flat tensor is made of one type
	b.upcast = b.upcast && !t.Shards()
	if b.stored = b.loaded; b.upcast { // it casts every parameter in half precision, but for a GPTQ model
		b.stored = step.F32
	}
	b.gathered = t.Shards() && quantised == step.NotQuantised && !autocast && compute.Half() && b.stored == step.F32
	return b
}

// onBase is what the base makes of the adapters: of one in four bits trl's SFTTrainer casts embeddings and head back
// when it trains in bfloat16.
func (r *resolved) onBase(t *Training, adapters *model.LoRA, errs *invalid.List) {
	l, n := t.LoRA, &r.numerics
	adapters.Base, adapters.Half = quantisations[l.BasePrecision], r.base.loaded
	if adapters.Base == step.NotQuantised {
		named(l.BasePrecision, adapters.Half, "/training/lora/base_precision", errs)
	}
	if r.base.leaves && l.AdapterDtype == "" {
		adapters.Dtype = step.BF16
	}
	if r.base.leaves && adapters.Dtype == step.BF16 && n.GradScaler {
		errs.Add("/training/precision", "conflict",
			"trl %s casts the adapters of a quantised base to bfloat16, and the "+
				"scaler of amp-fp16 has no kernel for their gradients: the run ends in its first optimizer step "+
				"(\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'); amp-bf16 and bf16 are "+
				"accepted", r.trlVersion())
	}
	r.trl = r.trl && !r.base.leaves
	four := adapters.Base == step.NF4
	if l.DoubleQuantization {
		adapters.Base, four = step.NF4Double, true
	}
	adapters.Returns = r.base.upcast && four && r.trl && n.Autocast && n.Compute == step.BF16
}

var leavesBaseInRLOO = of((*resolved).trainsOnQuantised,
	release.Declare("leaves-quantised-base-in-rloo", release.Change{
		Library: "trl", From: "0.27",
		What:   "RLOOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
		Source: "trainer/rloo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.26.0 and 0.27.0",
		Shown:  "traces of RLOOTrainer with trl 1.16",
	}))

var leavesBaseInDPO = of((*resolved).trainsOnQuantised,
	release.Declare("leaves-quantised-base-in-dpo", release.Change{
		Library: "trl", From: "0.29",
		What:   "DPOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
		Source: "trainer/dpo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.28.0 and 0.29.0",
		Shown:  "traces of DPOTrainer with trl 1.16",
	}))

var leavesBaseInKTO = of((*resolved).trainsOnQuantised,
	release.Declare("leaves-quantised-base-in-kto", release.Change{
		Library: "trl", From: "1.4",
		What:   "KTOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
		Source: "experimental/kto/kto_trainer.py, later trainer/kto_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 1.3.0 and 1.4.0",
		Shown:  "traces of KTOTrainer with trl 1.16",
	}))

// leavingBases are the changes by which trl's trainers leave a quantised base as it was loaded. ORPOTrainer and
// CPOTrainer prepare it still (trl/experimental, 1.16).
var leavingBases = map[string]release.ID{job.LanguageModel: leavesBase, "sft": leavesBase,
	"grpo": leavesBase, "reward": leavesBase, "gkd": leavesBase,
	"rloo": leavesBaseInRLOO, "dpo": leavesBaseInDPO, "kto": leavesBaseInKTO}

// leavesBase says whether trl's trainer of the job does so.
func (r *resolved) leavesBase(t *Training) bool {
	change, known := leavingBases[t.ObjectiveKind()]
	return known && r.by.runsTRL == yes && r.holds(change)
}

// trainsOnQuantised says whether the job trains adapters on a base that bitsandbytes quantised.
func (r *resolved) trainsOnQuantised() bool {
	return r.arch.LoRA != nil && r.by.runsTRL == yes && r.arch.LoRA.Base != step.NotQuantised
}

// baseStored is states.weights, or otherwise where the job does not say.
func baseStored(t *Training, otherwise step.DType) step.DType {
	if s := t.States; s != nil {
		if d, ok := storedTypes[s.Weights]; ok {
			return d
		}
	}
	return otherwise
}

// maxRank is beyond the width of every model.
const maxRank = 1 << 20

// named is the type called name, or otherwise where there is none.
func named(name string, otherwise step.DType, pointer string, errs *invalid.List) step.DType {
	if name == "" {
		return otherwise
	}
	d, ok := dtypes[name]
	if !ok {
		errs.Add(pointer, "unknown_value", "%.40q is not a type that is modelled here; fp32, bf16 and fp16 are", name)
	}
	return d
}

// refuseLoRA names what is asked for and not modelled yet.
func refuseLoRA(l *LoRA, errs *invalid.List) {
	if base := quantisations[l.BasePrecision]; l.DoRA && base != step.NotQuantised && base != step.NF4 {
		errs.Add("/training/lora/dora", "unsupported", "DoRA on a base in %s is not modelled; on nf4, bf16, "+
			"fp16 and fp32 it is", l.BasePrecision)
	}
	if base := l.BasePrecision; l.DoubleQuantization && base != "nf4" {
		if base == "" {
			base = "not given"
		}
		errs.Add("/training/lora/double_quantization", "conflict",
			"double_quantization belongs to the base_precision nf4, which is %s here", base)
	}
}

// compiledLoRA refuses what torch.compile makes of adapters and was not traced: operations in custom kernels, and
// DoRA's norms.
func (r *resolved) compiledLoRA(l *LoRA, errs *invalid.List) {
	const pointer = "/training/compile"
	switch {
	case rewritten.Torchtune(&r.arch):
	case r.compilation.CompileLoss:
		errs.Add(pointer, "unsupported", "a loss compiled apart is not modelled together with LoRA yet; "+
			"leave one of them out")
	case !r.compilation.Compile:
	case quantisations[l.BasePrecision] != step.NotQuantised:
		errs.Add(pointer, "unsupported", "torch.compile with LoRA is modelled on bases in bf16, fp16 and fp32, not in "+
			"%s; leave one of them out", l.BasePrecision)
	case l.DoRA, r.by.usesPEFT == no:
		errs.Add(pointer, "unsupported", "torch.compile with LoRA is modelled for peft's adapters without DoRA; "+
			"leave one of them out")
	}
}

// adapterSize bounds what the adapters add to parameters and, for each token, to activations.
func (r *work) adapterSize() (parameters, perToken float64) {
	l, a := r.arch.LoRA, &r.arch
	if l == nil {
		return 0, 0
	}
	width := 8*float64(a.Hidden) + 4*float64(a.FFN) + 4*float64(a.Heads)*float64(a.HeadDim)
	parameters, perToken = float64(a.Layers)*float64(l.Rank)*width, float64(a.Layers)*(8*float64(l.Rank)+2*width)
	if l.Folded() { // adapters of every expert, and all experts' weights once more
		count, ffn := a.RoutedExperts(), a.ExpertWidth()
		parameters += float64(a.Layers) * float64(count) * (float64(l.Rank)*(3*float64(a.Hidden)+5*float64(ffn)) +
			3*float64(a.Hidden)*float64(ffn))
	}
	if l.Decomposed { // a unit matrix, and more of each token
		return parameters + 4*width*width, 3 * perToken
	}
	return parameters, perToken
}

// packedByGPTQ says that the base comes packed.
func (r *work) packedByGPTQ() bool {
	l := r.arch.LoRA
	return l != nil && (l.Base == step.GPTQ4 || l.Base == step.GPTQ8)
}

// baseNotes says what of a quantised base was not traced.
func (r *work) baseNotes() []Note {
	switch l := r.arch.LoRA; {
	case r.packedByGPTQ():
		return []Note{{Code: "gptq-derived",
			Text: "what GPTQ's kernels allocate is derived from their source and was " +
				"not traced, for groups of 128 weights; a checkpoint without groups is about 4 % smaller; the " +
				"bounds are wider"}}
	case l != nil && l.Base == step.Int8:
		return []Note{{Code: "int8-outliers", Text: "LLM.int8() was traced on inputs without outliers; columns with " +
			"outliers are computed apart, which takes a little more"}}
	}
	return nil
}
