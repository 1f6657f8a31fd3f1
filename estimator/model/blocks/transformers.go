package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// What the decoders of transformers share around their layers.

// MasksByLibrary lets OPT, Falcon, Bloom, T5, GPT-J, StableLM and the hybrid Granite make their masks as all decoders
// do.
var MasksByLibrary = release.Declare("masks-by-library", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "OPT, Falcon, Bloom, T5, GPT-J, StableLM, MPT and the hybrid Granite of transformers 5.23 " +
		"make their masks " +
		"as all decoders do",
	Source: "models/opt/modeling_opt.py, models/falcon/modeling_falcon.py, models/bloom/modeling_bloom.py, " +
		"models/t5/modeling_t5.py, models/gptj/modeling_gptj.py, models/stablelm/modeling_stablelm.py, " +
		"models/granitemoehybrid/modeling_granitemoehybrid.py, models/mpt/modeling_mpt.py " +
		"(create_causal_mask), " +
		"4.57.6 and 5.23.0",
	Shown: "traces of OPT, Falcon, Bloom, T5, GPT-J, StableLM, Granite 4 and MPT",
})

// ReturnsProbabilities keeps the probabilities of OPT's and CLIP's eager attention to the end of a layer.
var ReturnsProbabilities = arch.Of(func(a *arch.Architecture, by arch.Use) bool {
	if a.SDPAOnly || !a.EagerOnly {
		return by.Attention == step.AttentionEager && (!a.SDPAOnly || a.Interfaced != 0)
	}
	return true
}, release.Declare("returns-probabilities", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "attention of OPT and CLIP in transformers 5.10 returns the probabilities where it is eager: they " +
		"stay to the end of a layer",
	Source: "models/opt/modeling_opt.py (OPTAttention), models/clip/modeling_clip.py (CLIPAttention), " +
		"4.57.6 and 5.23.0",
	Shown: "traces of OPT and CLIP with eager attention",
}))

// LeavesLogits is GPT-J and the hybrid Granite without a cast of the logits in the model.
var LeavesLogits = release.Declare("leaves-logits", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "GPT-J and the hybrid Granite of transformers 5.10 leave it to the loss to make logits float32",
	Source: "models/gptj/modeling_gptj.py (GPTJForCausalLM.forward), " +
		"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
	Shown: "traces of GPT-J and Granite 4",
})

// BatchWithMask is what the Trainer's collators put on the GPU: ids, an all-ones mask, labels.
func BatchWithMask(t *step.Tape) []step.T {
	n := t.Shape.N()
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64)}
}

// PositionNumbers are the positions of the tokens: a row of numbers, to which later releases add what a cache has seen.
// Source: transformers/models/llama/modeling_llama.py (LlamaModel.forward), 4.57 and 5.23.
func PositionNumbers(t *step.Tape) step.T { return PositionNumbersOf(t, t.Shape.Tokens) }

// OffsetsPositions adds what the cache has seen to the positions, which are so made twice.
var OffsetsPositions = release.Declare("offsets-positions", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What:   "transformers 5.23 adds what the cache has seen to the positions",
	Source: "models/llama/modeling_llama.py (LlamaModel.forward), 4.57.6 and 5.23.0",
	Shown:  "traces of all decoders",
})

// PositionNumbersOf is PositionNumbers of n tokens.
func PositionNumbersOf(t *step.Tape, n int64) step.T {
	positions := t.Input(n, step.I64)
	if !t.Recipe.Software.Has(OffsetsPositions) {
		return positions
	}
	moved := t.Input(n, step.I64)
	t.Drop(positions)
	return moved
}

// sumsMask looks at an all-ones mask with a sum instead of all().
var sumsMask = release.Declare("sums-mask", release.Change{
	Library: "transformers", After: "5.13", From: "5.14",
	What:   "transformers looks at an all-ones mask with a sum",
	Source: "masking_utils.py (fast_all), 5.13.0 and 5.14.0",
	Shown:  "traces of all decoders, and steps of 5.17 on an H200",
})

