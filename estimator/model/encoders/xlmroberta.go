package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// XLM-RoBERTa and CamemBERT: RoBERTa of other words, whose modules later releases name in another order.
// Source: transformers/models/xlm_roberta/modeling_xlm_roberta.py, models/camembert/modeling_camembert.py, 4.57 and
// 5.23, and their configuration classes.
var (
	XLMRoBERTaFamily = likeRoBERTa("xlm-roberta", 30522, buildXLMRoBERTa)
	CamemBERTFamily  = likeRoBERTa("camembert", 30522, buildXLMRoBERTa)
)

// buildXLMRoBERTa is RoBERTa, with the head declared before the model where the release does so; a head for masked
// words has the table of words then.
func buildXLMRoBERTa(b *arch.Builder) step.Network {
	if !b.A.Software.DeclaresHeadsFirst || b.A.Class == arch.ClassBase {
		return buildRoBERTa(b)
	}
	var head bert
	words := step.NoWeight
	head.a = b.A
	robertaHead(b, &head, func() step.Weight {
		words = buildWords(b)
		return words
	})
	if !words.Exists() {
		words = buildWords(b)
	}
	m := bertAround(b, words)
	m.positionIDs, m.classify, m.masked, m.tokens = head.positionIDs, head.classify, head.masked, head.tokens
	return m
}
