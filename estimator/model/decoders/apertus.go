package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// ApertusFamily is Apertus: Llama with norms over each head of queries and keys and an MLP without a gate, whose
// activation has two parameters.
// Source: transformers/models/apertus/modeling_apertus.py, configuration_apertus.py, 4.57 and 5.23.
var ApertusFamily = arch.Family{ModelType: "apertus", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 131072.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "xielu", "max_position_embeddings": 65536.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadDecoder(c, a, "hidden_act", xielu)
		a.QKVBias = c.Boolean("attention_bias")
		a.OutBias, a.QKNorm, a.Gated = a.QKVBias, true, false
		return a
	},
	Uncompiled: "torch.compile is not modelled for Apertus",
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Project = declareApertus, (*blocks.Decoder).ProjectThenNorm
		if b.A.Activation == xielu {
			with.FeedForward = xieluMLP
		}
		return blocks.BuildDecoder(b, with)
	}}

// xielu is what Apertus calls its activation.
const xielu = "xielu"

// typesXIELU is Apertus whose activation has its parameters in the type of the model.
var typesXIELU = release.Declare("types-xielu", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "the activation of Apertus in transformers 5.10 has its parameters in the type of the model; before, " +
		"they were bfloat16 whatever the model was",
	Source: "models/apertus/modeling_apertus.py (ApertusMLP.__init__), 4.57.6 and 5.23.0",
	Shown:  "traces of Apertus",
})

// declareApertus lists the modules of ApertusDecoderLayer.
func declareApertus(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	blocks.DeclareProjections(b, l)
	l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	l.Up, l.Down = b.Linear("mlp.up_proj", d, a.FFN, false), b.Linear("mlp.down_proj", a.FFN, d, false)
	if a.Activation == xielu {
		d := b.Loaded()
		l.Alphas = [2]step.Weight{b.Parameter("mlp.act_fn.alpha_p", 1, 1), b.Parameter("mlp.act_fn.alpha_n", 1, 1)}
		if !a.Software.Has(typesXIELU) {
			d = step.BF16
			for _, w := range l.Alphas {
				b.P.List[w.Index].Dtype = d
			}
		}
		b.Buffer("mlp.act_fn.beta", 1, d)
		b.Buffer("mlp.act_fn.eps", 1, d)
	}
	l.InputNorm, l.PostAttentionNorm = b.Norm("attention_layernorm", d, false),
		b.Norm("feedforward_layernorm", d, false)
}

// xieluMLP is ApertusMLP.
func xieluMLP(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, x step.T) step.T {
	up := l.Up.Forward(t, x)
	act := t.XIELU(up, l.Alphas[0], l.Alphas[1])
	t.Drop(up)
	down := l.Down.Forward(t, act)
	t.Drop(act)
	return down
}
