package model

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/step"
)

// ELECTRA: BERT whose embeddings may be narrower than its layers, without a pooler.
// Source: transformers/models/electra/modeling_electra.py, configuration_electra.py, 4.57 and 5.23.
var electraFamily = family{modelType: "electra",
	keys:    commonKeys,
	classes: []string{classMaskedLM, classClassification, classTokens, classQuestions, classChoices, classBase},
	defaults: map[string]any{
		"vocab_size": 30522.0, "embedding_size": 128.0, "hidden_size": 256.0, "num_hidden_layers": 12.0,
		"num_attention_heads": 4.0, "intermediate_size": 1024.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512.0, "type_vocab_size": 2.0,
		"position_embedding_type": "absolute", "summary_last_dropout": 0.1, "tie_word_embeddings": true},
	read: func(c *config, a *Architecture) {
		o := c.bert(a)
		o.embeddingWidth = c.integer("embedding_size", maxWidth)
		o.summaryDropout = c.probability("summary_last_dropout")
		c.summary(a)
		a.EagerFormerly = true
		a.own = o
	},
	spelled: bertSpelled,
	numbers: func(p *Preset, c map[string]any) {
		bertNumbers(p, c)
		c["embedding_size"] = float64(cmp.Or(p.WordEmbeddingWidth, p.Hidden))
	},
	build: func(b *builder) step.Network {
		d := b.a.Hidden
		m := b.bertModel()
		m.masksFirst = !b.a.Software.InterfacesElectra
		switch b.a.Class {
		case classClassification:
			h := classificationHead{a: b.a, dense: b.linear("classifier.dense", d, d, true),
				out: b.linear("classifier.out_proj", d, b.a.Labels, true), activate: (*step.Tape).GELU}
			m.classify = h.logits
		case classChoices:
			m.classify = b.summarised()
		case classMaskedLM:
			m.masked = b.generatorHead(m.words)
		case classTokens:
			m.tokens = b.tokenHead(b.a.headDropout())
		case classQuestions:
			m.tokens = b.tokenHead(0)
		}
		return m
	}}

// summary refuses other summaries of a sequence than the class has by itself.
func (c *config) summary(a *Architecture) {
	if a.Class != classChoices {
		return
	}
	for key, want := range map[string]any{"summary_type": "first", "summary_use_proj": true,
		"summary_activation": "gelu"} {
		if v, given := c.value(key); given && v != want {
			c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is %s; %v is modelled for multiple choice", key,
				describe(v),
				want)
		}
	}
}

// summarised is ElectraSequenceSummary, a layer, GELU and dropout over the first token, and a number for each sequence.
func (b *builder) summarised() func(t *step.Tape, x step.T, pooled *step.T) (logits, input step.T) {
	d := b.a.Hidden
	dense, out := b.linear("sequence_summary.summary", d, d, true), b.linear("classifier", d, 1, true)
	dropout := b.a.encoder().summaryDropout
	return func(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
		t.In(step.PartMLP)
		first := t.FirstToken(x, d)
		summed := dense.forward(t, first)
		t.Drop(first)
		act := t.GELU(summed)
		t.Drop(summed)
		dropped := t.Dropout(act, dropout)
		t.Drop(act)
		return out.forward(t, dropped), dropped
	}
}

// generatorHead is ElectraGeneratorPredictions, as wide as the embeddings, and the layer onto the words.
func (b *builder) generatorHead(words step.Weight) maskedHead {
	a, d := b.a, b.a.Hidden
	e := a.encoder().width(d)
	if b.a.LoRA != nil {
		b.others = append(b.others, "generator_lm_head")
	}
	h := maskedHead{norm: b.norm("generator_predictions.LayerNorm", e, true),
		dense: b.linear("generator_predictions.dense", d, e, true), activation: "gelu", words: words}
	if !a.Tied {
		h.words = b.parameter("generator_lm_head.weight", a.Vocabulary, e)
	}
	h.bias = b.parameter("generator_lm_head.bias", a.Vocabulary, 1)
	return h
}
