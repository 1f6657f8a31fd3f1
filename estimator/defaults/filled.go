package defaults

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
)

// Fill is a field that a job leaves out, with what its framework takes there and the row that this is read off.
type Fill struct {
	Pointer string
	Value   any
	Row     Default
}

// Filled is a job that names its framework with what that takes for every field that the job leaves out. A job that
// names none, or one of which nothing is known, is returned as it is. What a field's absence says anyway is not said,
// and whether a model is trained whole is always said: by lora.
func Filled(j job.Job) job.Job {
	filled, _ := Fills(j)
	return filled
}

// Fills is [Filled] with all that it filled in.
func Fills(j job.Job) (job.Job, []Fill) {
	t := &j.Training
	own, known := filled[t.Framework]
	if !known || j.Model.Diffusion != nil || t.ObjectiveKind() == diffusion {
		return j, nil
	}
	f := &filling{job: &j, t: t}
	f.number(&t.MicroBatch, MicroBatch)
	if kind := t.ObjectiveKind(); kind == job.LanguageModel || kind == "sft" {
		f.number(&t.SequenceLength, SequenceLength)
	}
	f.accumulation()
	f.optimizer()
	if value, row, ok := f.take(Checkpointing); ok && t.GradientCheckpointing == nil {
		if c := value.(job.Checkpointing); c.Mode != "none" {
			t.GradientCheckpointing = &c
			f.note(Checkpointing, c.Mode, row)
		}
	}
	f.evaluation()
	f.adapters()
	own(f)
	return j, f.fills
}

// filled are the frameworks whose every field is known, with what each makes of the types of weights and of what is
// computed in.
var filled = map[string]func(*filling){
	"hf-trainer": trainerTypes, "trl": trainerTypes, "axolotl": axolotlTypes, "llama-factory": factoryTypes,
	"ms-swift": swiftTypes,
}

// diffusion is the objective whose scripts have defaults of their own.
const diffusion = "diffusion"

// filling is a training on the way to one that is filled.
type filling struct {
	job   *job.Job
	t     *job.Training
	fills []Fill
}

// note records what was filled in.
func (f *filling) note(field string, value any, row Default) {
	f.fills = append(f.fills, Fill{"/training/" + strings.ReplaceAll(field, ".", "/"), value, row})
}

func (f *filling) take(field string) (any, Default, bool) {
	taken, ok := For(f.t.Framework, field, f.t.Versions)
	return taken.Value, taken.Row, ok
}

// number fills a number that is not said.
func (f *filling) number(at *int64, field string) {
	if value, row, ok := f.take(field); ok && *at == 0 {
		*at = value.(int64)
		f.note(field, *at, row)
	}
}

// globalBatch is the number of sequences of all GPUs together from which a tool works out how many micro-steps a GPU
// takes, rounded up.
const globalBatch = "gradient_accumulation_steps of a global batch"

// accumulation is how many micro-steps a step has: one is what absence says.
func (f *filling) accumulation() {
	t := f.t
	value, row, ok := f.take(Accumulation)
	if !ok || t.GradientAccumulation != 0 {
		return
	}
	n := value.(int64)
	if row.Means == globalBatch {
		world := int64(1)
		if d := t.Distributed; d != nil {
			world = max(d.WorldSize, 1)
		}
		if n = max(n, 1); t.MicroBatch > 0 {
			n = (n + t.MicroBatch*world - 1) / (t.MicroBatch * world)
		}
		if t.ObjectiveKind() == "grpo" { // ms-swift 4.6.0 arguments/rlhf_args.py
			n = 1
		}
	}
	if n != 1 {
		t.GradientAccumulation = n
		f.note(Accumulation, n, row)
	}
}

func (f *filling) optimizer() {
	t := f.t
	value, row, ok := f.take(Optimizer)
	if !ok || t.Optimizer != nil && (t.Optimizer.Name != "" || t.Optimizer.Implementation != "") {
		return
	}
	o := value.(job.Optimizer)
	if t.Optimizer != nil {
		o.InBackward, o.Rank = t.Optimizer.InBackward, t.Optimizer.Rank
	}
	t.Optimizer = &o
	f.note(Optimizer, o, row)
}

