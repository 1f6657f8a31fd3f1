package resolve

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// defaultChunks is the number of chunks where a job names none: num_output_chunks of torchtune's losses.
const defaultChunks = 8

// loss is training.loss and training.logits_dtype.
func (r resolver) loss(t *job.Training, errs *invalid.List) resolved.Criterion {
	wide := t.LogitsDtype == "fp32"
	made := resolved.Criterion{LossFloat: wide && r.lossUpcasts(), LogitsFloat: wide && !r.lossUpcasts()}
	made.Smooths = r.smooths(t, errs)
	r.AddsNoise = r.addsNoise(t, errs)
	l := t.Loss
	if l == nil {
		if r.LikeLiger = objectives.On(r.Job).SuperviseElsewhere(t); r.LikeLiger {
			made.Loss = step.Loss{Kind: step.LossFusedLinear}
		}
		return made
	}
	const pointer = "/training/loss"
	kind, ok := map[string]step.LossKind{"": step.LossStandard, "standard": step.LossStandard, "fused": step.LossFused,
		"chunked": step.LossChunked, "fused-linear": step.LossFusedLinear}[l.Kind]
	if !ok {
		errs.Add(pointer+"/kind", "unknown_value", "the loss is %.40q; standard, fused, chunked and "+
			"fused-linear are accepted", l.Kind)
	}
	if v := l.VocabParallel; v != nil && *v && t.Mesh().Tensor == 1 && !rewritten.Megatron(&r.Arch) {
		errs.Add(pointer+"/vocab_parallel", "conflict", "a vocabulary is divided over GPUs that share layers, and "+
			"tensor_parallel is 1 or not given")
	}
	if kind != step.LossChunked && (l.Chunks != 0 || l.ChunkTokens != 0 || l.Head != "") {
		errs.Add(pointer, "conflict", "chunks, chunk_tokens and head belong to the loss chunked")
	}
	if l.Chunks != 0 && l.ChunkTokens != 0 {
		errs.Add(pointer, "conflict", "chunks and chunk_tokens say the same: one of them is given")
	}
	const most = 1 << 20
	if l.Chunks < 0 || l.Chunks > most || l.ChunkTokens < 0 || l.ChunkTokens > 1<<30 {
		errs.Add(pointer, "out_of_range", "chunks is %d and chunk_tokens %d; they are from 1 to %d and to %d", l.Chunks,
			l.ChunkTokens, most, 1<<30)
		return made
	}
	made.Loss = step.Loss{Kind: kind, Chunks: l.Chunks, ChunkRows: l.ChunkTokens}
	if kind != step.LossChunked {
		return made
	}
	if l.Chunks == 0 && l.ChunkTokens == 0 {
		made.Chunks = defaultChunks
	}
	listed := l.Head == "" && r.By.Rewritten == frameworks.Yes
	made.Listed = listed && t.LoRA != nil // its model returns a list in fine-tuning with adapters alone
	// torchtune's released recipes have a model that returns a list of the chunks' logits (CEWithChunkedOutputLoss)
	if listed && t.LoRA == nil || l.Head == "whole" || rewritten.Torchtune(&r.Arch) {
		made.Kind = step.LossChunkedWhole
	}
	return made
}

// smooths is training.label_smoothing, which has the Trainer compute the loss of the logits.
func (r resolver) smooths(t *job.Training, errs *invalid.List) bool {
	const pointer = "/training/label_smoothing"
	a := &r.Arch
	switch {
	case !(t.LabelSmoothing >= 0 && t.LabelSmoothing <= 1):
		errs.Add(pointer, "out_of_range", "label_smoothing is %g; it is from 0 to 1", t.LabelSmoothing)
		return false
	case t.LabelSmoothing == 0, a.Family == "": // or a model that is refused
		return false
	case r.Framework != "hf-trainer" || t.Objective != nil && t.ObjectiveKind() != job.LanguageModel:
		errs.Add(pointer, "unsupported", "label smoothing is modelled as transformers' Trainer computes it, with framework "+
			"hf-trainer and no other objective; leave it out")
	case !a.LanguageModel() || a.Encoder() || a.Decoder > 0 || a.HasTower() || a.LosesInModel():
		errs.Add(pointer, "unsupported", "label smoothing is modelled for decoders with a language-model head, and not for "+
			"%s as it is given; leave it out", a.Family)
	case t.Distributed != nil && t.Distributed.WorldSize > 1:
		errs.Add(pointer, "unsupported", "label smoothing is modelled on one GPU; no trace has shown it on several")
	case t.Compile != nil && (t.Compile.Model || t.Compile.Loss):
		errs.Add(pointer, "unsupported", "label smoothing is not modelled together with torch.compile; leave one of them out")
	case t.Loss != nil && t.Loss.Kind != "" && t.Loss.Kind != "standard", t.LogitsDtype != "", t.HoldLogits != nil:
		errs.Add(pointer, "conflict", "with label smoothing the Trainer computes the loss of the logits that it gets: leave "+
			"loss, logits_dtype and hold_logits out")
	default:
		return true
	}
	return false
}

