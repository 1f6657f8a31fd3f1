package resolve

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// mostCompiledLines bounds the lines of a layer, or of what stands around the layers: what an operation in place takes
// the place of is looked for among all values. A Mamba whose layers
// were not found to repeat has 5,291.
const mostCompiledLines = 10_000

// recordedCompiled holds torch.compile on a recording against what its rules know: one graph of the model, with the
// loss in it or in a second one.
func recordedCompiled(rec *recording.Recording, program *recording.Program, whole bool, errs *invalid.List) {
	const pointer = "/training/compile"
	unsupported := func(what string) {
		errs.Add(pointer, "unsupported", "torch.compile is not modelled for a recorded model %s; leave the field out", what)
	}
	switch {
	case !whole:
		unsupported("in parts")
	case rec.Breaks == "":
		errs.Add(pointer, "conflict", "the recording does not say where torch.compile breaks the graph, as one of a "+
			"recorder of before; record it again")
	case rec.Breaks == recording.BreaksInModel:
		unsupported("that logs something, where the graph breaks")
	case rec.Breaks == recording.BreaksOutsideLoss:
		unsupported("whose loss stands outside of the module, where it is not compiled")
	case strings.HasPrefix(rec.Source, "transformers.") && !rec.Padded:
		errs.Add(pointer, "conflict", "transformers keeps the mask under torch.compile that it drops elsewhere; record the "+
			"model with --padded")
	case program != nil && program.Longest() > mostCompiledLines:
		errs.Add(pointer, "too_large", "torch.compile is replayed of recordings with up to %d lines in one stretch; this one "+
			"has %d: leave the field out", mostCompiledLines, program.Longest())
	case program != nil && program.WritesAttentionOut():
		unsupported("with an attention that is written out")
	}
}

// recordedModel holds a job with a recording against what is modelled for one.
func (r resolver) recordedModel(t *job.Training, errs *invalid.List) {
	rec := recordings.Recording(&r.Arch)
	if rec == nil {
		return
	}
	refuse := func(on bool, field, what string) {
		if on {
			errs.Add("/training/"+field, "unsupported", "%s is not modelled for a recorded model yet; "+
				"leave the field out", what)
		}
	}
	precision := recordings.RecordedPrecision(&r.Arch, &r.Numerics)
	if rec.Programs[precision] == nil {
		var names []string
		for name := range rec.Programs {
			names = append(names, name)
		}
		slices.Sort(names)
		errs.Add("/training/precision", "conflict", "the recording has no program for the precision %s; it has %s",
			precision, strings.Join(names, ", "))
	}
	if r.Compilation.Compiles() {
		recordedCompiled(rec, rec.Programs[precision], r.Compilation.Compile, errs)
	}
	if l := r.Arch.LoRA; l != nil && l.Base != step.NotQuantised && r.Numerics.Autocast &&
		precision != recording.Packed && rec.Programs[precision].LinearOfFloat32() {
		errs.Add("/training/lora/base_precision", "unsupported", "linear layers of the recording get float32 under "+
			"autocast; a quantised one hands float32 on then, which the recording does not show. Record it with --precisions "+
			"packed, or take the precision bf16")
	}
	if t.Evaluation != nil && rec.Programs[precision] != nil && rec.Evaluations[precision] == nil {
		errs.Add("/training/evaluation", "conflict", "the recording does not show an evaluation in the precision %s: a "+
			"recorder of before, or a module that does other things then; leave the field out", precision)
	}
	refuse(len(t.Kernels) > 0, "kernels", "a fused kernel")
	refuse(t.Dropout != nil, "dropout", "another dropout than the recorded one")
	refuse(t.Attention == "eager" || t.Attention == "flash", "attention", "another attention than the recorded one")
	switch padded := t.AttentionMask == "explicit"; {
	case padded && !rec.Padded:
		errs.Add("/training/attention_mask", "conflict", "the recording is of batches without padding; record it again "+
			"with --padded")
	case t.AttentionMask == "none" && rec.Padded:
		errs.Add("/training/attention_mask", "conflict", "the recording is of padded batches; record it again without "+
			"--padded")
	}
	refuse(t.Loss != nil && t.Loss.Kind != "" && t.Loss.Kind != "standard", "loss",
		"another loss than the recorded one")
	refuse(t.LogitsDtype != "", "logits_dtype", "another type of the logits than the recorded one")
	if r.Recompute.Mode == resolved.Selective && rec.Programs[precision] != nil && !rec.Programs[precision].Attends() {
		errs.Add("/training/gradient_checkpointing", "conflict", "the recording calls no scaled_dot_product_attention, "+
			"which selective checkpointing would run again; leave the field out")
	}
	if r.Recompute.Every > 0 {
		switch p := rec.Programs[precision]; {
		case rec.Layers == 0:
			errs.Add("/training/gradient_checkpointing", "unsupported",
				"the recording has no layers that repeat, so that there is nothing to checkpoint; leave the field out")
		case len(rec.OtherStacks) > 0:
			errs.Add("/training/gradient_checkpointing", "unsupported", "the recording stores the layers %.80s once, and "+
				"%.80s beside them as they ran: layers of several lists cannot be checkpointed; leave the field out",
				rec.LayersName, rec.OtherStacks[0])
		case p != nil && p.Escapes():
			errs.Add("/training/gradient_checkpointing", "conflict",
				"the recording's layers fill a key/value cache, which checkpointing switches off; record it "+
					"again with --no-cache")
		}
	}
	if rec.Sequence == 0 && t.SequenceLength == 0 && rec.VariesInLength() {
		errs.Add("/training/sequence_length", "required", "sequence_length is missing: a recording does not say how "+
			"long its sequences are")
	}
	if many := r.Shape.Batch > 1 || t.Evaluation != nil && t.Evaluation.MicroBatch > 1; many && !rec.VariesInBatch() {
		errs.Add("/training/micro_batch", "conflict", "the recording is of a batch of one sample; record it again "+
			"without --one-sample")
	}
	r.recordedSizes(rec, t, errs)
	if d := t.Distributed; d != nil && d.Data != "" && d.Data != "ddp" && rec.OwnTypes() {
		errs.Add("/training/distributed/data", "unsupported", "%.20s is not modelled for a recording with parameters of "+
			"several types; take ddp or one GPU", d.Data)
	}
	rank := 0.0
	if t.LoRA != nil {
		rank = float64(t.LoRA.Rank)
	}
	if r.Shape.Batch > 0 && r.Shape.Tokens >= 0 {
		batch := r.Shape.Batch
		if t.Evaluation != nil {
			batch = max(batch, t.Evaluation.MicroBatch)
		}
		if bytes := rec.About(float64(batch), float64(r.Shape.Tokens), rank); bytes > mostRecordedBytes {
			errs.Add("/training", "too_large", "micro_batch %d × sequence_length %d would need about %.1e bytes; up "+
				"to %.0e are accepted", batch, r.Shape.Tokens, bytes,
				float64(mostRecordedBytes))
		}
	}
}