// evaluation is the batch of an evaluation. axolotl makes it the training's, and so does a document that gives none:
// left out, it follows a plan's candidates.
func (f *filling) evaluation() {
	e := f.t.Evaluation
	if e == nil || e.MicroBatch != 0 {
		return
	}
	own := *e
	if value, row, ok := f.take(EvaluationBatch); ok && value.(int64) != 0 {
		own.MicroBatch = value.(int64)
		f.note(EvaluationBatch, own.MicroBatch, row)
	}
	f.t.Evaluation = &own
}

// adapters is what a tool takes for the adapters that a job trains: none of it makes a whole model's training one of
// adapters.
func (f *filling) adapters() {
	if f.t.LoRA == nil {
		return
	}
	own := *f.t.LoRA
	f.t.LoRA = &own
	f.number(&own.Rank, LoRARank)
	if value, row, ok := f.take(LoRADropout); ok && own.Dropout == nil && value.(float64) != 0 {
		own.Dropout = new(value.(float64))
		f.note(LoRADropout, *own.Dropout, row)
	}
	if value, row, ok := f.take(LoRATargets); ok && len(own.TargetModules) == 0 {
		own.TargetModules = value.(job.Targets)
		f.note(LoRATargets, own.TargetModules, row)
	}
	if value, row, ok := f.take(DoubleQuantization); ok && own.DoubleQuantization == nil && own.BasePrecision == "nf4" &&
		value.(bool) {
		own.DoubleQuantization = new(true)
		f.note(DoubleQuantization, true, row)
	}
}

// trainerTypes are what is computed in and what the model is loaded in: the Trainer computes in the type of the
// weights, which is that of the release's from_pretrained, unless autocast is on. DeepSpeed stores weights as it
// computes, and accelerate brings what FSDP deals out to float32 (accelerate 1.15 accelerator.py prepare_model,
// utils/fsdp_utils.py fsdp2_prepare_model).
func trainerTypes(f *filling) {
	t := f.t
	loaded, row := loadedBy(t.Framework, &f.job.Model, t.Versions)
	if t.Precision == "" {
		mixed, by, autocast := f.take(Precision)
		switch {
		case autocast:
			f.precision(mixed.(job.Precision), by)
		case loaded == "bf16" || loaded == "fp16":
			f.precision(job.Precision(loaded), row)
		default:
			off, _ := Row("transformers", "bf16", Running("transformers", t.Versions))
			f.precision(job.PrecisionFP32, off)
		}
	}
	f.storedIn(loaded, row)
}

// precision fills what is computed in: DeepSpeed has no autocast around its engine, and stores as it computes.
func (f *filling) precision(p job.Precision, row Default) {
	if f.t.ZeROStage() > 0 {
		p = job.Precision(strings.TrimPrefix(string(p), "amp-"))
	}
	f.t.Precision = p
	f.note(Precision, p, row)
}

// storedIn fills the type of the weights under autocast: a frozen base keeps the one in which it is loaded, and so
// does a model that is trained whole, unless its shards are brought to float32. GradScaler refuses gradients in fp16.
func (f *filling) storedIn(loaded string, row Default) {
	t := f.t
	autocast, scaled := strings.HasPrefix(string(t.Precision), "amp-"), t.Precision == job.PrecisionAMPFP16
	half := loaded == "bf16" || loaded == "fp16"
	switch {
	case t.ZeROStage() > 0:
	case t.LoRA != nil:
		if stored := job.StoredBase(*f.job).Training.LoRA; autocast && stored.BasePrecision == "" &&
			(t.States == nil || t.States.Weights == "") {
			own := *t.LoRA
			if own.BasePrecision = loaded; loaded == "" {
				own.BasePrecision = "fp32"
			}
			t.LoRA = &own
			f.note(BasePrecision, own.BasePrecision, row)
		}
	case autocast && half && !t.Shards() && !(scaled && loaded == "fp16"):
		var own job.States
		if t.States != nil {
			own = *t.States
		}
		if own.Weights == "" {
			own.Weights = loaded
			t.States = &own
			f.note(StoredWeights, loaded, row)
		}
	}
}

