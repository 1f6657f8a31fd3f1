package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

// recordedDoubts are those about a recording.
func (r *work) recordedDoubts() []doubt.Doubt {
	rec := recordings.Recording(&r.arch)
	if rec == nil {
		return nil
	}
	list := []doubt.Doubt{doubt.Recorded}
	if len(rec.Unexpressed) > 0 {
		list = append(list, doubt.Unexpressed(rec.Unexpressed))
	}
	if r.recipe.Compile {
		list = append(list, doubt.RecordedCompiled)
	}
	return list
}

// recordedModel holds a job with a recording against what is modelled for one.
func (r *work) recordedModel(t *Training, errs *invalid.List) {
	rec := recordings.Recording(&r.arch)
	if rec == nil {
		return
	}
	refuse := func(on bool, field, what string) {
		if on {
			errs.Add("/training/"+field, "unsupported", "%s is not modelled for a recorded model yet; "+
				"leave the field out", what)
		}
	}
	precision := recordings.RecordedPrecision(&r.arch, &r.numerics)
	if rec.Programs[precision] == nil {
		var names []string
		for name := range rec.Programs {
			names = append(names, name)
		}
		slices.Sort(names)
		errs.Add("/training/precision", "conflict", "the recording has no program for the precision %s; it has %s",
			precision, strings.Join(names, ", "))
	}
	if r.compilation.Compiles() {
		recordedCompiled(rec, rec.Programs[precision], r.compilation.Compile, errs)
	}
	if l := r.arch.LoRA; l != nil && l.Base != step.NotQuantised && r.numerics.Autocast &&
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
	if r.recompute.mode == selective && rec.Programs[precision] != nil && !rec.Programs[precision].Attends() {
		errs.Add("/training/gradient_checkpointing", "conflict", "the recording calls no scaled_dot_product_attention, "+
			"which selective checkpointing would run again; leave the field out")
	}
	if r.recompute.every > 0 {
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
	if many := r.shape.Batch > 1 || t.Evaluation != nil && t.Evaluation.MicroBatch > 1; many && !rec.VariesInBatch() {
		errs.Add("/training/micro_batch", "conflict", "the recording is of a batch of one sample; record it again "+
			"without --one-sample")
	}
	rank := 0.0
	if t.LoRA != nil {
		rank = float64(t.LoRA.Rank)
	}
	if r.shape.Batch > 0 && r.shape.Tokens >= 0 {
		batch := r.shape.Batch
		if t.Evaluation != nil {
			batch = max(batch, t.Evaluation.MicroBatch)
		}
		if bytes := rec.About(float64(batch), float64(r.shape.Tokens), rank); bytes > mostRecordedBytes {
			errs.Add("/training", "too_large", "micro_batch %d × sequence_length %d would need about %.1e bytes; up "+
				"to %.0e are accepted", batch, r.shape.Tokens, bytes,
				float64(mostRecordedBytes))
		}
	}
}

// refuseBesideOwn refuses to checkpoint a recorded module that does so itself, around each of its layers.
func refuseBesideOwn(rec *recording.Recording, asked *Checkpointing, errs *invalid.List) {
	if asked != nil && (asked.Mode != "" && asked.Mode != "full" || asked.Every > 1 || asked.Offload ||
		asked.Reentrant != nil) {
		errs.Add("/training/gradient_checkpointing", "conflict", "the recorded module checkpoints each of its layers "+
			"itself (%s); leave the field out, or record the module without", rec.Checkpoints)
	}
}

// recordedVersions takes the releases that a recording was made with where the job names none.
func (r *resolved) recordedVersions() {
	rec := recordings.Recording(&r.arch)
	if rec == nil || len(r.given) > 0 {
		return
	}
	r.given = map[string]string{}
	for _, library := range []string{"torch", "transformers"} {
		if v := rec.Versions[library]; v != "" {
			r.given[library] = v
		}
	}
}

// refuseRecording turns what a recording that contradicts itself sets off in the replay into an error, where out is the
// error of the answer: what the reader cannot see, such as a gradient that is larger than its parameter. It is also
// where work ends that nobody waits for any more, whatever it is in the middle of.
func (r *work) refuseRecording(out *error) {
	switch reason := recover(); {
	case reason == nil:
	case reason == any(step.Gone{}):
		*out = ErrStopped
	case recordings.Recording(&r.arch) == nil:
		panic(reason)
	default:
		var errs invalid.List
		errs.Add("/model/recorded", "invalid_recording", "the recording contradicts itself and cannot be replayed (%v)",
			reason)
		*out = errs.Err()
	}
}

// mostRecordedBytes keeps every sum far from the end of an int64.
const mostRecordedBytes = 1e15
