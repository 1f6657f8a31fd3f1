package encoders

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// ALBERTFamily is ALBERT: BERT whose layers are few and run again and again, behind embeddings that may be narrower.
// Source: transformers/models/albert/modeling_albert.py, configuration_albert.py, 5.23.
var ALBERTFamily = arch.Family{ModelType: "albert",
	Undealt: "FSDP on layers that share their parameters is not modelled yet; ddp is",

	Keys: arch.CommonKeys,
	Classes: []string{arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions,
		arch.ClassChoices, arch.ClassBase},
	Pooled: []string{arch.ClassClassification, arch.ClassChoices, arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 30000.0, "embedding_size": 128.0, "hidden_size": 4096.0, "num_hidden_layers": 12.0,
		"num_hidden_groups": 1.0, "inner_group_num": 1.0, "num_attention_heads": 64.0, "intermediate_size": 16384.0,
		"hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
		"classifier_dropout_prob": 0.1, "max_position_embeddings": 512.0, "type_vocab_size": 2.0,
		"position_embedding_type": "absolute", "tie_word_embeddings": true},
	Uncompiled: "layers that share their parameters are not modelled under torch.compile; leave compile out",
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a, o := readBERT(c, a)
		o.embeddingWidth = c.Integer("embedding_size", arch.MaxWidth)
		dropout := c.Probability("classifier_dropout_prob")
		o.classifierDropout = &dropout
		o.groups, o.inGroup = c.Integer("num_hidden_groups", arch.MaxLayers), c.Integer("inner_group_num", maxInGroup)
		if a.Layers > 0 && o.groups > a.Layers {
			c.Errs.Add(c.Pointer+"/num_hidden_groups", "out_of_range", "num_hidden_groups is %d, which is more than "+
				"num_hidden_layers, %d", o.groups, a.Layers)
		}
		a.Own, a.Pooled = o, a.Described.Pools(a.Class)
		a.Irregular, a.Uncheckpointed = true, true
		return a
	},
	Spelled: bertSpelled,
	Numbers: func(p *arch.Preset, c map[string]any) {
		bertNumbers(p, c)
		c["embedding_size"] = float64(cmp.Or(p.WordEmbeddingWidth, p.Hidden))
	},
	Build: buildALBERT,
}

// maxInGroup bounds what one of the many layers is made of.
const maxInGroup = 64

// albert is AlbertModel with a head; layers are those of all groups, which every turn of the stack shares.
type albert struct {
	bert
	widen arch.Linear
}

func buildALBERT(b *arch.Builder) step.Network {
	a, o, d := b.A, encoder(b.A), b.A.Hidden
	m := &albert{bert: bert{a: a, words: buildWords(b)}}
	bertEmbeddings(b, &m.bert)
	m.widen = b.Linear("encoder.embedding_hidden_mapping_in", o.width(d), d, true)
	first := len(b.P.List)
	m.layers = make([]bertLayer, o.groups*o.inGroup)
	for i := range m.layers {
		m.layers[i] = albertLayer(b)
	}
	b.InLayers(first)
	b.P.LayerStart = len(b.P.List)
	if a.Pooled {
		m.pooler = b.Linear("pooler", d, d, true)
	}
	switch a.Class {
	case arch.ClassClassification, arch.ClassChoices:
		m.classify = pooledClassifier(b, headDropout(a))
	case arch.ClassMaskedLM:
		m.masked = albertHead(b, m.words)
	case arch.ClassTokens:
		m.tokens = blocks.BuildTokenHead(b, headDropout(a))
	case arch.ClassQuestions:
		m.tokens = blocks.BuildTokenHead(b, 0)
	}
	return m
}

// albertLayer lists the modules of AlbertLayer.
func albertLayer(b *arch.Builder) bertLayer {
	d, f := b.A.Hidden, b.A.FFN
	l := bertLayer{lastNorm: b.Norm("full_layer_layer_norm", d, true)}
	l.q, l.k, l.v = b.Linear("attention.query", d, d, true), b.Linear("attention.key", d, d, true),
		b.Linear("attention.value", d, d, true)
	l.out, l.attentionNorm = b.Linear("attention.dense", d, d, true), b.Norm("attention.LayerNorm", d, true)
	l.up, l.down = b.Linear("ffn", d, f, true), b.Linear("ffn_output", f, d, true)
	return l
}

// albertHead is AlbertMLMHead, as wide as the embeddings. Its bias is its own as well as the decoder's.
func albertHead(b *arch.Builder, words step.Weight) blocks.MaskedHead {
	a := b.A
	e := encoder(a).width(a.Hidden)
	h := blocks.MaskedHead{Norm: b.Norm("predictions.LayerNorm", e, true),
		Dense: b.Linear("predictions.dense", a.Hidden, e, true), Activation: a.Activation,
		Out: b.OntoWords("predictions.decoder", func() step.Weight { return words }, e, true)}
	blocks.OwnBias(b, h, h.Norm.W)
	return h
}

func (m *albert) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	embedded := m.embeddings(t, batch[0])
	m.mask = blocks.EncoderMask(t, embedded.Dtype())
	x := blocks.RunEncoder(t, m.a, int(m.a.Layers), m.widen.Forward(t, embedded), step.Besides{}, m.turn)
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
	o := encoder(m.a)
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
	if t.Recipe.Software.Has(step.ReassignsScores) {
		y := m.output(t, l.out, l.attentionNorm, context, x)
		t.Drop(context)
		return y
	}
	projected := l.out.Forward(t, context)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	part := t.In(step.PartNorm)
	sum := t.Add(dropped, x, step.LabelResidual)
	y := l.attentionNorm.Layer(t, sum)
	t.In(part)
	t.Drop(sum, context, projected, dropped)
	return y
}

// shared is AlbertLayer, which borrows x. Its attention has queries, keys and values to its end.
func (m *albert) shared(t *step.Tape, l *bertLayer, x step.T) step.T {
	t.In(step.PartAttention)
	l.projectsFirst = !t.Recipe.Software.Has(step.ReassignsScores) // AlbertAttention.forward, 4.57.6
	context, locals := l.attend(t, m.a, m.mask, x)
	attended := m.attended(t, l, context, x)
	t.Drop(locals[:]...)
	// AlbertAttention keeps the probabilities of eager attention to itself before transformers 5. Source:
	// transformers/models/albert/modeling_albert.py, 4.57.6.
	if !t.Recipe.Software.Has(step.ReassignsScores) {
		dropSecond(t)
	}
	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	down := l.down.Forward(t, act)
	t.Drop(act)
	part := t.In(step.PartNorm)
	sum := t.Add(down, attended, step.LabelResidual)
	y := l.lastNorm.Layer(t, sum)
	t.In(part)
	t.Drop(sum, down, attended)
	dropSecond(t)
	return y
}
