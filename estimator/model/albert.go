package model

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/step"
)

// albertFamily is ALBERT: BERT whose layers are few and run again and again, behind embeddings that may be narrower.
// Source: transformers/models/albert/modeling_albert.py, configuration_albert.py, 5.23.
var albertFamily = family{modelType: "albert",
	undealt: "FSDP on layers that share their parameters is not modelled yet; ddp is",

	keys:    commonKeys,
	classes: []string{classMaskedLM, classClassification, classTokens, classQuestions, classChoices, classBase},
	pooled:  []string{classClassification, classChoices, classBase},
	defaults: map[string]any{
		"vocab_size": 30000.0, "embedding_size": 128.0, "hidden_size": 4096.0, "num_hidden_layers": 12.0,
		"num_hidden_groups": 1.0, "inner_group_num": 1.0, "num_attention_heads": 64.0, "intermediate_size": 16384.0,
		"hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
		"classifier_dropout_prob": 0.1, "max_position_embeddings": 512.0, "type_vocab_size": 2.0,
		"position_embedding_type": "absolute", "tie_word_embeddings": true},
	uncompiled: "layers that share their parameters are not modelled under torch.compile; leave compile out",
	read: func(c *config, a *Architecture) {
		o := c.bert(a)
		o.embeddingWidth = c.integer("embedding_size", maxWidth)
		dropout := c.probability("classifier_dropout_prob")
		o.classifierDropout = &dropout
		o.groups, o.inGroup = c.integer("num_hidden_groups", maxLayers), c.integer("inner_group_num", maxInGroup)
		if a.Layers > 0 && o.groups > a.Layers {
			c.errs.Add(c.pointer+"/num_hidden_groups", "out_of_range", "num_hidden_groups is %d, which is more than "+
				"num_hidden_layers, %d", o.groups, a.Layers)
		}
		a.own, a.Pooled = o, a.family.pools(a.Class)
		a.Irregular, a.Uncheckpointed = true, true
	},
	spelled: bertSpelled,
	numbers: func(p *Preset, c map[string]any) {
		bertNumbers(p, c)
		c["embedding_size"] = float64(cmp.Or(p.WordEmbeddingWidth, p.Hidden))
	},
	build: buildALBERT,
}

// maxInGroup bounds what one of the many layers is made of.
const maxInGroup = 64

// albert is AlbertModel with a head; layers are those of all groups, which every turn of the stack shares.
type albert struct {
	bert
	widen linear
}

func buildALBERT(b *builder) step.Network {
	a, o, d := b.a, b.a.encoder(), b.a.Hidden
	m := &albert{bert: bert{a: a, words: b.words()}}
	b.bertEmbeddings(&m.bert)
	m.widen = b.linear("encoder.embedding_hidden_mapping_in", o.width(d), d, true)
	first := len(b.p.List)
	m.layers = make([]bertLayer, o.groups*o.inGroup)
	for i := range m.layers {
		m.layers[i] = b.albertLayer()
	}
	b.inLayers(first)
	b.p.LayerStart = len(b.p.List)
	if a.Pooled {
		m.pooler = b.linear("pooler", d, d, true)
	}
	switch a.Class {
	case classClassification, classChoices:
		m.classify = b.pooledClassifier(a.headDropout())
	case classMaskedLM:
		m.masked = b.albertHead(m.words)
	case classTokens:
		m.tokens = b.tokenHead(a.headDropout())
	case classQuestions:
		m.tokens = b.tokenHead(0)
	}
	return m
}

// albertLayer lists the modules of AlbertLayer.
func (b *builder) albertLayer() bertLayer {
	d, f := b.a.Hidden, b.a.FFN
	l := bertLayer{lastNorm: b.norm("full_layer_layer_norm", d, true)}
	l.q, l.k, l.v = b.linear("attention.query", d, d, true), b.linear("attention.key", d, d, true),
		b.linear("attention.value", d, d, true)
	l.out, l.attentionNorm = b.linear("attention.dense", d, d, true), b.norm("attention.LayerNorm", d, true)
	l.up, l.down = b.linear("ffn", d, f, true), b.linear("ffn_output", f, d, true)
	return l
}

// albertHead is AlbertMLMHead, as wide as the embeddings. Its bias is its own as well as the decoder's.
func (b *builder) albertHead(words step.Weight) maskedHead {
	a := b.a
	e := a.encoder().width(a.Hidden)
	h := maskedHead{norm: b.norm("predictions.LayerNorm", e, true),
		dense: b.linear("predictions.dense", a.Hidden, e, true), activation: a.Activation, words: words}
	if !a.Tied {
		h.words = b.parameter("predictions.decoder.weight", a.Vocabulary, e)
	}
	h.bias = b.parameter("predictions.decoder.bias", a.Vocabulary, 1)
	b.ownBias(h, h.norm.w)
	return h
}

func (m *albert) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	embedded := m.embeddings(t, batch[0])
	m.mask = encoderMask(t, embedded.Dtype())
	x := runEncoder(t, m.a, int(m.a.Layers), m.widen.forward(t, embedded), step.Besides{}, m.turn)
	pooled, forget := m.pooled(t, x)
	t.Drop(embedded)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	forget()
	return m.loss(t, x, pooled, batch[2:])
}

// turn is AlbertLayerGroup in turn i of the stack: the layers of the group whose turn it is.
func (m *albert) turn(t *step.Tape, i int, x step.T) step.T {
	o := m.a.encoder()
	group := int64(i) * o.groups / m.a.Layers
	x = t.Hold(x)
	for _, l := range m.layers[group*o.inGroup : (group+1)*o.inGroup] {
		y := m.shared(t, &l, x)
		t.Drop(x)
		x = y
	}
	return x
}

// attended is norm(x + dropout(dense(context))), which takes over context. Before transformers 5 each has a name of its
// own that lasts until AlbertAttention returns; later one name stands for one after the other. Source:
// transformers/models/albert/modeling_albert.py, 4.57.6 and 5.23.0.
func (m *albert) attended(t *step.Tape, l *bertLayer, context, x step.T) step.T {
	if t.Recipe.Software.ReassignsScores {
		y := m.output(t, l.out, l.attentionNorm, context, x)
		t.Drop(context)
		return y
	}
	projected := l.out.forward(t, context)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	part := t.In(step.PartNorm)
	sum := t.Add(dropped, x, step.LabelResidual)
	y := l.attentionNorm.layer(t, sum)
	t.In(part)
	t.Drop(sum, context, projected, dropped)
	return y
}

// shared is AlbertLayer, which borrows x. Its attention has queries, keys and values to its end.
func (m *albert) shared(t *step.Tape, l *bertLayer, x step.T) step.T {
	t.In(step.PartAttention)
	l.projectsFirst = !t.Recipe.Software.ReassignsScores // AlbertAttention.forward, 4.57.6
	context, locals := l.attend(t, m.a, m.mask, x)
	attended := m.attended(t, l, context, x)
	t.Drop(locals[:]...)
	// AlbertAttention keeps the probabilities of eager attention to itself before transformers 5. Source:
	// transformers/models/albert/modeling_albert.py, 4.57.6.
	if !t.Recipe.Software.ReassignsScores {
		dropSecond(t)
	}
	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	down := l.down.forward(t, act)
	t.Drop(act)
	part := t.In(step.PartNorm)
	sum := t.Add(down, attended, step.LabelResidual)
	y := l.lastNorm.layer(t, sum)
	t.In(part)
	t.Drop(sum, down, attended)
	dropSecond(t)
	return y
}
