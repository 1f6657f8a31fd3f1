package model

import "github.com/vramplan/vramplan/estimator/step"

// GLM: Llama with one matrix for gate and up, and rotary positions that turn neighbours in a part of every head.
// Source: transformers/models/glm/modeling_glm.py, configuration_glm.py, 4.57.
var glmFamily = family{modelType: "glm", keys: commonKeys, classes: classifyingLM,
	defaults: glmDefaults, read: (*config).glm,
	build: func(b *builder) step.Network {
		with := likeGLM(b.a)
		with.declare = func(b *builder, l *decoderLayer) {
			declareGLM(b, l)
			l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
			l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
		}
		return b.decoder(with)
	}}

// GLM 4 of 2025: with norms behind attention and MLP, too.
// Source: transformers/models/glm4/modeling_glm4.py, configuration_glm4.py, 4.57.
var glm4Family = family{modelType: "glm4", keys: commonKeys, classes: classifyingLM,
	defaults: glmDefaults, read: (*config).glm,
	build: func(b *builder) step.Network {
		with := likeGLM(b.a)
		with.block = (*decoder).sandwich
		with.declare = func(b *builder, l *decoderLayer) {
			declareGLM(b, l)
			l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
			l.preFeedforwardNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
			l.postAttentionNorm = b.norm("post_self_attn_layernorm", b.a.Hidden, false)
			l.postFeedforwardNorm = b.norm("post_mlp_layernorm", b.a.Hidden, false)
		}
		return b.decoder(with)
	}}

var glmDefaults = map[string]any{
	"vocab_size": 151552.0, "hidden_size": 4096.0, "intermediate_size": 13696.0, "num_hidden_layers": 40.0,
	"num_attention_heads": 32.0, "num_key_value_heads": 2.0, "partial_rotary_factor": 0.5, "head_dim": 128.0,
	"hidden_act":        "silu",
	"attention_dropout": 0.0, "max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": false,
	"attention_bias": true}

func (c *config) glm(a *Architecture) {
	c.llama(a)
	a.Rotary = false // said of the part that is turned
	a.QKVBias = c.boolean("attention_bias")
	a.own = &partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, true)}
}

func likeGLM(a *Architecture) traits {
	with := likeLlama()
	with.feedForward = (*decoder).fusedMLP
	with.rotate = func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) { return rotateNeighbours(t, a, q, k, w) }
	return with
}

// declareGLM lists the modules of a layer in front of its norms.
func declareGLM(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	l.gateUp, l.down = b.linear("mlp.gate_up_proj", a.Hidden, 2*a.FFN, false),
		b.linear("mlp.down_proj", a.FFN, a.Hidden, false)
}

// rotateNeighbours is GLM's apply_rotary_pos_emb, which repeats the first half of cosines and sines for neighbours.
func rotateNeighbours(t *step.Tape, a *Architecture, q, k step.T, w *around) (qr, kr step.T) {
	n := t.Shape.Tokens * a.rotaryWidth()
	cos, sin := t.Table(n, w.cos.Dtype()), t.Table(n, w.sin.Dtype())
	return rotateAndJoin(t, a, q, k, cos, sin, cos, sin)
}

// rotateAndJoin turns a part of every head and joins the rest to queries and then to keys, which takes what was turned
// out of its variable. Locals go with the function's other variables.
func rotateAndJoin(t *step.Tape, a *Architecture, q, k, cos, sin step.T, locals ...step.T) (qr, kr step.T) {
	p := a.rotary()
	qs, ks := p.split(t, q, a.HeadDim), p.split(t, k, a.HeadDim)
	qe, ke := t.Rotary(qs.turned, cos, sin), t.Rotary(ks.turned, cos, sin)
	qr = t.JoinHeads(qe, qs.rest)
	t.Drop(qe)
	kr = t.JoinHeads(ke, ks.rest)
	t.Drop(ke)
	t.Drop(locals...)
	qs.drop(t)
	ks.drop(t)
	return qr, kr
}
