package defaults

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
)

// Filled is a job that names its framework with what that takes for every field that the job leaves out. A job that
// names none, or one of which nothing is known, is returned as it is. What a field's absence says anyway is not said.
func Filled(j job.Job) job.Job {
	t := &j.Training
	if !filled[t.Framework] || j.Model.Diffusion != nil || t.ObjectiveKind() == diffusion {
		return j
	}
	f := filling{t}
	f.number(&t.MicroBatch, MicroBatch)
	if kind := t.ObjectiveKind(); kind == job.LanguageModel || kind == "sft" {
		f.number(&t.SequenceLength, SequenceLength)
	}
	if n := int64(1); t.GradientAccumulation == 0 {
		if f.number(&n, Accumulation); n != 1 {
			t.GradientAccumulation = n
		}
	}
	if value, ok := f.take(Optimizer); ok && (t.Optimizer == nil || t.Optimizer.Name == "" &&
		t.Optimizer.Implementation == "") {
		o := value.(job.Optimizer)
		if t.Optimizer != nil {
			o.InBackward, o.Rank = t.Optimizer.InBackward, t.Optimizer.Rank
		}
		t.Optimizer = &o
	}
	if value, ok := f.take(Checkpointing); ok && t.GradientCheckpointing == nil {
		if c := value.(job.Checkpointing); c.Mode != "none" {
			t.GradientCheckpointing = &c
		}
	}
	if e := t.Evaluation; e != nil && e.MicroBatch == 0 {
		own := *e
		f.number(&own.MicroBatch, EvaluationBatch)
		t.Evaluation = &own
	}
	f.types(&j)
	return j
}

// filled are the frameworks whose every field is known.
var filled = map[string]bool{"hf-trainer": true, "trl": true}

// diffusion is the objective whose scripts have defaults of their own.
const diffusion = "diffusion"

// filling is a training on the way to one that is filled.
type filling struct{ t *job.Training }

func (f filling) take(field string) (any, bool) {
	taken, ok := For(f.t.Framework, field, f.t.Versions)
	return taken.Value, ok
}

// number fills a number that is not said.
func (f filling) number(at *int64, field string) {
	if value, ok := f.take(field); ok && *at == 0 {
		*at = value.(int64)
	}
}

// types are what is computed in and what the model is loaded in: the Trainer computes in the type of the weights, which
// is that of the release's from_pretrained, unless autocast is on. DeepSpeed stores weights as it computes, and
// accelerate brings what FSDP deals out to float32 (accelerate 1.15 accelerator.py prepare_model,
// utils/fsdp_utils.py fsdp2_prepare_model).
func (f filling) types(j *job.Job) {
	t := f.t
	loaded := Loaded(t.Framework, &j.Model, t.Versions)
	half := loaded == "bf16" || loaded == "fp16"
	if t.Precision == "" {
		mixed, autocast := f.take(Precision)
		switch {
		case autocast && t.ZeROStage() > 0:
			t.Precision = job.Precision(strings.TrimPrefix(string(mixed.(job.Precision)), "amp-"))
		case autocast:
			t.Precision = mixed.(job.Precision)
		case half:
			t.Precision = job.Precision(loaded)
		default:
			t.Precision = job.PrecisionFP32
		}
	}
	autocast, scaled := strings.HasPrefix(string(t.Precision), "amp-"), t.Precision == job.PrecisionAMPFP16
	switch {
	case t.ZeROStage() > 0:
	case t.LoRA != nil:
		if stored := job.StoredBase(*j).Training.LoRA; autocast && stored.BasePrecision == "" &&
			(t.States == nil || t.States.Weights == "") {
			own := *t.LoRA
			if own.BasePrecision = loaded; loaded == "" {
				own.BasePrecision = "fp32"
			}
			t.LoRA = &own
		}
	case autocast && half && !t.Shards() && !(scaled && loaded == "fp16"): // which GradScaler refuses
		var own job.States
		if t.States != nil {
			own = *t.States
		}
		if own.Weights == "" {
			own.Weights = loaded
			t.States = &own
		}
	}
}

// Loaded is the type in which a framework loads a model where nobody says one; "" is float32, or a type that nobody
// knows, which is taken for float32, the largest.
func Loaded(framework string, m *job.Model, versions map[string]string) string {
	row := LoadsIn(FromPretrained, Running("transformers", versions))
	if by := loaders[framework]; by != "" {
		if own := LoadsIn(by, Running("trl", versions)); own.Value == float32Said {
			return ""
		}
	}
	if row.Value != ownType {
		return ""
	}
	if m.HFConfig != nil {
		kind, _ := ConfigType(m.HFConfig)
		return kind
	}
	return PublishedType(m.Preset)
}

// loaders are the classes that say the type before from_pretrained does.
var loaders = map[string]string{"trl": ConfigOfTRL}

// What a loader says of a model that it is not told the type of: float32, or the checkpoint's.
const (
	float32Said = "'float32'"
	ownType     = "'auto'"
)
