package estimator

import (
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
)

// Versions of the software that change what is allocated. What a job does not say counts as the reference's.
// Sources: the sources of transformers 4.45.2, 4.47.1, 4.48.1, 4.49.0, 4.51.3, 4.53.3 and 4.54.1 (models/llama/modeling_llama.py and
// other families', loss/loss_utils.py, integrations/sdpa_attention.py),
// of torch 2.0 and 2.1 (optim/adam.py) and 1.13 (optim/optimizer.py), and pytorch/pytorch#86509, #65242 (softmax, in torch 1.11) and torch 1.13 and 2.0's optim/optimizer.py and nn/modules/module.py
// (zero_grad).

// release is a version's major and minor number.
type release struct{ major, minor int }

func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// releaseOf reads the start of a version such as "4.48.1", "2.9.1+cu128" or "11".
func releaseOf(version string) (release, bool) {
	if version == "" {
		return release{}, false
	}
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".", 3)
	major, err := strconv.Atoi(leadingDigits(parts[0]))
	if err != nil {
		return release{}, false
	}
	r := release{major: major}
	if len(parts) > 1 {
		if minor, err := strconv.Atoi(leadingDigits(parts[1])); err == nil {
			r.minor = minor
		}
	}
	return r, true
}

func leadingDigits(s string) string {
	end := 0
	for end < len(s) && end < 6 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}

// repeatedForFlash are the families whose FlashAttention2 classes repeated grouped keys and values (transformers 4.47).
var repeatedForFlash = map[string]bool{"mistral": true, "mixtral": true, "qwen2": true, "qwen2_moe": true, "starcoder2": true, "phi3": true}

// older says that the job names a version of the software before the given one.
func (r *resolved) older(name string, major, minor int) bool {
	v, ok := releaseOf(r.given[name])
	return ok && v.before(major, minor)
}

// applyVersions sets what the named versions do otherwise than the reference. It notes what it changed.
func (r *resolved) applyVersions() {
	before := r.older
	changed := func(what string) { r.changes = append(r.changes, what) }
	r.cuda = memory.ContextLazy
	if before("transformers", 4, 49) {
		r.recipe.ShiftsLogits = true
		changed("transformers before 4.49 copies the float32 logits once more to shift them")
	}
	if before("transformers", 4, 46) {
		r.recipe.UpcastInModel = true
		changed("transformers before 4.46 makes the logits float32 in the model, and keeps no half-precision ones")
	}
	if before("transformers", 4, 54) && r.recipe.Attention == step.AttentionSDPA ||
		before("transformers", 4, 48) && r.recipe.Attention == step.AttentionFlash && repeatedForFlash[r.arch.Family] {
		r.recipe.RepeatsKV = true
		changed("transformers before 4.54 repeats grouped keys and values for sdpa, and before 4.48 for flash attention in some families")
	}
	// A release of transformers that came out before one of torch was used with an older one.
	torchBefore := func(major, minor, transformersMinor int) bool {
		if _, named := releaseOf(r.given["torch"]); named {
			return before("torch", major, minor)
		}
		return before("transformers", 4, transformersMinor)
	}
	if torchBefore(1, 11, 17) { // released in March 2022, 4.17 a week before
		r.recipe.KeepsSoftmaxInput = true
		changed("softmax of torch before 1.11 saves its input besides its result")
	}
	if torchBefore(2, 0, 27) && !r.arch.NanoGPT() { // both released in March 2023; nanoGPT's train.py asks for None
		r.recipe.KeepsGradients = true
		changed("zero_grad of torch before 2.0 keeps the gradients' memory through the next forward")
	}
	if before("torch", 2, 1) && !before("torch", 2, 0) {
		r.recipe.TwoTemporaries = true
		changed("foreach Adam of torch 2.0 takes two copies of the parameters, not one")
	}
	if before("torch", 1, 13) || before("cuda", 11, 7) {
		r.cuda = memory.ContextEager
		if !before("cuda", 11, 0) && before("cuda", 11, 7) {
			r.cuda = memory.ContextCUDA11
		}
		changed("before torch 1.13 and CUDA 11.7 all kernels are loaded with the context")
	}
	for _, name := range [...]string{"torch", "transformers"} {
		reference := map[string]release{"torch": {2, 9}, "transformers": {4, 57}}[name]
		if v, ok := releaseOf(r.given[name]); ok && v != reference {
			r.otherVersions = true
		}
	}
}