// axolotlTypes are axolotl's: the model is loaded in the half type that is computed in.
// Source: axolotl 0.19.0 utils/config/__init__.py (normalize_config: torch_dtype).
func axolotlTypes(f *filling) {
	if f.t.Precision == "" {
		if mixed, row, ok := f.take(Precision); ok {
			f.precision(mixed.(job.Precision), row)
		}
	}
	if half, autocast := strings.CutPrefix(string(f.t.Precision), "amp-"); autocast {
		row, _ := Row("axolotl", "torch_dtype", Running("axolotl", f.t.Versions))
		f.storedIn(half, row)
	}
}

// factoryTypes are LLaMA-Factory's: a model is loaded in the type that is computed in, which is the checkpoint's
// where neither bf16 nor fp16 is on, and what is trained is brought to float32.
// Source: LLaMA-Factory 0.9.5 model/patcher.py (patch_config), model/adapter.py (init_adapter).
func factoryTypes(f *filling) {
	t := f.t
	row, _ := Row("llamafactory", "compute_dtype", Running("llamafactory", t.Versions))
	loaded := checkpointType(&f.job.Model, "bf16", "")
	if t.Precision == "" {
		if t.LoRA != nil && t.LoRA.BasePrecision == "" && job.StoredBase(*f.job).Training.LoRA.BasePrecision == "" {
			own := *t.LoRA
			own.BasePrecision = cmp.Or(loaded, "fp32")
			t.LoRA = &own
			f.note(BasePrecision, own.BasePrecision, row)
		}
		switch half := loaded == "bf16" || loaded == "fp16"; {
		case t.LoRA != nil && half && t.ZeROStage() == 0: // and no autocast around it
			f.precision(job.Precision(loaded), row)
		default:
			off, _ := Row("transformers", "bf16", Running("transformers", t.Versions))
			f.precision(job.PrecisionFP32, off)
		}
	}
	if half, autocast := strings.CutPrefix(string(t.Precision), "amp-"); autocast && t.LoRA != nil {
		f.storedIn(half, row)
	}
}

// swiftTypes are ms-swift's: a model is loaded in its checkpoint's type, bfloat16 where that says none, and computed
// with under autocast: in bfloat16 for bfloat16, in float16 for others.
// Source: ms-swift 4.6.0 swift/model/utils.py (get_default_torch_dtype), swift/arguments/base_args/model_args.py
// (_init_mixed_precision).
func swiftTypes(f *filling) {
	row, _ := Row("ms-swift", "torch_dtype", Running("ms-swift", f.t.Versions))
	loaded := checkpointType(&f.job.Model, "bf16", "bf16")
	if f.t.Precision == "" {
		mixed := job.PrecisionAMPFP16
		if loaded == "bf16" {
			mixed = job.PrecisionAMPBF16
		}
		f.precision(mixed, row)
	}
	f.storedIn(loaded, row)
}

// checkpointType is the type in which a model is published: unsaid where its config.json names none, unknown where its
// name is all that there is and tells nobody.
func checkpointType(m *job.Model, unsaid, unknown string) string {
	if m.HFConfig != nil {
		kind, _ := ConfigType(m.HFConfig)
		return cmp.Or(kind, unsaid)
	}
	return cmp.Or(PublishedType(m.Preset), unknown)
}

// Loaded is the type in which a framework loads a model where nobody says one; "" is float32, or a type that nobody
// knows, which is taken for float32, the largest.
func Loaded(framework string, m *job.Model, versions map[string]string) string {
	kind, _ := loadedBy(framework, m, versions)
	return kind
}

func loadedBy(framework string, m *job.Model, versions map[string]string) (string, Default) {
	row := LoadsIn(FromPretrained, Running("transformers", versions))
	if by := loaders[framework]; by != "" {
		if own := LoadsIn(by, Running("trl", versions)); own.Value == float32Said {
			return "", own
		}
	}
	if row.Value != ownType {
		return "", row
	}
	return checkpointType(m, "", ""), row
}

// loaders are the classes that say the type before from_pretrained does.
var loaders = map[string]string{"trl": ConfigOfTRL}

// What a loader says of a model that it is not told the type of: float32, or the checkpoint's.
const (
	float32Said = "'float32'"
	ownType     = "'auto'"
)

// Frameworks are those of which the table knows every field, in order.
func Frameworks() []string {
	var names []string
	for name := range filled {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
