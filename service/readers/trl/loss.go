package trl

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
)

// Loss reads loss_type: up to some release "nll" kept the logits and "chunked_nll" did not, and in 1.16 neither does
// (trl 1.16.0 trainer/sft_config.py:314). A document that names no release is replayed with today's.
func (r *Job) Loss() {
	v, ok := r.In.Get("loss_type")
	release := r.Release("trl")
	row, _ := defaults.Row("trl", "loss_type", release)
	switch {
	case r.Out.Has("/training/loss"):
	case release != "" && strings.HasSuffix(row.Means, "never all logits at once") &&
		(!ok || row.Value == "'nll'" && v.String() == "nll"):
		r.Out.Fall("/training/loss", "fused-linear", "loss_type", row.String())
	case !ok && release != "":
	case !ok:
		r.Out.Assume("/training/loss", "the loss is made without logits, as in trl since 1.7; 0.26 and older make it of "+
			"all of them (--set versions.trl=0.26.2)")
	case v.String() == "nll" && v.Unknown == "":
	case v.String() == "chunked_nll":
		r.Out.Put("/training/loss", "fused-linear", v)
	default:
		r.Out.AskWord(v)
	}
}

// FullRows says what is taken for rows without padding: a document of plain fine-tuning has no objective that could
// say them, so that rows are whole ones of the longest length. Source: trl 1.16.0
// trainer/sft_trainer.py (SFTTrainer.__init__, padding_free).
func (r *Job) FullRows() {
	for _, key := range []string{"packing", "padding_free"} {
		if v, ok := r.In.Get(key); ok && v.On() {
			r.Out.Assume("/training/sequence_length", "%s (%s) is taken as rows that are full, of the longest length: to have "+
				"them replayed as one row without padding, say --set objective.kind=sft --set objective.%s=true", key,
				v.Origin.At.Where(), key)
			return
		}
	}
}
