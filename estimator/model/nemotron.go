package model

import "github.com/vramplan/vramplan/estimator/step"

// Nemotron: Llama's attention with rotary positions in a part of every head, between LayerNorms that count from 1, and
// an MLP of squared ReLU without a gate.
// Source: transformers/models/nemotron/modeling_nemotron.py, configuration_nemotron.py, 4.57 and 5.23.
var nemotronFamily = family{modelType: "nemotron", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 6144.0, "intermediate_size": 24576.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 48.0, "hidden_act": "relu2", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "partial_rotary_factor": 0.5, "attention_bias": false,
		"attention_dropout": 0.0, "mlp_bias": false},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.Gated, a.NormBias, a.MLPBias = false, true, c.boolean("mlp_bias")
		a.Rotary = false // said of the part that is turned
		a.own = &partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, true)}
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.normalize, with.normBias = declareNemotron, norm.fromOne, true
		with.rotate = func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) { return rotatePart(t, b.a, q, k, w) }
		if !b.a.Software.InterfacesNemotron {
			with.repeats, with.project = true, (*decoder).projectFirst
			with.makeMask = func(t *step.Tape, _ int64, d step.DType) *step.T { return triangularMask(t, d) }
		}
		return b.decoder(with)
	}}

// declareNemotron lists the modules of NemotronDecoderLayer.
func declareNemotron(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	b.projections(l)
	l.up, l.down = b.linear("mlp.up_proj", d, a.FFN, a.MLPBias), b.linear("mlp.down_proj", a.FFN, d, a.MLPBias)
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, true), b.norm("post_attention_layernorm", d, true)
}

// fromOne is NemotronLayerNorm1P.
func (m norm) fromOne(t *step.Tape, x step.T) step.T { return t.LayerNormFromOne(x, m.w, m.b) }

// rotatePart is an apply_rotary_pos_emb that turns the first elements of every head and joins the others to them.
func rotatePart(t *step.Tape, a *Architecture, q, k step.T, w *around) (qr, kr step.T) {
	p := a.rotary()
	qs, ks := p.split(t, q, a.HeadDim), p.split(t, k, a.HeadDim)
	qe, ke := t.Rotary(qs.turned, w.cos, w.sin), t.Rotary(ks.turned, w.cos, w.sin)
	qr, kr = t.JoinHeads(qe, qs.rest), t.JoinHeads(ke, ks.rest)
	t.Drop(qe, ke)
	qs.drop(t)
	ks.drop(t)
	return qr, kr
}
