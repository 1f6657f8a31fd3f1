package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// interfacesNemotron is Nemotron whose masks and attention are the library's.
var interfacesNemotron = release.Declare("interfaces-nemotron", release.Change{
	Library: "transformers", After: "5.10", From: "5.14",
	What: "the masks and the attention of Nemotron in transformers 5.17 go through the library's interfaces; " +
		"before, it made its own mask and repeated grouped keys and values for every kernel",
	Source: "models/nemotron/modeling_nemotron.py (NemotronSdpaAttention, NemotronModel), 4.57.6, 5.0.0, 5.10.0 " +
		"(which has the masks alone) and 5.17.0",
	Shown: "traces of Nemotron, and a step of 5.17 on an H200",
})

// NemotronFamily is Nemotron: Llama's attention with rotary positions in a part of every head, between LayerNorms that
// count from 1, and an MLP of squared ReLU without a gate. Source: transformers/models/nemotron/modeling_nemotron.py,
// configuration_nemotron.py, 4.57 and 5.23.
var NemotronFamily = arch.Family{ModelType: "nemotron", Classes: arch.ClassifyingLM,
	Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 6144.0, "intermediate_size": 24576.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 48.0, "hidden_act": "relu2", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "partial_rotary_factor": 0.5, "attention_bias": false,
		"attention_dropout": 0.0, "mlp_bias": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.Gated, a.NormBias, a.MLPBias = false, true, c.Boolean("mlp_bias")
		a.Rotary = false // said of the part that is turned
		a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, true)}
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Normalize, with.NormBias = declareNemotron, fromOne, true
		with.Rotate = func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
			return rotatePart(t, b.A, q,
				k, w)
		}
		if !b.A.Software.Has(interfacesNemotron) {
			with.Repeats, with.Project = true, (*blocks.Decoder).ProjectFirst
			with.MakeMask = func(t *step.Tape, _ int64, d step.DType) *step.T { return blocks.TriangularMask(t, d) }
		}
		return blocks.BuildDecoder(b, with)
	}}

// declareNemotron lists the modules of NemotronDecoderLayer.
func declareNemotron(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	blocks.DeclareProjections(b, l)
	l.Up, l.Down = b.Linear("mlp.up_proj", d, a.FFN, a.MLPBias), b.Linear("mlp.down_proj", a.FFN, d, a.MLPBias)
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, true), b.Norm("post_attention_layernorm", d, true)
}

// fromOne is NemotronLayerNorm1P.
func fromOne(m arch.Norm, t *step.Tape, x step.T) step.T { return t.LayerNormFromOne(x, m.W, m.B) }

// rotatePart is an apply_rotary_pos_emb that turns the first elements of every head and joins the others to them.
func rotatePart(t *step.Tape, a *arch.Architecture, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	p := blocks.Rotary(a)
	qs, ks := p.Split(t, q, a.HeadDim), p.Split(t, k, a.HeadDim)
	qe, ke := t.Rotary(qs.Turned, w.Cos, w.Sin), t.Rotary(ks.Turned, w.Cos, w.Sin)
	qr, kr = t.JoinHeads(qe, qs.Rest), t.JoinHeads(ke, ks.Rest)
	t.Drop(qe, ke)
	qs.Drop(t)
	ks.Drop(t)
	return qr, kr
}
