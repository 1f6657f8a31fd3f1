package arch

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// repeatedForFlash are the families whose FlashAttention2 classes repeated grouped keys and values (transformers 4.47).
var repeatedForFlash = map[string]bool{"mistral": true, "mixtral": true, "qwen2": true, "qwen2_moe": true,
	"starcoder2": true, "phi3": true}

// ownLosses are the families whose classes computed their loss themselves (transformers 4.48).
var ownLosses = map[string]bool{"gpt2": true, "gpt_neox": true, "gpt_bigcode": true, "opt": true, "falcon": true,
	"bloom": true, "mpt": true}

var lossInModel = Of((*Architecture).ownLoss, release.Declare("loss-in-model", release.Change{
	Library: "transformers", To: "4.49",
	What: "transformers before 4.49 computes the loss of gpt2, gpt_neox, gpt_bigcode, opt, falcon, bloom and mpt in the " +
		"type of the logits, of a copy without their last row",
	Source: "models/gpt2/modeling_gpt2.py (GPT2LMHeadModel.forward) and the others', 4.48.1, and 4.49.0 of " +
		"gpt_bigcode",
	Shown: "traces of gpt2, gpt_neox, gpt_bigcode, opt and falcon on 4.48.1",
}))

var repeatsKVForSDPA = Of(func(_ *Architecture, by Use) bool {
	return by.Attention == step.AttentionSDPA
}, release.Declare("repeats-kv-for-sdpa", release.Change{
	Library: "transformers", To: "4.54",
	What:   "transformers before 4.54 repeats grouped keys and values for sdpa",
	Source: "transformers/integrations/sdpa_attention.py, 4.53.3 and 4.54.1", Shown: "published runs",
}))

var repeatsKVForFlash = Of((*Architecture).repeatsForFlash, release.Declare("repeats-kv-for-flash", release.Change{
	Library: "transformers", To: "4.48",
	What:   "transformers before 4.48 repeats grouped keys and values for flash attention in some families",
	Source: "models/mistral/modeling_mistral.py (MistralFlashAttention2) and other families', 4.47.1",
	Shown:  "published runs",
}))

func (a *Architecture) ownLoss(Use) bool { return ownLosses[a.Family] && !a.NanoGPT() }

func (a *Architecture) repeatsForFlash(by Use) bool {
	return by.Attention == step.AttentionFlash && repeatedForFlash[a.Family]
}

// LosesInModel says that the model's class computes its loss itself, of logits in their own type.
func (a *Architecture) LosesInModel() bool {
	return a.Software.Has(lossInModel) && a.Concerns(lossInModel, Use{})
}

// RepeatsKV says that the class repeats grouped keys and values for the kernel, too, that runs.
func (a *Architecture) RepeatsKV(attention step.Attention) bool {
	for _, c := range [...]release.ID{repeatsKVForSDPA, repeatsKVForFlash} {
		if a.Software.Has(c) && a.Concerns(c, Use{Attention: attention}) {
			return true
		}
	}
	return false
}
