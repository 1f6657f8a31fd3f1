package undescribed

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/encoders"
)

// encoderBlock is the block for numbers that describe an encoder: BERT's, with the norms behind attention and MLP
// or before them.
func encoderBlock(a arch.Architecture, d *arch.Dimensions, refuse func(field, detail string)) arch.Architecture {
	position, norm, mlp := pick(d.Position, "learned"), pick(d.Norm, "layernorm"), pick(d.MLP, "gelu")
	if position != "learned" {
		refuse("position", "encoders are modelled with learned positions")
	}
	if norm != "layernorm" {
		refuse("norm", "encoders are modelled with layernorm")
	}
	if mlp != "gelu" && mlp != "gelu_new" && mlp != "relu" {
		refuse("mlp", "encoders are modelled with gelu, gelu_new and relu")
	}
	if a.KVHeads != a.Heads || a.QKNorm {
		refuse("kv_heads", "encoders are modelled with as many key/value heads as heads and without norms on them")
	}
	if a.Heads > 0 && a.HeadDim != a.Hidden/a.Heads {
		refuse("head_dim", "encoders are modelled with heads that share hidden among them")
	}
	options := encoders.EncoderOptions{PositionRows: a.MaxPositions, NormFirst: d.NormPosition == "pre",
		PositionsLast: d.Family != "bert"}
	if d.Family == "bert" {
		options.TypeVocabulary = 2
	}
	a.Described, a.Own, a.Class, a.Labels = &encoders.BERTFamily, &options, arch.ClassMaskedLM, 2
	a.Activation, a.LearnedPositions, a.UseCache = mlp, true, false
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, true, true, true
	a.Tied = d.TiedEmbeddings == nil || *d.TiedEmbeddings
	a.Generic = d.Family != "bert" || options.NormFirst
	return a
}
