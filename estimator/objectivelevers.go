package estimator

import (
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/resolve/denoising"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
)

// ObjectiveLever is a setting of the job's trainer that may give memory back. Whether a job with it is valid, and how
// much it gives back, an estimate says.
type ObjectiveLever struct {
	// Code is unique among those of a job; levers of one Group exclude each other.
	Code, Group string
	// Title says what it does, and Setting how to say it to the library, whose name Library is.
	Title, Setting, Library string
	// Effect is what it does to training; empty where it does nothing.
	Effect string
	// Changes are the fields of the objective that it sets, by name; nil where it sets a Resolution.
	Changes map[string]any
	// Resolution is that of the pictures of a diffusion pipeline; nil where it stays.
	Resolution Resolution
	set        func(o *Objective)
}

// Apply changes the objective, of which it makes a copy.
func (l ObjectiveLever) Apply(t *Training) {
	if len(l.Resolution) > 0 {
		t.Resolution = l.Resolution
		return
	}
	o := *t.Objective
	l.set(&o)
	t.Objective = &o
}

// objectiveLevers are the levers on a field of the objective, for every kind that reads it. Sources: trl 0.26
// (dpo_config.py, grpo_config.py, kto_config.py), trl 1.4 (sft_config.py).
var objectiveLevers = []struct {
	field string
	of    func(t *Training, o *Objective) []ObjectiveLever
}{
	{"reference", precomputes},
	{"reference", turnsAdaptersOff},
	{"use_logits_to_keep", keepsLogits},
	{"loss_type", chunksLoss},
	{"steps_per_generation", writesLess},
	{"beta", withoutReference},
	{"completion_tokens", cutsCompletions},
	{"freeze_vision", freezesTower},
	{"image_size", shrinksPictures},
	{"rollout_forward_batch", measuresLess},
	{"loss", cachesGradients},
	{"mini_batch", embedsLess},
	{"latents", cachesLatents},
	{"latents", shrinksResolution},
}

// leverFields are the fields of the objective by which kinds of other libraries than trl are offered levers, and
// whose words these are.
var leverFields = map[string]struct {
	fields  []string
	library string
}{
	fields.VisionLanguage:  {resolve.VisionFields, "transformers' Trainer"},
	objectives.Contrastive: {objectives.ContrastiveFields, "sentence-transformers"},
	fields.Diffusion:       {denoising.DiffusionFields, "the script of diffusers"},
}

// ObjectiveLevers are those of the job's kind of training, in its library's words.
func ObjectiveLevers(t Training) []ObjectiveLever {
	if t.Objective == nil {
		return nil
	}
	kind := t.ObjectiveKind()
	fields, library := objectives.Trainers[kind].Fields, "trl's trainer"
	if other, ok := leverFields[kind]; ok {
		fields, library = other.fields, other.library
	}
	if objectives.Trainers[kind].Pairs {
		fields = append(slices.Clone(fields), "completion_tokens")
	}
	var ls []ObjectiveLever
	for _, row := range objectiveLevers {
		if !slices.Contains(fields, row.field) {
			continue
		}
		for _, l := range row.of(&t, t.Objective) {
			l.Library = library
			if l.Changes != nil {
				l.Changes["kind"] = kind
			}
			ls = append(ls, l)
		}
	}
	return ls
}

func precomputes(_ *Training, o *Objective) []ObjectiveLever {
	if o.Reference == "precomputed" && !o.ReferenceResident {
		return nil
	}
	return []ObjectiveLever{{Code: "reference-precomputed", Group: "reference",
		Title:   "Compute the reference's log-probabilities before training",
		Setting: "precompute_ref_log_probs=True, and no ref_model",
		Changes: map[string]any{"reference": "precomputed"},
		set: func(o *Objective) {
			o.Reference, o.ReferenceDtype, o.ReferenceResident = "precomputed", "", false
		}}}
}

func turnsAdaptersOff(t *Training, o *Objective) []ObjectiveLever {
	if t.LoRA == nil || o.Reference != "separate" {
		return nil
	}
	return []ObjectiveLever{{Code: "reference-adapter-off", Group: "reference",
		Title:   "Take the model without its adapters as the reference",
		Setting: "ref_model=None with a peft_config", Changes: map[string]any{"reference": "adapter-off"},
		set: func(o *Objective) { o.Reference, o.ReferenceDtype = "adapter-off", "" }}}
}

