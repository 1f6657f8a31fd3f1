package model

import "github.com/vramplan/vramplan/estimator/step"

// apertusFamily is Apertus: Llama with norms over each head of queries and keys and an MLP without a gate, whose
// activation has two parameters.
// Source: transformers/models/apertus/modeling_apertus.py, configuration_apertus.py, 4.57 and 5.23.
var apertusFamily = family{modelType: "apertus", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 131072.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "xielu", "max_position_embeddings": 65536.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.decoder(a, "hidden_act", xielu)
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias, a.QKNorm, a.Gated = a.QKVBias, true, false
	},
	uncompiled: "torch.compile is not modelled for Apertus",
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.project = declareApertus, (*decoder).projectThenNorm
		if b.a.Activation == xielu {
			with.feedForward = (*decoder).xieluMLP
		}
		return b.decoder(with)
	}}

// xielu is what Apertus calls its activation.
const xielu = "xielu"

// declareApertus lists the modules of ApertusDecoderLayer.
func declareApertus(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	b.projections(l)
	l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	l.up, l.down = b.linear("mlp.up_proj", d, a.FFN, false), b.linear("mlp.down_proj", a.FFN, d, false)
	if a.Activation == xielu {
		d := b.loaded()
		l.alphas = [2]step.Weight{b.parameter("mlp.act_fn.alpha_p", 1, 1), b.parameter("mlp.act_fn.alpha_n", 1, 1)}
		if !a.Software.TypesXIELU {
			d = step.BF16
			for _, w := range l.alphas {
				b.p.List[w.Index].Dtype = d
			}
		}
		b.buffer("mlp.act_fn.beta", 1, d)
		b.buffer("mlp.act_fn.eps", 1, d)
	}
	l.inputNorm, l.postAttentionNorm = b.norm("attention_layernorm", d, false),
		b.norm("feedforward_layernorm", d, false)
}

// xieluMLP is ApertusMLP.
func (m *decoder) xieluMLP(t *step.Tape, l *decoderLayer, x step.T) step.T {
	up := l.up.forward(t, x)
	act := t.XIELU(up, l.alphas[0], l.alphas[1])
	t.Drop(up)
	down := l.down.forward(t, act)
	t.Drop(act)
	return down
}
