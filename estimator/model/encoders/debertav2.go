package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// readDebertaV2 is transformers' DebertaV2Model with a head (modeling_deberta_v2.py, 4.57).
type debertaV2 struct {
	bert
	options        *debertaOptions
	projections    []positionProjections
	relative       step.Weight
	relativeNorm   arch.Norm
	pooled, labels arch.Linear

	mask, distances, relatives step.T // of the running micro-step
}

// positionProjections are the layers of an attention that project relative positions, where the content's do not.
type positionProjections struct{ key, query arch.Linear }

func buildDebertaV2(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	o := deberta(a)
	m := &debertaV2{bert: bert{a: a, layers: make([]bertLayer, b.Recorded), types: step.NoWeight,
		positions: step.NoWeight}, options: o,
		projections: make([]positionProjections, b.Recorded)}
	m.words = b.Embedding("embeddings.word_embeddings", a.Vocabulary, d)
	if o.positionsInInput {
		m.positions = b.Embedding("embeddings.position_embeddings", o.PositionRows, d)
	}
	if o.TypeVocabulary > 0 {
		m.types = b.Embedding("embeddings.token_type_embeddings", o.TypeVocabulary, d)
	}
	m.norm = b.Norm("embeddings.LayerNorm", d, true)
	b.Buffer("embeddings.position_ids", o.PositionRows, step.I64)
	b.Stack(func(i int64) { m.layers[i], m.projections[i] = debertaLayer(b, o) })
	if o.relative {
		m.relative = b.Embedding("encoder.rel_embeddings", 2*o.span, d)
	}
	if o.normedPositions {
		m.relativeNorm = b.Norm("encoder.LayerNorm", d, true)
		if !o.relative { // and so gets no gradient
			b.P.List[m.relativeNorm.W.Index].Frozen, b.P.List[m.relativeNorm.B.Index].Frozen = true, true
		}
	}
	switch a.Class {
	case arch.ClassMaskedLM:
		m.masked = blocks.BuildMaskedHead(b, func() step.Weight { return m.words }, bertPredictions)
	case arch.ClassClassification, arch.ClassChoices:
		m.pooled = b.Linear("pooler.dense", d, d, true)
		m.labels = b.Linear("classifier", d, blocks.Outputs(a), true)
	case arch.ClassTokens:
		m.tokens = blocks.BuildTokenHead(b, a.ResidualDropout)
	case arch.ClassQuestions:
		m.tokens = blocks.BuildTokenHead(b, 0)
	}
	return m
}

func debertaLayer(b *arch.Builder, o *debertaOptions) (l bertLayer, p positionProjections) {
	d, f := b.A.Hidden, b.A.FFN
	l.q, l.k, l.v = b.Linear("attention.self.query_proj", d, d, true), b.Linear("attention.self.key_proj", d, d, true),
		b.Linear("attention.self.value_proj", d, d, true)
	if o.relative && !o.sharedProjections {
		if o.contentToPosition {
			p.key = b.Linear("attention.self.pos_key_proj", d, d, true)
		}
		if o.positionToContent {
			p.query = b.Linear("attention.self.pos_query_proj", d, d, true)
		}
	}
	l.out, l.attentionNorm = b.Linear("attention.output.dense", d, d, true),
		b.Norm("attention.output.LayerNorm", d, true)
	l.up, l.down = b.Linear("intermediate.dense", d, f, true), b.Linear("output.dense", f, d, true)
	l.lastNorm = b.Norm("output.LayerNorm", d, true)
	return l, p
}

