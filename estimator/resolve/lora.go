package resolve

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

var leavesBase = resolved.Of((*resolved.Job).TrainsOnQuantised, release.Declare("leaves-quantised-base", release.Change{
	Library: "trl", From: "0.26",
	What:   "SFTTrainer, GRPOTrainer and RewardTrainer leave a quantised base in the types that it was loaded in, and cast its adapters to bfloat16",
	Source: "trainer/sft_trainer.py, grpo_trainer.py and reward_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.25.1 and 0.26.0",
	Shown:  "traces of SFTTrainer, GRPOTrainer and RewardTrainer with trl 0.26.2",
}))

// lora puts adapters on the model, whose own parameters are frozen then and stored in a type of their own.
func (r resolver) lora(t *job.Training, errs *invalid.List) {
	l := t.LoRA
	if l == nil {
		return
	}
	const pointer = "/training/lora"
	if !ranked(l) {
		errs.Add(pointer+"/rank", "out_of_range", "rank is %d; it is a whole number from 1 to %d", l.Rank, fields.MaxRank)
		return
	}
	if p := l.Dropped(); !(p >= 0 && p < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", p)
	}
	refuseLoRA(l, errs)
	if l.DoRA && r.By.Decomposes == frameworks.No {
		errs.Add(pointer+"/dora", "conflict", "%s has no DoRA; leave one of them out", r.Framework)
	}
	saved := l.ModulesToSave
	if len(saved) > 0 && r.By.SavesModules == frameworks.No {
		errs.Add(pointer+"/modules_to_save", "conflict", "%s trains adapters alone beside a frozen model: it has no "+
			"modules_to_save; leave them out", r.Framework)
		saved = nil
	}
	r.compiledLoRA(l, errs)
	adapters := model.LoRA{Rank: l.Rank, Dropout: l.Dropped(), Targets: l.TargetModules, Saved: saved,
		Decomposed: l.DoRA, Foreign: r.By.UsesPEFT == frameworks.No, Lists: r.By.ListsLinears == frameworks.Yes,
		Unscaled: l.Alpha == scale(l), Biases: biases[l.Bias], Excluded: l.ExcludeModules}
	r.selectLoRA(t, &adapters, errs)
	adapters.Dtype = fields.Named(l.AdapterDtype, step.F32, pointer+"/adapter_dtype", errs)
	// Of a Trainer's job that names a release before, trl's trainer was meant in every run that was published; it may
	// not be.
	r.Trl = r.By.RunsTRL == frameworks.Yes || t.Versions["trl"] != "" && !r.Holds(leavesBase)
	r.onBase(t, &adapters, errs)
	if l.AdapterDtype == "" && r.By.AsBase == frameworks.Yes {
		// add_adapter puts them in as the base is. Source: transformers/integrations/peft.py (add_adapter), 4.57.
		adapters.Dtype = r.Base.Stored
	}
	r.Base.Adapters = adapters.Dtype
	if t.ObjectiveKind() == "reward" {
		objectives.On(r.Job).Scores(&adapters)
	}
	r.noteTextTargets(l)
	r.Adapted = true
	r.Arch.Software = r.SoftwareAhead()
	r.Arch.Adapt(adapters, pointer, errs)
}

// ranked says that adapters of the job have a rank that is accepted.
func ranked(l *job.LoRA) bool { return l != nil && l.Rank >= 1 && l.Rank <= fields.MaxRank }

// baseOf is the type of the frozen model: that of the computation where the job does not say in base_precision or
// states.weights, which is also what a quantised base is loaded in. One that bitsandbytes quantised is upcast where the
// framework's users do so.
func (r resolver) baseOf(t *job.Training, compute step.DType, autocast bool) resolved.Base {
	l := t.LoRA
	b := resolved.Base{Loaded: compute}
	quantised := fields.Quantisations[l.BasePrecision]
	switch quantised {
	case step.NotQuantised:
		if b.Loaded = baseStored(t, compute); l.BasePrecision != "" {
			b.Loaded = fields.Dtypes[l.BasePrecision]
		}
	case step.NF4, step.Int8:
		b.Leaves = r.leavesBase(t)
		b.Upcast = r.By.Upcasts == frameworks.Yes && !b.Leaves
	}
	if l.UpcastBase != nil && quantised != step.GPTQ4 && quantised != step.GPTQ8 {
		b.Upcast = *l.UpcastBase
	}
	// prepare_model_for_kbit_training is left out where a flat tensor is made of one type
	b.Upcast = b.Upcast && !t.Shards()
	if b.Stored = b.Loaded; b.Upcast { // it casts every parameter in half precision, but for a GPTQ model
		b.Stored = step.F32
	}
	b.Gathered = t.Shards() && quantised == step.NotQuantised && !autocast && compute.Half() && b.Stored == step.F32
	return b
}

