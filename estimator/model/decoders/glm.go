package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// GLMFamily is GLM: Llama with one matrix for gate and up, and rotary positions that turn neighbours in a part of
// every head. Source: transformers/models/glm/modeling_glm.py, configuration_glm.py, 4.57.
var GLMFamily = arch.Family{ModelType: "glm", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: glmDefaults, Read: readGLM,
	Build: func(b *arch.Builder) step.Network {
		with := likeGLM(b.A)
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) {
			declareGLM(b, l)
			l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
			l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
		}
		return blocks.BuildDecoder(b, with)
	}}

// GLM4Family is GLM 4 of 2025: with norms behind attention and MLP, too.
// Source: transformers/models/glm4/modeling_glm4.py, configuration_glm4.py, 4.57.
var GLM4Family = arch.Family{ModelType: "glm4", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: glmDefaults, Read: readGLM,
	Build: func(b *arch.Builder) step.Network {
		with := likeGLM(b.A)
		with.Block = sandwich
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) {
			declareGLM(b, l)
			l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
			l.PreFeedforwardNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
			l.PostAttentionNorm = b.Norm("post_self_attn_layernorm", b.A.Hidden, false)
			l.PostFeedforwardNorm = b.Norm("post_mlp_layernorm", b.A.Hidden, false)
		}
		return blocks.BuildDecoder(b, with)
	}}

var glmDefaults = map[string]any{
	"vocab_size": 151552.0, "hidden_size": 4096.0, "intermediate_size": 13696.0, "num_hidden_layers": 40.0,
	"num_attention_heads": 32.0, "num_key_value_heads": 2.0, "partial_rotary_factor": 0.5, "head_dim": 128.0,
	"hidden_act":        "silu",
	"attention_dropout": 0.0, "max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": false,
	"attention_bias": true}

func readGLM(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = blocks.ReadLlama(c, a)
	a.Rotary = false // said of the part that is turned
	a.QKVBias = c.Boolean("attention_bias")
	a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, true)}
	return a
}

func likeGLM(a *arch.Architecture) blocks.Traits {
	with := blocks.LikeLlama()
	with.FeedForward = fusedMLP
	with.Rotate = func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
		return rotateNeighbours(t, a, q, k, w)
	}
	return with
}

// declareGLM lists the modules of a layer in front of its norms.
func declareGLM(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	l.GateUp, l.Down = b.Linear("mlp.gate_up_proj", a.Hidden, 2*a.FFN, false),
		b.Linear("mlp.down_proj", a.FFN, a.Hidden, false)
}

// rotateNeighbours is GLM's apply_rotary_pos_emb, which repeats the first half of cosines and sines for neighbours.
func rotateNeighbours(t *step.Tape, a *arch.Architecture, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	n := t.Shape.Tokens * a.RotaryWidth()
	cos, sin := t.Table(n, w.Cos.Dtype()), t.Table(n, w.Sin.Dtype())
	return RotateAndJoin(t, a, q, k, cos, sin, cos, sin)
}

// RotateAndJoin turns a part of every head and joins the rest to queries and then to keys, which takes what was turned
// out of its variable. Locals go with the function's other variables.
func RotateAndJoin(t *step.Tape, a *arch.Architecture, q, k, cos, sin step.T, locals ...step.T) (qr, kr step.T) {
	p := blocks.Rotary(a)
	qs, ks := p.Split(t, q, a.HeadDim), p.Split(t, k, a.HeadDim)
	qe, ke := t.Rotary(qs.Turned, cos, sin), t.Rotary(ks.Turned, cos, sin)
	qr = t.JoinHeads(qe, qs.Rest)
	t.Drop(qe)
	kr = t.JoinHeads(ke, ks.Rest)
	t.Drop(ke)
	t.Drop(locals...)
	qs.Drop(t)
	ks.Drop(t)
	return qr, kr
}
