package model

import "github.com/vramplan/vramplan/estimator/step"

// XLM-RoBERTa and CamemBERT: RoBERTa of other words, whose modules later releases name in another order.
// Source: transformers/models/xlm_roberta/modeling_xlm_roberta.py, models/camembert/modeling_camembert.py, 4.57 and
// 5.23, and their configuration classes.
var (
	xlmRoBERTaFamily = likeRoBERTa("xlm-roberta", 30522, buildXLMRoBERTa)
	camemBERTFamily  = likeRoBERTa("camembert", 30522, buildXLMRoBERTa)
)

// buildXLMRoBERTa is RoBERTa, with the head declared before the model where the release does so; a head for masked
// words has the table of words then.
func buildXLMRoBERTa(b *builder) step.Network {
	if !b.a.Software.DeclaresHeadsFirst || b.a.Class == classBase {
		return buildRoBERTa(b)
	}
	var head bert
	words := step.NoWeight
	head.a = b.a
	b.robertaHead(&head, func() step.Weight {
		words = b.words()
		return words
	})
	if !words.Exists() {
		words = b.words()
	}
	m := b.bertAround(words)
	m.positionIDs, m.classify, m.masked, m.tokens = head.positionIDs, head.classify, head.masked, head.tokens
	return m
}