// onBase is what the base makes of the adapters: of one in four bits trl's SFTTrainer casts embeddings and head back
// when it trains in bfloat16.
func (r resolver) onBase(t *job.Training, adapters *model.LoRA, errs *invalid.List) {
	l, n := t.LoRA, &r.Numerics
	adapters.Base, adapters.Half = fields.Quantisations[l.BasePrecision], r.Base.Loaded
	if adapters.Base == step.NotQuantised {
		fields.Named(l.BasePrecision, adapters.Half, "/training/lora/base_precision", errs)
	}
	if r.Base.Leaves && l.AdapterDtype == "" {
		adapters.Dtype = step.BF16
	}
	if r.Base.Leaves && adapters.Dtype == step.BF16 && n.GradScaler {
		errs.Add("/training/precision", "conflict",
			"trl %s casts the adapters of a quantised base to bfloat16, and the "+
				"scaler of amp-fp16 has no kernel for their gradients: the run ends in its first optimizer step "+
				"(\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'); amp-bf16 and bf16 are "+
				"accepted", r.TRLVersion())
	}
	r.Trl = r.Trl && !r.Base.Leaves
	four := adapters.Base == step.NF4
	if l.Doubles() {
		adapters.Base, four = step.NF4Double, true
	}
	adapters.Returns = r.Base.Upcast && four && r.Trl && n.Autocast && n.Compute == step.BF16
}

var leavesBaseInRLOO = resolved.Of((*resolved.Job).TrainsOnQuantised,
	release.Declare("leaves-quantised-base-in-rloo", release.Change{
		Library: "trl", From: "0.27",
		What:   "RLOOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
		Source: "trainer/rloo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.26.0 and 0.27.0",
		Shown:  "traces of RLOOTrainer with trl 1.16",
	}))

var leavesBaseInDPO = resolved.Of((*resolved.Job).TrainsOnQuantised,
	release.Declare("leaves-quantised-base-in-dpo", release.Change{
		Library: "trl", From: "0.29",
		What:   "DPOTrainer leaves a quantised base as it was loaded, and casts its adapters to bfloat16",
		Source: "trainer/dpo_trainer.py (__init__): no prepare_model_for_kbit_training, and param.data.to(torch.bfloat16), 0.28.0 and 0.29.0",
		Shown:  "traces of DPOTrainer with trl 1.16",
	}))