// looksAtMask asks whether a mask of n tokens a sequence is all ones. A sum first copies it to integers.
// Source: transformers/masking_utils.py (_ignore_causal_mask_sdpa, 4.57; fast_all, 5.23).
func looksAtMask(t *step.Tape, n int64) {
	if !t.Recipe.Software.Has(sumsMask) {
		t.Drop(t.Input(1, step.Bool))
		return
	}
	sum := t.Input(1, step.I64)
	t.SumScratch(t.Shape.Batch * n)
	equal := t.Input(1, step.Bool)
	t.Drop(sum, equal)
}

// CausalMask is create_causal_mask or, where there is a window, its sliding-window sister: nothing but a look at the
// all-ones mask where attention can be told "causal" instead (and of the window, too, where the flash-attn package
// computes it), else a mask for every sequence, boolean for sdpa and additive for eager. It returns nil where there is
// none. Source: transformers/masking_utils.py, 4.57.
func CausalMask(t *step.Tape, window int64, d step.DType) *step.T {
	return MaskOf(t, TokensOfMask{t.Shape.Tokens, window, t.Recipe.ExplicitMask}, d, true)
}

// TokensOfMask are those that a mask is made for.
type TokensOfMask struct {
	Count, window int64
	padded        bool // some of them are padding
}

// broadcastsMask makes masks of rows and columns that are broadcast, not of single indices.
var broadcastsMask = release.Declare("broadcasts-mask", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What:   "transformers 5.23 makes masks by broadcasting rows over columns",
	Source: "masking_utils.py (sdpa_mask), 4.57.6 and 5.23.0",
	Shown:  "traces of Llama with padding, Mistral and Gemma 3",
})

// MaskOf is CausalMask; skips says that a mask of full sequences may be left out.
func MaskOf(t *step.Tape, of TokensOfMask, d step.DType, skips bool) *step.T {
	n, b, window := of.Count, t.Shape.Batch, of.window
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	if t.Recipe.Compile { // the all-ones mask is not looked at, and so is merged into an additive one
		mask := t.Input(b*n*n, t.Recipe.Compute)
		return &mask
	}
	windowed := window > 0 && n >= window && t.Recipe.Attention != step.AttentionFlash
	eager := t.Recipe.Attention == step.AttentionEager
	given := in(b*n, step.Bool)
	if !windowed && !eager && skips {
		looksAtMask(t, n)
		if !of.padded {
			t.Drop(given)
			return nil
		}
	}
	if t.Recipe.Software.Has(sumsMask) && !windowed && !eager && skips {
		looksAtMask(t, n) // once more, at the tokens up to the last query
	}
	var indices [4]step.T
	vector := n // of ones that the condition begins with
	if t.Recipe.Software.Has(broadcastsMask) {
		indices, vector = [4]step.T{in(b, step.I64), in(1, step.I64), PositionNumbersOf(t, n),
			PositionNumbersOf(t, n)}, 1
	} else {
		indices = [4]step.T{in(n, step.I64), in(b, step.I64), in(1, step.I64), step.NoTensor}
	}
	ones := in(vector, step.Bool)
	var within step.T
	if window > 0 {
		ones2 := in(vector, step.Bool)
		shifted := in(n, step.I64)
		near := in(n*n, step.Bool)
		t.Drop(shifted)
		within = in(n*n, step.Bool)
		t.Drop(near, ones2)
	}
	past := in(n*n, step.Bool)
	causal := in(n*n, step.Bool)
	t.Drop(past)
	if window > 0 {
		t.Drop(within)
		both := in(n*n, step.Bool)
		t.Drop(causal)
		causal = both
	}
	t.Drop(ones)
	padding := PaddingOfKeys(t, n)
	mask := in(b*n*n, step.Bool)
	t.Drop(padding, causal)
	for _, index := range indices {
		t.Drop(index)
	}
	if eager {
		mask = Additive(t, mask, d)
	}
	t.Drop(given)
	return &mask
}

// MultipliesAngles computes the angles of rotary embeddings by an elementwise product instead of a batched one.
var MultipliesAngles = release.Declare("multiplies-angles", release.Change{
	Library: "transformers", After: "5.17", From: "5.23",
	What:   "transformers 5.23 computes rotary angles by an elementwise product",
	Source: "models/llama/modeling_llama.py (LlamaRotaryEmbedding.forward), 4.57.6 and 5.23.0",
	Shown:  "traces of all decoders",
})

