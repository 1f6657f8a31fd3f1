package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// GraniteFamily is Granite: Llama with multipliers on the embeddings, on what attention and MLP add, and under the
// logits. Source: transformers/models/granite/modeling_granite.py, configuration_granite.py, 4.57.
var GraniteFamily = arch.Family{ModelType: "granite", Planned: true, Keys: arch.CommonKeys,
	Defaults: LlamaFamily.Defaults,
	Read:     LlamaFamily.Read,
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.ScaleEmbedding, with.ScaleBranches, with.ScaleLogits = blocks.ScaledByModel, true, (*step.Tape).ScaleLogits
		return blocks.BuildDecoder(b, with)
	}}
