package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// companions names the models beside the trained one and what their weights are.
func (r Answerer) companions() string {
	var words []string
	for i := range r.Beside {
		c := &r.Beside[i]
		w := "the " + c.Name + "'s " + result.Grouped(c.Arch.ParameterCount()) + " × " + result.InBytes(c.Dtype)
		if r.DealsBeside() {
			w += ", dealt out like the trained model's"
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

// unapplied notes what the replay found no use for: kernels, and dropout in a model that has none.
func (r Answerer) unapplied(t *job.Training, a step.Applied) []string {
	var idle []string
	used := map[string]bool{"rmsnorm": a.Kernels.RMSNorm, "layernorm": a.Kernels.LayerNorm, "rope": a.Kernels.Rotary,
		"swiglu":    a.Kernels.SwiGLU,
		"bias-gelu": a.Kernels.BiasGELU, "softmax": a.Kernels.Softmax, "lora": a.Kernels.LoRA,
		"gated-delta-rule": a.Kernels.DeltaRule}
	var without []string
	for _, name := range t.Kernels {
		switch {
		case name == "bias-dropout-add":
			idle = append(idle, "kernels bias-dropout-add: the fused operation keeps what bias, dropout "+
				"and sum keep apart")
		case name == "lora" && !used[name] && r.Arch.LoRA != nil:
			idle = append(idle, "kernels lora: not fused are adapters with DoRA or on int8, and, but under unsloth "+
				"and axolotl, those on a base that is not quantised")
		case !used[name] && !slices.Contains(without, name):
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		idle = append(idle, "kernels "+strings.Join(without, ", ")+
			": the job has no operation that they would stand in for")
	}
	if d := t.Dropout; d != nil && !a.Dropout && (d.Hidden != nil && *d.Hidden > 0 || d.Attention != nil &&
		*d.Attention > 0) {
		idle = append(idle, "dropout: the model drops nothing outside of attention, whose kernel keeps no mask")
	}
	return idle
}

// baseNotes says what of a quantised base was not traced.
func (r Answerer) baseNotes() []result.Note {
	switch l := r.Arch.LoRA; {
	case r.PackedByGPTQ():
		return []result.Note{{Code: "gptq-derived",
			Text: "what GPTQ's kernels allocate is derived from their source and was " +
				"not traced, for groups of 128 weights; a checkpoint without groups is about 4 % smaller; the " +
				"bounds are wider"}}
	case l != nil && l.Base == step.Int8:
		return []result.Note{{Code: "int8-outliers", Text: "LLM.int8() was traced on inputs without outliers; columns with " +
			"outliers are computed apart, which takes a little more"}}
	}
	return nil
}

// expertAdapterNotes says which tensors of a mixture peft gives adapters, and what that takes.
func (r Answerer) expertAdapterNotes() []result.Note {
	l := r.Arch.LoRA
	if l == nil || !l.Folded() {
		return nil
	}
	what, dense := l.FoldedTensors()
	text := fmt.Sprintf("peft puts adapters on %s of each layer, which transformers 5 has in place of linear layers; their "+
		"weights are made anew with the adapters whenever a layer runs", what)
	if dense != "" {
		text += ", and dense layers and shared experts called " + dense + " get none"
	}
	return []result.Note{{Code: "adapters-on-experts", Text: text + "; targets without those names leave the experts alone"}}
}

// uncompiledLayers says that layers are replayed as they run uncompiled though they are compiled.
func (r Answerer) uncompiledLayers(t *job.Training) bool {
	return rewritten.Torchtune(&r.Arch) && t.Compile != nil && t.Compile.Model && !r.Recipe.CompileBlocks
}
