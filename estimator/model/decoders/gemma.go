package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GemmaFamily is Gemma: embeddings times √d, norms that count from 1 and a GELU in the gate.
// Source: transformers/models/gemma/modeling_gemma.py, configuration_gemma.py, 4.57.
var GemmaFamily = arch.Family{ModelType: "gemma", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 3072.0, "intermediate_size": 24576.0, "num_hidden_layers": 28.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 16.0, "head_dim": 256.0, "hidden_act": "gelu_pytorch_tanh",
		"max_position_embeddings": 8192.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
		"attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Normalize, with.ScaleEmbedding = arch.Norm.Gemma, gemmaScale(b)
		return blocks.BuildDecoder(b, with)
	}}

// SoftCaps are what of Gemma 2 and 3 is bounded by a tanh: the scores of eager attention, and the logits.
type SoftCaps struct{ scores, Logits bool }

// Gemma2Family is Gemma 2: windows in every other layer, norms before and behind attention and MLP, and bounded logits.
var Gemma2Family = arch.Family{ModelType: "gemma2", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Build: buildGemma2,
	Defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0,
		"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0,
		"hidden_activation":       "gelu_pytorch_tanh",
		"max_position_embeddings": 8192.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
		"attention_dropout": 0.0, "sliding_window": 4096.0, "final_logit_softcapping": 30.0,
		"attn_logit_softcapping": 50.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = readGemma2(c, a)
		a = c.LayerTypes(a, arch.EveryNth(2))
		a.CapsScores = true
		a.Own = SoftCaps{scores: c.Number("attn_logit_softcapping"), Logits: c.Number("final_logit_softcapping")}
		return a
	}}

// Gemma3TextFamily is the text model of Gemma 3: Gemma 2 with norms over each head of queries and keys.
var Gemma3TextFamily = arch.Family{ModelType: "gemma3_text", Planned: true, Keys: arch.CommonKeys, Classes: arch.ScoringLM,
	Build: BuildGemma3, Read: ReadGemma3,
	Defaults: Gemma3Defaults}

// Gemma3Defaults are those of Gemma3TextConfig. Source: transformers/models/gemma3/configuration_gemma3.py, 4.57.
var Gemma3Defaults = map[string]any{
	"vocab_size": 262208.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0,
	"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "hidden_activation": "gelu_pytorch_tanh",
	"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
	"attention_dropout": 0.0, "sliding_window": 4096.0, "sliding_window_pattern": 6.0,
	"use_bidirectional_attention": false}

// ReadGemma3 reads Gemma3TextConfig.
func ReadGemma3(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = readGemma2(c, a)
	a.QKNorm = true
	if pattern := c.Integer("sliding_window_pattern", arch.MaxLayers); pattern > 0 {
		a = c.LayerTypes(a, arch.EveryNth(pattern))
	}
	a.Own = SoftCaps{Logits: c.Number("final_logit_softcapping")}
	if c.Boolean("use_bidirectional_attention") {
		c.Errs.Add(c.Pointer+"/use_bidirectional_attention", "unsupported",
			"attention to later tokens is not modelled; set it to false")
	}
	return a
}

// readGemma2 reads what Gemma 2 and 3 share. In training neither fills a cache, whatever use_cache says, in evaluation
// both do.
// Source: transformers/models/gemma3/modeling_gemma3.py (Gemma3TextModel.forward), 4.57.
func readGemma2(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = blocks.ReadDecoder(c, a, "hidden_activation")
	a.QKVBias = c.Boolean("attention_bias")
	a.OutBias = a.QKVBias
	a.SlidingWindow = c.Integer("sliding_window", arch.MaxRows)
	a.UseCache, a.CachesInTrainingLater, a.CachesInEvaluation = false, a.UseCache, a.UseCache
	return a
}

// likeGemma2 are the traits of Gemma 2 and 3: a norm in front of and behind both branches, and bounded logits.
func likeGemma2(a *arch.Architecture) blocks.Traits {
	with, caps := blocks.LikeLlama(), a.Own.(SoftCaps)
	with.Declare, with.Block, with.Normalize = declareGemma2, sandwich, arch.Norm.Gemma
	with.Eager.SoftCap = caps.scores
	if caps.Logits {
		with.ScaleLogits = (*step.Tape).SoftCapLogits
	}
	return with
}

func buildGemma2(b *arch.Builder) step.Network {
	with := likeGemma2(b.A)
	with.ScaleEmbedding = gemmaScale(b)
	return blocks.BuildDecoder(b, with)
}

// scalesInEmbedding scales Gemma's embeddings in the module of the embedding, by a buffer.
var scalesInEmbedding = release.Declare("scales-in-embedding", release.Change{
	Library: "transformers", After: "5.0", From: "5.10",
	What:   "transformers 5.23 scales Gemma's embeddings in their own module, by a buffer",
	Source: "models/gemma/modeling_gemma.py (GemmaTextScaledWordEmbedding), 4.57.6 and 5.23.0",
	Shown:  "traces of Gemma",
})

// gemmaScale is where the embeddings of Gemma and Gemma 2 are scaled.
// Source: transformers/models/gemma/modeling_gemma.py (GemmaModel.forward, 4.57; GemmaTextScaledWordEmbedding, 5.23).
func gemmaScale(b *arch.Builder) blocks.EmbeddingScale {
	if b.A.Software.Has(scalesInEmbedding) {
		return blocks.ScaledByModule
	}
	return blocks.ScaledAsHidden
}

// BuildGemma3 declares Gemma3ForCausalLM.
func BuildGemma3(b *arch.Builder) step.Network {
	with := likeGemma2(b.A)
	with.ScaleEmbedding, with.LocalTables, with.Project = blocks.ScaledByModule, true, (*blocks.Decoder).ProjectThenNorm
	return blocks.BuildDecoder(b, with)
}

// declareGemma2 lists the modules of Gemma2DecoderLayer and, with the norms of queries and keys, Gemma3DecoderLayer.
func declareGemma2(b *arch.Builder, l *blocks.DecoderLayer) {
	blocks.DeclareLlama(b, l)
	l.PreFeedforwardNorm = b.Norm("pre_feedforward_layernorm", b.A.Hidden, false)
	l.PostFeedforwardNorm = b.Norm("post_feedforward_layernorm", b.A.Hidden, false)
}

// sandwich is x + post_attention_layernorm(self_attn(input_layernorm(x))), and the same around the MLP.
func sandwich(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.Attention(t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := AddNormed(m, t, x, attn, l.PostAttentionNorm)

	h = m.Normalize(l.PreFeedforwardNorm, t, middle)
	t.In(step.PartMLP)
	mlp := m.MLP(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := AddNormed(m, t, middle, mlp, l.PostFeedforwardNorm)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// AddNormed is residual + norm(branch). It takes over the branch.
func AddNormed(m *blocks.Decoder, t *step.Tape, residual, branch step.T, g arch.Norm) step.T {
	normed := m.Normalize(g, t, branch)
	t.Drop(branch)
	y := t.Add(residual, normed, step.LabelResidual)
	t.Drop(normed)
	return y
}
