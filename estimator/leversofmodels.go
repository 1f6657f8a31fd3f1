package estimator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/resolve/denoising"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
)

// measuresLess offers PPO to write and measure as many completions at once as it trains on.
// Source: trl/experimental/ppo/ppo_config.py (local_rollout_forward_batch_size), 0.26.
func measuresLess(t *Training, o *Objective) []ObjectiveLever {
	rows := t.MicroBatch
	all := rows * max(t.GradientAccumulation, 1)
	if rows < 1 || min(cmp.Or(o.RolloutForwardBatch, 64), all) <= rows {
		return nil
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("rollout-forward-batch-%d", rows), Group: "generation",
		Title:   "Write and measure the completions of one micro-batch at a time",
		Setting: fmt.Sprintf("local_rollout_forward_batch_size=%d", rows),
		Changes: map[string]any{"rollout_forward_batch": rows},
		set:     func(o *Objective) { o.RolloutForwardBatch = rows }}}
}

// leastMiniBatch is the smallest mini-batch that is offered: a card does little with fewer texts at once.
const leastMiniBatch = 4

// cachesGradients offers GradCache, whose loss and gradients are those of all texts at once.
// Source: sentence_transformers/losses (CachedMultipleNegativesRankingLoss), 5.7.
func cachesGradients(t *Training, o *Objective) []ObjectiveLever {
	const mini = 32 // the library's own
	if t.ObjectiveKind() != objectives.Contrastive || o.Loss != "" && o.Loss != "mnrl" || t.MicroBatch <= mini {
		return nil
	}
	return []ObjectiveLever{{Code: "cached-mnrl", Group: "loss",
		Title:   "Embed the texts twice, mini-batch by mini-batch (GradCache)",
		Setting: fmt.Sprintf("CachedMultipleNegativesRankingLoss(model, mini_batch_size=%d)", mini),
		Changes: map[string]any{"loss": "cached-mnrl", "mini_batch": mini},
		set:     func(o *Objective) { o.Loss, o.MiniBatch = "cached-mnrl", mini }}}
}

// embedsLess offers half of GradCache's mini-batch.
func embedsLess(t *Training, o *Objective) []ObjectiveLever {
	half := min(cmp.Or(o.MiniBatch, 32), t.MicroBatch) / 2
	if o.Loss != "cached-mnrl" || half < leastMiniBatch {
		return nil
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("mini-batch-%d", half), Group: "loss",
		Title:   fmt.Sprintf("Embed %d texts at a time", half),
		Setting: fmt.Sprintf("mini_batch_size=%d", half),
		Changes: map[string]any{"mini_batch": half},
		set:     func(o *Objective) { o.MiniBatch = half }}}
}

// cachesLatents offers to encode the pictures before training, to scripts that can.
func cachesLatents(t *Training, o *Objective) []ObjectiveLever {
	caches := func(s denoising.DiffusionScript) bool {
		return s.CachesLatents && (t.Script == "" && s.Adapters == (t.LoRA != nil) &&
			cmp.Or(o.Train, s.Train) == s.Train ||
			strings.HasSuffix(t.Script, denoising.BaseName(s.Name)))
	}
	if o.Latents == "cached" || !slices.ContainsFunc(denoising.DiffusionScripts, caches) {
		return nil
	}
	return []ObjectiveLever{{Code: "latents-cached", Group: "latents",
		Title: "Encode the pictures before training", Setting: "--cache_latents",
		Changes: map[string]any{"latents": "cached"},
		set:     func(o *Objective) { o.Latents = "cached" }}}
}

// shrinksResolution offers pictures of half the side, in steps of 64 pixels, which every pipeline takes.
func shrinksResolution(t *Training, _ *Objective) []ObjectiveLever {
	const side, least = 64, 256
	height, width := t.Resolution.Size()
	if height /= 2 * side; height*side < least {
		return nil
	}
	if width /= 2 * side; width*side < least {
		return nil
	}
	size := Resolution{height * side}
	if height != width {
		size = append(size, width*side)
	}
	return []ObjectiveLever{{Code: fmt.Sprintf("resolution-%dx%d", height*side, width*side), Group: "pictures",
		Title:      fmt.Sprintf("Train on pictures of [%d, %d] pixels", height*side, width*side),
		Setting:    fmt.Sprintf("--resolution %d", height*side),
		Effect:     "the model learns pictures of fewer pixels",
		Resolution: size}}
}
