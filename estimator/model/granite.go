package model

import "github.com/vramplan/vramplan/estimator/step"

// Granite: Llama with multipliers on the embeddings, on what attention and MLP add, and under the logits.
// Source: transformers/models/granite/modeling_granite.py, configuration_granite.py, 4.57.
var graniteFamily = family{modelType: "granite", planned: true, keys: commonKeys,
	defaults: llamaFamily.defaults,
	read:     llamaFamily.read,
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.scaleEmbedding, with.scaleBranches, with.scaleLogits = scaledByModel, true, (*step.Tape).ScaleLogits
		return b.decoder(with)
	}}
