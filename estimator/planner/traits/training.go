package traits

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// CheckpointingMode is the mode of the job's checkpoints, "none" and "full" where it says less.
func CheckpointingMode(t estimator.Training) string {
	c := t.GradientCheckpointing
	switch {
	case c == nil:
		return "none"
	case c.Mode == "" && c.Every > 0:
		return "full"
	case c.Mode == "":
		return "none"
	}
	return c.Mode
}

// RowOf is what is known of the job's optimizer; of one that is not modelled it is taken for the default.
func RowOf(t estimator.Training) *optim.Optimizer {
	o := OptimizerOf(t)
	for _, k := range [...]estimator.Optimizer{{Name: o.Name, Implementation: o.Implementation}, {Name: o.Name}} {
		if row, ok := optim.OptimizerOf(k.Name, k.Implementation); ok {
			return row
		}
	}
	row, _ := optim.OptimizerOf(estimator.DefaultOptimizer, "")
	return row
}

// TrainsLike says whether the job's optimizer holds what the one of the given name does.
func TrainsLike(t estimator.Training, name string) bool {
	row := RowOf(t)
	return row.Name == name && (OptimizerOf(t).Name == name || slices.Contains(row.Synonyms, OptimizerOf(t).Name))
}

// ImplementedBy says whether the job's optimizer can be had from such an implementation.
func ImplementedBy(t estimator.Training, implementation string) bool {
	_, ok := optim.OptimizerOf(OptimizerOf(t).Name, implementation)
	return ok
}

// OptimizerOf is the job's optimizer, or the default.
func OptimizerOf(t estimator.Training) estimator.Optimizer {
	var o estimator.Optimizer
	if t.Optimizer != nil {
		o = *t.Optimizer
	}
	if o.Name == "" {
		o.Name = estimator.DefaultOptimizer
	}
	return o
}

// SharesState says whether the job deals out its parameters already.
func SharesState(d *estimator.Distributed) bool {
	return d != nil && (d.Data == "fsdp" || d.Data == ZeRO3) && d.WorldSize > 1
}

// ZeRO3 is DeepSpeed's stage that deals out all that there is.
const ZeRO3 = "zero3"

// OnZeRO says whether DeepSpeed trains the job, in whichever stage.
func OnZeRO(d *estimator.Distributed) bool { return d != nil && strings.HasPrefix(d.Data, "zero") }

// ToolOf is the framework whose words the answer uses: the one that the job
// names, or the one that its kind of model implies.
func ToolOf(in estimator.Input) string {
	if f := in.Job.Training.Framework; f != "" {
		return f
	}
	if NanoGPTOf(in) != nil {
		return "nanogpt"
	}
	if o := in.Job.Training.Objective; o != nil && o.Kind == "diffusion" {
		return "diffusers"
	}
	if writtenByHand(in) {
		return "pytorch"
	}
	return "hf-trainer"
}

// writtenByHand says that the model is a module that was recorded and is none of transformers': its training loop is
// taken for one in plain PyTorch, as the estimator takes it.
func writtenByHand(in estimator.Input) bool {
	text := in.Job.Model.Recorded
	if in.Preset != nil && len(in.Preset.Recorded) > 0 {
		text = in.Preset.Recorded
	}
	if len(text) == 0 {
		return false
	}
	var of struct {
		Source string `json:"source"`
	}
	return json.Unmarshal(text, &of) == nil && !strings.HasPrefix(of.Source, "transformers.")
}

// FromScratch says that the model is not a published one.
func FromScratch(in estimator.Input) bool {
	return NanoGPTOf(in) != nil || in.Job.Model.Dimensions != nil
}

// Restage is a zero_optimization whose stage, where it names one, is that of data.
func Restage(words json.RawMessage, data string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(words, &all) != nil || all["stage"] == nil {
		return words
	}
	all["stage"] = json.RawMessage(strings.TrimPrefix(data, "zero"))
	restaged, err := json.Marshal(all)
	if err != nil {
		return words
	}
	return restaged
}

// dealtWords name the ways to put a job on several GPUs in a title.
var dealtWords = map[string]string{"ddp": "data parallel", "fsdp": "dealt out by FSDP", "zero1": "ZeRO-1",
	"zero2": "ZeRO-2", ZeRO3: "dealt out by ZeRO-3"}

// Dealt names a way to put a job on several GPUs as a title does; empty for one that there is not.
func Dealt(data string) string { return dealtWords[data] }