// RotaryTables is the model's rotary_emb: cosines and sines for every position, in float32 and then in d.
func RotaryTables(t *step.Tape, dim int64, d step.DType) (cos, sin step.T) {
	t.Modules(1)
	n := t.Shape.Tokens
	positions := t.Table(n, step.F32)
	angles := t.Table(n*dim/2, step.F32)
	if t.Recipe.Software.Has(MultipliesAngles) {
		t.Drop(positions)
	} else {
		t.Workspace()
	}
	both := t.Table(n*dim, step.F32)
	wave := func() step.T {
		raw := t.Table(n*dim, step.F32)
		scaled := t.Table(n*dim, step.F32)
		t.Drop(raw)
		return scaled
	}
	cos = wave()
	sin = wave()
	if d != step.F32 {
		c, s := t.Table(n*dim, d), t.Table(n*dim, d)
		t.Drop(cos, sin)
		cos, sin = c, s
	}
	if !t.Recipe.Software.Has(MultipliesAngles) {
		t.Drop(positions)
	}
	t.Drop(angles, both)
	return cos, sin
}

// TriangularMask is _update_causal_mask of the decoders that still build their mask themselves: nothing but a look
// at the all-ones mask for sdpa, else an additive mask in d for every sequence.
// Source: transformers/models/gptj/modeling_gptj.py (_prepare_4d_causal_attention_mask_with_cache_position), 4.57.
func TriangularMask(t *step.Tape, d step.DType) *step.T {
	if t.Recipe.Attention != step.AttentionEager {
		ones := t.Input(t.Shape.N(), step.Bool)
		t.Drop(t.Input(1, step.Bool))
		t.Drop(ones)
		if !t.Recipe.ExplicitMask {
			return nil
		}
	}
	mask := additiveTriangle(t, d)
	if t.Recipe.Attention == step.AttentionSDPA {
		mask = unmaskUnattended(t, mask)
	}
	return &mask
}

// additiveTriangle is the mask itself.
func additiveTriangle(t *step.Tape, d step.DType) step.T {
	return AdditiveTriangleOf(t, t.Shape.Tokens, d, d)
}

// AdditiveTriangleOf is the same of n tokens, with the batch's mask added in the type sum.
func AdditiveTriangleOf(t *step.Tape, n int64, d, sum step.DType) step.T {
	b := t.Shape.Batch
	square := t.Input(n*n, d)
	if n > 1 {
		triangle := t.Input(n*n, d)
		t.Drop(square)
		square = triangle
	}
	columns := t.Input(n, step.I64)
	t.Drop(t.Input(n*n, step.Bool))
	t.Drop(columns)
	mask := t.Input(b*n*n, d)
	t.Drop(square)
	padding := t.Input(b*n*n, sum)
	padded := t.Input(b*n*n, step.Bool)
	t.Drop(padding)
	t.Drop(t.Input(b*n*n, d))
	t.Drop(padded)
	return mask
}

// unmaskUnattended lets tokens that see nothing see everything, which sdpa's kernel needs. It takes over mask.
// Source: transformers/modeling_attn_mask_utils.py (_unmask_unattended), 4.57.
func unmaskUnattended(t *step.Tape, mask step.T) step.T {
	rows := t.Shape.N()
	hidden := t.Input(mask.Numel(), step.Bool)
	all := t.Input(rows, step.Bool)
	t.Drop(hidden)
	some := t.Input(rows, step.Bool)
	t.Drop(all)
	out := t.Input(mask.Numel(), mask.Dtype())
	t.Drop(some, mask)
	return out
}

// MaskPositions counts the positions of the tokens in the all-ones mask: cumsum(mask)·mask − 1.
func MaskPositions(t *step.Tape) step.T {
	sum := t.CumulativeSum(t.Shape.Batch, t.Shape.Tokens)
	product := t.Input(t.Shape.N(), step.I64)
	positions := t.Input(t.Shape.N(), step.I64)
	t.Drop(sum, product)
	return positions
}
