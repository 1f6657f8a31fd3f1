package encoders

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// interfacesElectra is ELECTRA's attention and masks by the library's interfaces.
var interfacesElectra = release.Declare("interfaces-electra", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "ELECTRA of transformers 5 goes through the library's interfaces: sdpa is its default, and masks are made " +
		"behind the embeddings; before, it had eager attention alone",
	Source: "models/electra/modeling_electra.py (ElectraModel, ElectraSelfAttention), 4.57.6, 5.0.0, 5.10.0 and " +
		"5.23.0",
	Shown: "traces of ELECTRA with 4.57 and 5.23",
})

// ELECTRAFamily is ELECTRA: BERT whose embeddings may be narrower than its layers, without a pooler.
// Source: transformers/models/electra/modeling_electra.py, configuration_electra.py, 4.57 and 5.23.
var ELECTRAFamily = arch.Family{ModelType: "electra",
	Keys: arch.CommonKeys,
	Classes: []string{arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions,
		arch.ClassChoices, arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 30522.0, "embedding_size": 128.0, "hidden_size": 256.0, "num_hidden_layers": 12.0,
		"num_attention_heads": 4.0, "intermediate_size": 1024.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512.0, "type_vocab_size": 2.0,
		"position_embedding_type": "absolute", "summary_last_dropout": 0.1, "tie_word_embeddings": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a, o := readBERT(c, a)
		o.embeddingWidth = c.Integer("embedding_size", arch.MaxWidth)
		o.summaryDropout = c.Probability("summary_last_dropout")
		summary(c, &a)
		a.EagerBefore = interfacesElectra
		a.Own = o
		return a
	},
	Spelled: bertSpelled,
	Numbers: func(p *arch.Preset, c map[string]any) {
		bertNumbers(p, c)
		c["embedding_size"] = float64(cmp.Or(p.WordEmbeddingWidth, p.Hidden))
	},
	Build: func(b *arch.Builder) step.Network {
		d := b.A.Hidden
		m := bertModel(b)
		m.masksFirst = !b.A.Software.Has(interfacesElectra)
		switch b.A.Class {
		case arch.ClassClassification:
			h := classificationHead{a: b.A, dense: b.Linear("classifier.dense", d, d, true),
				out: b.Linear("classifier.out_proj", d, b.A.Labels, true), activate: (*step.Tape).GELU}
			m.classify = h.logits
		case arch.ClassChoices:
			m.classify = summarised(b)
		case arch.ClassMaskedLM:
			m.masked = generatorHead(b, m.words)
		case arch.ClassTokens:
			m.tokens = blocks.BuildTokenHead(b, headDropout(b.A))
		case arch.ClassQuestions:
			m.tokens = blocks.BuildTokenHead(b, 0)
		}
		return m
	}}

// summary refuses other summaries of a sequence than the class has by itself.
func summary(c *arch.Config, a *arch.Architecture) {
	if a.Class != arch.ClassChoices {
		return
	}
	for key, want := range map[string]any{"summary_type": "first", "summary_use_proj": true,
		"summary_activation": "gelu"} {
		if v, given := c.Value(key); given && v != want {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is %s; %v is modelled for multiple choice", key,
				arch.Describe(v),
				want)
		}
	}
}

// summarised is ElectraSequenceSummary, a layer, GELU and dropout over the first token, and a number for each sequence.
func summarised(b *arch.Builder) func(t *step.Tape, x step.T, pooled *step.T) (logits, input step.T) {
	d := b.A.Hidden
	dense, out := b.Linear("sequence_summary.summary", d, d, true), b.Linear("classifier", d, 1, true)
	dropout := encoder(b.A).summaryDropout
	return func(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
		t.In(step.PartMLP)
		first := t.FirstToken(x, d)
		summed := dense.Forward(t, first)
		t.Drop(first)
		act := t.GELU(summed)
		t.Drop(summed)
		dropped := t.Dropout(act, dropout)
		t.Drop(act)
		return out.Forward(t, dropped), dropped
	}
}

// generatorHead is ElectraGeneratorPredictions, as wide as the embeddings, and the layer onto the words.
func generatorHead(b *arch.Builder, words step.Weight) blocks.MaskedHead {
	a, d := b.A, b.A.Hidden
	e := encoder(a).width(d)
	return blocks.MaskedHead{Norm: b.Norm("generator_predictions.LayerNorm", e, true),
		Dense: b.Linear("generator_predictions.dense", d, e, true), Activation: "gelu",
		Out: b.OntoWords("generator_lm_head", func() step.Weight { return words }, e, true)}
}