// addsNoise is training.neftune_noise_alpha.
func (r resolver) addsNoise(t *job.Training, errs *invalid.List) bool {
	const pointer = "/training/neftune_noise_alpha"
	a := &r.Arch
	switch {
	case !(t.NEFTuneNoiseAlpha >= 0 && t.NEFTuneNoiseAlpha <= 1e6):
		errs.Add(pointer, "out_of_range", "neftune_noise_alpha is %g; it is from 0 to 1,000,000", t.NEFTuneNoiseAlpha)
		return false
	case t.NEFTuneNoiseAlpha == 0, a.Family == "": // or a model that is refused
		return false
	case r.Framework != "hf-trainer" || t.Objective != nil && t.ObjectiveKind() != job.LanguageModel:
		errs.Add(pointer, "unsupported", "NEFTune is modelled as transformers' Trainer adds its noise, with framework "+
			"hf-trainer and no other objective; leave it out")
	case !a.LanguageModel() || a.Encoder() || a.Decoder > 0 || a.HasTower():
		errs.Add(pointer, "unsupported", "NEFTune is modelled for decoders with a language-model head, and not for %s as it "+
			"is given; leave it out", a.Family)
	case t.Distributed != nil && t.Distributed.WorldSize > 1:
		errs.Add(pointer, "unsupported", "NEFTune is modelled on one GPU; no trace has shown it on several")
	case t.Compile != nil && (t.Compile.Model || t.Compile.Loss):
		errs.Add(pointer, "unsupported", "NEFTune is not modelled together with torch.compile; leave one of them out")
	case t.LoRA != nil && (len(t.LoRA.ModulesToSave) > 0):
		errs.Add(pointer, "unsupported", "NEFTune is not modelled together with modules_to_save; leave one of them out")
	default:
		return true
	}
	return false
}

// lossUpcasts says that the float32 copy of the logits is made by the loss function that transformers' decoders call,
// while their forward holds the logits that it is made of.
func (r resolver) lossUpcasts() bool {
	a := &r.Arch
	return r.By.OwnModules == frameworks.No && !a.NanoGPT() && !a.Encoder() && a.Decoder == 0
}

// lossFits refuses a loss other than the standard one where the replay does not know how the two go together.
func (r resolver) lossFits(errs *invalid.List) {
	const pointer = "/training/loss"
	switch {
	case r.Recipe.Loss.Kind == step.LossStandard:
		return
	case r.Recipe.Compiles() && !(rewritten.Torchtune(&r.Arch) && r.Recipe.Loss.Kind == step.LossChunkedWhole):
		errs.Add(pointer, "unsupported", "a loss other than standard is not modelled together with torch.compile yet")
	case r.Recipe.Loss.Kind == step.LossFusedLinear && r.Adapted && rewritten.OfLitGPT(&r.Arch):
		errs.Add(pointer, "unsupported", "a fused-linear loss is not modelled for litgpt's models with adapters; "+
			"standard and chunked are")
	case r.Recipe.Loss.Kind == step.LossFusedLinear && r.Arch.AdaptedHead():
		errs.Add(pointer, "unsupported", "a fused-linear loss takes the head's matrix alone and knows no adapter on "+
			"it; leave lm_head out of the targets")
	case r.Recipe.Loss.Kind == step.LossFusedLinear && r.Arch.QuantisedHead():
		errs.Add(pointer, "unsupported", "a fused-linear loss takes the head's matrix as it is, and litgpt quantises it "+
			"with the base; standard and chunked are modelled")
	case r.Recipe.Loss.TakesHead() && !r.Arch.PlainHead():
		errs.Add(pointer, "unsupported", "a loss that runs the head itself is modelled for language models whose "+
			"logits are the head's output as it is; standard and fused are for all")
	}
	if n, rows := r.Shape.N(), r.Recipe.Loss.ChunkRows; rows > 0 && n/rows > mostChunks {
		errs.Add(pointer+"/chunk_tokens", "out_of_range", "chunk_tokens %d makes more than %d chunks of %d tokens",
			rows, mostChunks, n)
	}
	if r.Recipe.Loss.Chunks > mostChunks {
		errs.Add(pointer+"/chunks", "out_of_range", "chunks is %d; it is from 1 to %d", r.Recipe.Loss.Chunks,
			mostChunks)
	}
}

// mostChunks bounds what is recorded one by one.
const mostChunks = 4096