var leavesBaseInKTO = resolved.Of((*resolved.Job).TrainsOnQuantised,
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
func (r resolver) leavesBase(t *job.Training) bool {
	change, known := leavingBases[t.ObjectiveKind()]
	return known && r.By.RunsTRL == frameworks.Yes && r.Holds(change)
}

// baseStored is states.weights, or otherwise where the job does not say.
func baseStored(t *job.Training, otherwise step.DType) step.DType {
	if s := t.States; s != nil {
		if d, ok := fields.StoredTypes[s.Weights]; ok {
			return d
		}
	}
	return otherwise
}

// scale is what alpha is divided by.
func scale(l *job.LoRA) float64 {
	if l.UseRSLoRA {
		return math.Sqrt(float64(l.Rank))
	}
	return float64(l.Rank)
}

// biases are the words of training.lora.bias.
var biases = map[string]model.Biases{"": model.NoBiases, "none": model.NoBiases, "all": model.AllBiases,
	"lora_only": model.BiasesOfAdapted}

// selectLoRA reads which layers get adapters and of what rank, and refuses what no trace has shown of it.
func (r resolver) selectLoRA(t *job.Training, adapters *model.LoRA, errs *invalid.List) {
	const pointer = "/training/lora"
	l := t.LoRA
	adapters.Layers = l.LayersToTransform
	for _, key := range slices.Sorted(maps.Keys(l.RankPattern)) {
		adapters.Ranks = append(adapters.Ranks, &model.RankPattern{Key: key, Rank: l.RankPattern[key]})
	}
	if len(l.LayersToTransform) > 0 && len(l.TargetModules) == 1 && strings.EqualFold(l.TargetModules[0], "all-linear") {
		errs.Add(pointer+"/layers_to_transform", "conflict", "peft refuses layers_to_transform with target_modules %q; name "+
			"the modules", l.TargetModules[0])
	}
	if adapters.Biases != model.NoBiases && r.Numerics.GradScaler && r.Base.Stored != step.F32 {
		errs.Add(pointer+"/bias", "conflict", "biases are trained in the base's type, which is %s, and the scaler of amp-fp16 "+
			"refuses their gradients (\"Attempting to unscale FP16 gradients\"): give base_precision fp32, or bias none",
			result.Dtype(r.Base.Stored))
	}
	for _, f := range []struct {
		name   string
		given  bool
		alters bool // which tensors are trained
	}{{"bias", biases[l.Bias] != model.NoBiases, true},
		{"layers_to_transform", l.LayersToTransform != nil, true},
		{"rank_pattern", len(l.RankPattern) > 0, true},
		{"exclude_modules", len(l.ExcludeModules) > 0, true}, {"alpha_pattern", len(l.AlphaPattern) > 0, false},
		{"use_rslora", l.UseRSLoRA, false}} {
		switch {
		case !f.given:
		case r.By.UsesPEFT == frameworks.No:
			errs.Add(pointer+"/"+f.name, "conflict", "%s is peft's, and the adapters of %s are its own; leave it out", f.name,
				r.Framework)
		case f.alters && recordings.Recording(&r.Arch) != nil:
			errs.Add(pointer+"/"+f.name, "unsupported", "%s is not modelled for recorded modules; leave it out", f.name)
		case f.alters && f.name != "exclude_modules" && (t.Shards() || t.ZeROStage() > 0 || t.Mesh().Shared() != ""):
			errs.Add(pointer+"/"+f.name, "unsupported", "%s is modelled on one GPU and with ddp; no trace has shown what GPUs "+
				"that share a model make of it; leave it out", f.name)
		}
	}
}

// refuseLoRA names what is asked for and not modelled yet.
func refuseLoRA(l *job.LoRA, errs *invalid.List) {
	if base := fields.Quantisations[l.BasePrecision]; l.DoRA && base != step.NotQuantised && base != step.NF4 {
		errs.Add("/training/lora/dora", "unsupported", "DoRA on a base in %s is not modelled; on nf4, bf16, "+
			"fp16 and fp32 it is", l.BasePrecision)
	}
	if base := l.BasePrecision; l.Doubles() && base != "nf4" {
		if base == "" {
			base = "not given"
		}
		errs.Add("/training/lora/double_quantization", "conflict",
			"double_quantization belongs to the base_precision nf4, which is %s here", base)
	}
}

// compiledLoRA refuses what torch.compile makes of adapters and was not traced: operations in custom kernels, and
// DoRA's norms.
func (r resolver) compiledLoRA(l *job.LoRA, errs *invalid.List) {
	const pointer = "/training/compile"
	switch {
	case rewritten.Torchtune(&r.Arch):
	case r.Compilation.CompileLoss:
		errs.Add(pointer, "unsupported", "a loss compiled apart is not modelled together with LoRA yet; "+
			"leave one of them out")
	case !r.Compilation.Compile:
	case fields.Quantisations[l.BasePrecision] != step.NotQuantised:
		errs.Add(pointer, "unsupported", "torch.compile with LoRA is modelled on bases in bf16, fp16 and fp32, not in "+
			"%s; leave one of them out", l.BasePrecision)
	case l.DoRA, r.By.UsesPEFT == frameworks.No:
		errs.Add(pointer, "unsupported", "torch.compile with LoRA is modelled for peft's adapters without DoRA; "+
			"leave one of them out")
	}
}

// adapterSize bounds what the adapters add to parameters and, for each token, to activations.
func (r resolver) adapterSize() (parameters, perToken float64) {
	l, a := r.Arch.LoRA, &r.Arch
	if l == nil {
		return 0, 0
	}
	width := 8*float64(a.Hidden) + 4*float64(a.FFN) + 4*float64(a.Heads)*float64(a.HeadDim)
	rank := float64(l.MostRank())
	parameters, perToken = float64(a.Layers)*rank*width, float64(a.Layers)*(8*rank+2*width)
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