func keepsLogits(_ *Training, o *Objective) []ObjectiveLever {
	if o.UseLogitsToKeep {
		return nil
	}
	return []ObjectiveLever{{Code: "logits-to-keep", Group: "logits",
		Title: "Compute the logits of the completions alone", Setting: "use_logits_to_keep=True",
		Changes: map[string]any{"use_logits_to_keep": true},
		set:     func(o *Objective) { o.UseLogitsToKeep = true }}}
}

func chunksLoss(t *Training, o *Objective) []ObjectiveLever {
	const chunked = "chunked_nll"
	if t.ObjectiveKind() != "sft" || len(o.LossType) > 0 {
		return nil
	}
	return []ObjectiveLever{{Code: "loss-type-" + chunked, Group: "logits",
		Title: "Compute the loss without keeping logits", Setting: `loss_type="` + chunked + `"`,
		Changes: map[string]any{"loss_type": []string{chunked}},
		set:     func(o *Objective) { o.LossType = Names{chunked} }}}
}

func writesLess(t *Training, o *Objective) []ObjectiveLever {
	least := max(t.GradientAccumulation, 1) // fewer are not replayed: completions would be written within a step
	if o.StepsPerGeneration <= least {
		return nil
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("steps-per-generation-%d", least), Group: "generation",
		Title:   "Write the completions of one optimizer step at a time",
		Setting: fmt.Sprintf("steps_per_generation=%d", least),
		Changes: map[string]any{"steps_per_generation": least},
		set:     func(o *Objective) { o.StepsPerGeneration = least }}}
}

func withoutReference(_ *Training, o *Objective) []ObjectiveLever {
	if o.Beta == nil || *o.Beta == 0 {
		return nil
	}
	return []ObjectiveLever{{Code: "beta-0", Group: "reference", Title: "Train without a reference",
		Setting: "beta=0.0", Effect: "nothing holds the model near the reference",
		Changes: map[string]any{"beta": 0.0},
		set:     func(o *Objective) { none := 0.0; o.Beta = &none }}}
}

func cutsCompletions(t *Training, o *Objective) []ObjectiveLever {
	const least = 32
	half := o.CompletionTokens / 2
	if half < least || t.SequenceLength != 0 {
		return nil
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("completion-%d", half), Group: "completions",
		Title:   fmt.Sprintf("Cut completions at %d tokens", half),
		Setting: fmt.Sprintf("max_completion_length=%d, or max_length where there is none", half),
		Effect:  fmt.Sprintf("completions longer than %d tokens are cut", half),
		Changes: map[string]any{"completion_tokens": half},
		set:     func(o *Objective) { o.CompletionTokens = half }}}
}

func freezesTower(_ *Training, o *Objective) []ObjectiveLever {
	if o.FreezeVision {
		return nil
	}
	return []ObjectiveLever{{Code: "freeze-vision", Group: "tower", Title: "Freeze the tower that sees",
		Setting: "requires_grad_(False) on the tower", Effect: "the tower that sees is not trained",
		Changes: map[string]any{"freeze_vision": true},
		set:     func(o *Objective) { o.FreezeVision = true }}}
}

// shrinksPictures offers half the side, in steps of the 28 pixels that Qwen's processor keeps to; a model whose
// pictures have one size refuses it. The tokens that this saves are left to the text, so that it gives back at least
// what is said.
func shrinksPictures(_ *Training, o *Objective) []ObjectiveLever {
	const side, least = 28, 112
	if len(o.ImageSize) != 2 {
		return nil
	}
	size := []int64{o.ImageSize[0] / 2 / side * side, o.ImageSize[1] / 2 / side * side}
	if min(size[0], size[1]) < least {
		return nil
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("image-size-%dx%d", size[0], size[1]), Group: "pictures",
		Title:   fmt.Sprintf("Show pictures at [%d, %d] pixels", size[0], size[1]),
		Setting: fmt.Sprintf("max_pixels=%d of the processor", size[0]*size[1]),
		Effect:  "pictures are seen in less detail",
		Changes: map[string]any{"image_size": size},
		set:     func(o *Objective) { o.ImageSize, o.ImageTokens = size, 0 }}}
}
