package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// XLM-RoBERTa and CamemBERT: RoBERTa of other words, whose modules later releases name in another order.
// Source: transformers/models/xlm_roberta/modeling_xlm_roberta.py, models/camembert/modeling_camembert.py, 4.57 and
// 5.23, and their configuration classes.
var (
	XLMRoBERTaFamily = likeRoBERTa("xlm-roberta", 30522, buildXLMRoBERTa)
	CamemBERTFamily  = likeRoBERTa("camembert", 30522, buildXLMRoBERTa)
)

// declaresHeadsFirst names the heads of XLM-RoBERTa and CamemBERT before the model.
var declaresHeadsFirst = release.Declare("declares-heads-first", release.Change{
	Library: "transformers", After: "4.57", From: "5.14",
	What: "XLM-RoBERTa and CamemBERT of transformers 5.14 name their heads before the model: these are moved, " +
		"and met by the optimizer, first",
	Source: "models/xlm_roberta/modeling_xlm_roberta.py (XLMRobertaForMaskedLM), 4.57.6 and 5.23.0",
	Shown:  "traces of XLM-RoBERTa and CamemBERT",
})

// buildXLMRoBERTa is RoBERTa, with the head declared before the model where the release does so; a head for masked
// words has the table of words then.
func buildXLMRoBERTa(b *arch.Builder) step.Network {
	if !b.A.Software.Has(declaresHeadsFirst) || b.A.Class == arch.ClassBase {
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