// Batch is input_ids, attention_mask and labels.
func (m *debertaV2) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *debertaV2) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	segments := t.Input(t.Shape.N(), step.I64)
	x := m.embeddings(t, batch[0], segments)
	n := t.Shape.Tokens
	m.mask = t.Input(t.Shape.Batch*n*n, step.I64)
	if m.options.relative {
		m.distances = t.RelativeBuckets(n, m.options.buckets)
		m.relatives = t.Parameter(m.relative)
		if m.options.normedPositions {
			m.relatives = m.relativeNorm.Layer(t, m.relatives)
		}
	}
	besides := step.Besides{Arguments: []step.T{m.mask}}
	if m.options.relative {
		besides.Captured = []step.T{m.distances, m.relatives}
	}
	hidden := []step.T{x} // the encoder returns the outputs of all layers, which DebertaV2Model drops
	unit := int(m.a.UnitLayers())
	for i := range m.layers {
		x = t.Layer(int32(i/unit), t.Hold(x), func(t *step.Tape, x step.T) step.T { return m.layer(t, i, x) }, besides)
		hidden = append(hidden, x)
	}
	t.EndLayers()
	t.Hold(x)
	t.Drop(append(hidden, m.mask, segments)...)
	if m.options.relative {
		t.Drop(m.distances, m.relatives)
	}
	return m.loss(t, x, batch[2:])
}

// embeddings is DebertaV2Embeddings.
func (m *debertaV2) embeddings(t *step.Tape, ids, segments step.T) step.T {
	words := t.Embedding(ids, m.words, step.LabelEmbedding)
	sum := t.Hold(words)
	add := func(x step.T) {
		next := t.Add(sum, x, step.LabelEmbedding)
		t.Drop(sum)
		sum = next
	}
	locals := []step.T{words}
	if m.positions.Exists() {
		locals = append(locals, t.Embedding(t.Buffered(t.Shape.Tokens, step.I64), m.positions, step.LabelPositions))
		add(locals[1])
	} else { // zeros that are not added
		locals = append(locals, t.Input(words.Numel(), words.Dtype()))
	}
	if m.types.Exists() {
		locals = append(locals, t.Embedding(segments, m.types, step.LabelEmbedding))
		add(locals[2])
	}
	normed := m.norm.Layer(t, sum)
	t.Drop(sum)
	mask := t.Input(t.Shape.N(), normed.Dtype())
	x := t.Mul(normed, mask, true, step.LabelEmbedding)
	t.Drop(normed)
	dropped := t.Dropout(x, m.a.EmbeddingDropout)
	t.Drop(append(locals, x, mask)...)
	return dropped
}

// layer is DebertaV2Layer, which is BERT's but for the attention.
func (m *debertaV2) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartAttention)
	context := m.attention(t, i, x)
	attended := m.output(t, l.out, l.attentionNorm, context, x)
	t.Drop(context)
	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	y := m.output(t, l.down, l.lastNorm, act, attended)
	t.Drop(act, attended)
	return y
}

// attention is DisentangledSelfAttention.
func (m *debertaV2) attention(t *step.Tape, i int, x step.T) step.T {
	l, h, n := &m.layers[i], m.a.Geometry(), t.Shape.Tokens
	q := t.HeadRows(l.q.Forward(t, x), n, h, false)
	k := t.HeadRows(l.k.Forward(t, x), n, h, t.Shape.Batch == 1 &&
		(!m.options.relative || !m.options.positionToContent))
	v := t.HeadRows(l.v.Forward(t, x), n, h, false)
	square := t.Shape.Batch * h.Query * n * n
	scaled := t.MulScalar(k, step.LabelAttentionScores)
	scores := t.BMM(q, scaled, square, step.LabelAttentionScores)
	t.Drop(scaled)
	locals := []step.T{q, k, v}
	if m.options.relative {
		relatives := t.Dropout(m.relatives, m.a.ResidualDropout)
		bias, exists := m.bias(t, i, q, k, relatives)
		sum := t.AddScalar
		if exists {
			sum = func(x step.T, label step.Label) step.T { return t.Add(x, bias, label) }
			locals = append(locals, bias)
		}
		biased := sum(scores, step.LabelAttentionScores)
		t.Drop(scores)
		scores = biased
		locals = append(locals, relatives)
	}
	mask := t.Input(m.mask.Numel(), step.Bool)
	hidden := t.Input(m.mask.Numel(), step.Bool)
	filled := t.MaskedFill(scores, hidden)
	t.Drop(hidden, scores)
	y, probabilities := t.ProbabilityProduct(filled, v, h, m.a.AttentionDropout)
	t.Drop(append(locals, mask, filled, probabilities)...)
	return y
}

