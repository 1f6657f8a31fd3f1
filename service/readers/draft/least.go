package draft

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// leastTokens is a sequence that every data set has: what a tool is given is the most that it takes, and what its
// samples are long no file says.
const leastTokens = 8

// Least is the job document in the reading that needs least: each field that no file says is the lowest that a release
// of the tool ever had, the sequences are as short as samples may be, the kernels those that keep nothing, and nothing
// is evaluated. A job that does not fit in this reading does not fit: what is left of it are the weights, and the
// gradients and states of what is trained. Nil where a field that counts has no lower bound.
func (from *Draft) Least() json.RawMessage {
	d := New(from.Reader)
	d.Fields = maps.Clone(from.Fields)
	for pointer, value := range from.floors {
		d.Fields[pointer] = Field{Value: value}
	}
	if from.Exact && len(from.Strange) == 0 {
		d.Drop("/training/evaluation")
		return d.Document()
	}
	if d.Has("/model/diffusion") { // which has neither tokens nor a loss to leave out
		return nil
	}
	for pointer, f := range d.Fields {
		if f.Origin.Kind != setting.Default {
			continue
		}
		lower, known := leastDefaults[pointer]
		switch {
		case pointer == "/training/optimizer":
			o, isOptimizer := f.Value.(Optimizer)
			if !isOptimizer || o.Name != "adamw" { // the default of every release of every tool here is AdamW
				return nil
			}
			lower = Optimizer{"adamw", "fused"}
		case !known:
			continue
		}
		f.Value = lower
		d.Fields[pointer] = f
	}
	for pointer, value := range map[string]any{
		"/training/sequence_length": int64(leastTokens), "/training/attention": "flash",
		"/training/loss": "fused-linear",
	} {
		d.Fields[pointer] = Field{Value: value}
	}
	if d.Has("/training/target_sequence_length") {
		d.Fields["/training/target_sequence_length"] = Field{Value: int64(leastTokens)}
	}
	// the next token's loss alone needs less than any objective of the same trained model
	for _, gone := range []string{"/training/evaluation", "/training/compile", "/training/kernels",
		"/training/objective"} {
		d.Drop(gone)
	}
	return d.Document()
}

// OlderTransformers is a release whose losses are computed in the type of the logits, without a copy in float32 of a
// fused backward: of those that the document knows the one that needs least for most models.
const OlderTransformers = "4.45.0"

// sameLosses is the first release whose losses are those of today.
const sameLosses = "4.49.0"

// Older is the least of a job on an older release of transformers, where nothing says which one runs; nil where that
// makes no difference. Where rows are not filled the logits of a few tokens are.
func (from *Draft) Older() json.RawMessage {
	if !from.Exact || len(from.Strange) > 0 || !from.OlderLosses || from.Has("/training/versions") ||
		from.Release != "" && !defaults.Older(from.Release, sameLosses) {
		return nil
	}
	d := *from
	d.Fields = maps.Clone(from.Fields)
	d.Fields["/training/versions/transformers"] = Field{Value: OlderTransformers}
	if !d.Has("/training/attention") {
		d.Fields["/training/attention"] = Field{Value: "sdpa"} // which other families had only later
	}
	return d.Least()
}

// LeastWhy says on what it depends that the job needs no more than at the least.
func (from *Draft) LeastWhy() string {
	if from.Exact && len(from.Strange) == 0 && len(from.floorsWhy) > 0 {
		return strings.Join(from.floorsWhy, ", and ")
	}
	return "what no file says, such as the length of the samples, may be so small that it fits"
}

// leastDefaults are the lowest defaults that the tools had, by field. Those that are not here change too little to
// matter, or had one value ever since.
var leastDefaults = map[string]any{
	"/training/micro_batch": int64(1), "/training/gradient_accumulation": int64(1),
	"/training/gradient_checkpointing": "full", "/training/precision": "bf16",
	"/training/lora/rank": int64(1), "/training/lora/base_precision": "bf16", "/training/lora/upcast_base": false,
	"/training/lora/double_quantization": true,
}