// recordedSizes holds the sizes of a job against those at which the module was seen to do what is recorded.
func (r resolver) recordedSizes(rec *recording.Recording, t *job.Training, errs *invalid.List) {
	refuse := func(pointer string, n int64, what, option string, between []int64) {
		errs.Add(pointer, "conflict", "is %d; the recording holds for %s from %d to %d, beyond which the module does other "+
			"things or nobody looked. Record it again with %s %d, or take another", n, what, between[0], between[1], option, n)
	}
	if n := r.Shape.Batch; n > 0 && !rec.Holds.OfBatch(n) {
		refuse("/training/micro_batch", n, "batches", "--batch", rec.Holds.Batch)
	}
	if e := t.Evaluation; e != nil && e.MicroBatch > 0 && !rec.Holds.OfBatch(e.MicroBatch) {
		refuse("/training/evaluation/micro_batch", e.MicroBatch, "batches", "--batch", rec.Holds.Batch)
	}
	if n := r.Shape.Tokens; n > 0 && rec.Sequence == 0 && !rec.Holds.OfLength(n) {
		refuse("/training/sequence_length", n, "lengths", "--length", rec.Holds.Length)
	}
}

// refuseBesideOwn refuses to checkpoint a recorded module that does so itself, around each of its layers.
func refuseBesideOwn(rec *recording.Recording, asked *job.Checkpointing, errs *invalid.List) {
	if asked != nil && (asked.Mode != "" && asked.Mode != "full" || asked.Every > 1 || asked.Offload ||
		asked.Reentrant != nil) {
		errs.Add("/training/gradient_checkpointing", "conflict", "the recorded module checkpoints each of its layers "+
			"itself (%s); leave the field out, or record the module without", rec.Checkpoints)
	}
}

// recordedVersions takes the releases that a recording was made with where the job names none.
func (r resolver) recordedVersions() {
	rec := recordings.Recording(&r.Arch)
	if rec == nil || len(r.Given) > 0 {
		return
	}
	r.Given = map[string]string{}
	for _, library := range []string{"torch", "transformers"} {
		if v := rec.Versions[library]; v != "" {
			r.Given[library] = v
		}
	}
}

// mostRecordedBytes keeps every sum far from the end of an int64.
const mostRecordedBytes = 1e15