// bias is disentangled_attention_bias: content looks up positions, and positions look up content. There is none where
// pos_att_type names neither.
func (m *debertaV2) bias(t *step.Tape, i int, q, k, relatives step.T) (score step.T, exists bool) {
	o := m.options
	key, query := m.positionRows(t, i, relatives)
	defer t.Drop(key)
	defer t.Drop(query)
	if o.contentToPosition {
		all := m.match(t, q, key)
		index := m.columns(t, 1)
		found := t.GatherColumns(all, index, m.a.Heads, m.distances.Numel())
		t.Drop(all)
		defer t.Drop(found)
		defer t.Drop(index)
		scaled := t.MulScalar(found, step.LabelAttentionScores)
		score, exists = t.AddScalar(scaled, step.LabelAttentionScores), true // it begins with the number 0
		t.Drop(scaled)
	}
	if o.positionToContent {
		index := m.columns(t, 2)
		all := m.match(t, k, query)
		found := t.GatherColumns(all, index, m.a.Heads, m.distances.Numel())
		t.Drop(all)
		defer t.Drop(found)
		defer t.Drop(index)
		scaled := t.MulScalar(found, step.LabelAttentionScores)
		if exists {
			score = t.AddInPlace(score, scaled)
		} else {
			score, exists = t.AddScalar(scaled, step.LabelAttentionScores), true
		}
		t.Drop(scaled)
	}
	return score, exists
}

// positionRows are the keys and the queries of the relative positions, repeated for every sequence, as far as they are
// looked up. (With shared projections the module makes both, and drops the one that is not.)
func (m *debertaV2) positionRows(t *step.Tape, i int, relatives step.T) (key, query step.T) {
	p, o := m.projections[i], m.options
	relatives = t.View(relatives) // of the rows that there are
	rows := func(projection arch.Linear) step.T {
		return t.RepeatForBatch(t.HeadRows(projection.Forward(t, relatives), 2*o.span, m.a.Geometry(),
			t.Shape.Batch == 1))
	}
	key, query = t.Buffered(0, step.F32), t.Buffered(0, step.F32)
	if o.sharedProjections { // the queries first
		p = positionProjections{key: m.layers[i].k, query: m.layers[i].q}
		if o.positionToContent {
			query = rows(p.query)
		}
	}
	if o.contentToPosition {
		key = rows(p.key)
	}
	if o.positionToContent && !o.sharedProjections {
		query = rows(p.query)
	}
	return key, query
}

// match is the product of content with every relative position.
func (m *debertaV2) match(t *step.Tape, content, positions step.T) step.T {
	return t.BMM(content, positions, t.Shape.N()*m.a.Heads*2*m.options.span, step.LabelAttentionScores)
}

// columns are the distances as places in the table of relative positions, by the given number of operations before they
// are clamped.
func (m *debertaV2) columns(t *step.Tape, operations int) step.T {
	index := t.Hold(m.distances)
	for range operations + 1 {
		next := t.Input(m.distances.Numel(), step.I64)
		t.Drop(index)
		index = next
	}
	return index
}

// loss takes over x.
func (m *debertaV2) loss(t *step.Tape, x step.T, labels []step.T) (step.T, []step.T) {
	if m.a.Class != arch.ClassClassification && m.a.Class != arch.ClassChoices {
		return m.bert.loss(t, x, nil, labels)
	}
	defer t.Drop(x)
	t.In(step.PartMLP)
	pooled := m.pool(t, x)
	input := t.Dropout(pooled, m.options.classifierDropping)
	t.Drop(pooled)
	defer t.Drop(input)
	logits := m.labels.Forward(t, input)
	return blocks.ClassesOrChoices(t, m.a, logits, labels[0])
}

// pool is ContextPooler: a layer and its activation over the first token.
func (m *debertaV2) pool(t *step.Tape, x step.T) step.T {
	first := t.FirstToken(x, m.a.Hidden)
	dropped := t.Dropout(first, m.options.poolerDropout)
	t.Drop(first)
	dense := m.pooled.Forward(t, dropped)
	pooled := arch.Activation(t, m.options.poolerActivation, dense)
	t.Drop(dense, dropped)
	return pooled
}
