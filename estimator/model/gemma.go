package model

import "github.com/vramplan/vramplan/estimator/step"

// Gemma: embeddings times √d, norms that count from 1 and a GELU in the gate.
// Source: transformers/models/gemma/modeling_gemma.py, configuration_gemma.py, 4.57.
var gemmaFamily = family{modelType: "gemma", planned: true, keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 3072.0, "intermediate_size": 24576.0, "num_hidden_layers": 28.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 16.0, "head_dim": 256.0, "hidden_act": "gelu_pytorch_tanh",
		"max_position_embeddings": 8192.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
		"attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.normalize, with.scaleEmbedding = norm.gemma, b.gemmaScale()
		return b.decoder(with)
	}}

// softCaps are what of Gemma 2 and 3 is bounded by a tanh: the scores of eager attention, and the logits.
type softCaps struct{ scores, logits bool }

var gemma2Family = family{modelType: "gemma2", planned: true, keys: commonKeys, classes: classifyingLM,
	build: buildGemma2,
	defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0,
		"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0,
		"hidden_activation":       "gelu_pytorch_tanh",
		"max_position_embeddings": 8192.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
		"attention_dropout": 0.0, "sliding_window": 4096.0, "final_logit_softcapping": 30.0,
		"attn_logit_softcapping": 50.0},
	read: func(c *config, a *Architecture) {
		c.gemma2(a)
		c.layerTypes(a, everyNth(2))
		a.CapsScores = true
		a.own = softCaps{scores: c.number("attn_logit_softcapping"), logits: c.number("final_logit_softcapping")}
	}}

var gemma3TextFamily = family{modelType: "gemma3_text", planned: true, keys: commonKeys, classes: scoringLM,
	build: buildGemma3, read: readGemma3,
	defaults: gemma3Defaults}

// Source: transformers/models/gemma3/configuration_gemma3.py (Gemma3TextConfig), 4.57.
var gemma3Defaults = map[string]any{
	"vocab_size": 262208.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 26.0,
	"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "hidden_activation": "gelu_pytorch_tanh",
	"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
	"attention_dropout": 0.0, "sliding_window": 4096.0, "sliding_window_pattern": 6.0,
	"use_bidirectional_attention": false}

func readGemma3(c *config, a *Architecture) {
	c.gemma2(a)
	a.QKNorm = true
	if pattern := c.integer("sliding_window_pattern", maxLayers); pattern > 0 {
		c.layerTypes(a, everyNth(pattern))
	}
	a.own = softCaps{logits: c.number("final_logit_softcapping")}
	if c.boolean("use_bidirectional_attention") {
		c.errs.Add(c.pointer+"/use_bidirectional_attention", "unsupported",
			"attention to later tokens is not modelled; set it to false")
	}
}

// gemma2 reads what Gemma 2 and 3 share. In training neither fills a cache, whatever use_cache says, in evaluation
// both do.
// Source: transformers/models/gemma3/modeling_gemma3.py (Gemma3TextModel.forward), 4.57.
func (c *config) gemma2(a *Architecture) {
	c.decoder(a, "hidden_activation")
	a.QKVBias = c.boolean("attention_bias")
	a.OutBias = a.QKVBias
	a.SlidingWindow = c.integer("sliding_window", maxRows)
	a.UseCache, a.CachesInTrainingLater, a.CachesInEvaluation = false, a.UseCache, a.UseCache
}

// likeGemma2 are the traits of Gemma 2 and 3: a norm in front of and behind both branches, and bounded logits.
func likeGemma2(a *Architecture) traits {
	with, caps := likeLlama(), a.own.(softCaps)
	with.declare, with.block, with.normalize = declareGemma2, (*decoder).sandwich, norm.gemma
	with.softCap = caps.scores
	if caps.logits {
		with.scaleLogits = (*step.Tape).SoftCapLogits
	}
	return with
}

func buildGemma2(b *builder) step.Network {
	with := likeGemma2(b.a)
	with.scaleEmbedding = b.gemmaScale()
	return b.decoder(with)
}

// gemmaScale is where the embeddings of Gemma and Gemma 2 are scaled.
// Source: transformers/models/gemma/modeling_gemma.py (GemmaModel.forward, 4.57; GemmaTextScaledWordEmbedding, 5.23).
func (b *builder) gemmaScale() embeddingScale {
	if b.a.Software.ScalesInEmbedding {
		return scaledByModule
	}
	return scaledAsHidden
}

func buildGemma3(b *builder) step.Network {
	with := likeGemma2(b.a)
	with.scaleEmbedding, with.localTables, with.project = scaledByModule, true, (*decoder).projectThenNorm
	return b.decoder(with)
}

// declareGemma2 lists the modules of Gemma2DecoderLayer and, with the norms of queries and keys, Gemma3DecoderLayer.
func declareGemma2(b *builder, l *decoderLayer) {
	declareLlama(b, l)
	l.preFeedforwardNorm = b.norm("pre_feedforward_layernorm", b.a.Hidden, false)
	l.postFeedforwardNorm = b.norm("post_feedforward_layernorm", b.a.Hidden, false)
}

// sandwich is x + post_attention_layernorm(self_attn(input_layernorm(x))), and the same around the MLP.
func (m *decoder) sandwich(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addNormed(t, x, attn, l.postAttentionNorm)

	h = m.normalize(l.preFeedforwardNorm, t, middle)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := m.addNormed(t, middle, mlp, l.postFeedforwardNorm)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// addNormed is residual + norm(branch). It takes over the branch.
func (m *decoder) addNormed(t *step.Tape, residual, branch step.T, g norm) step.T {
	normed := m.normalize(g, t, branch)
	t.Drop(branch)
	y := t.Add(residual, normed, step.LabelResidual)
	t.Drop(normed)
	return y
}
