package model

import "github.com/vramplan/vramplan/estimator/step"

// encoderOptions is what the text encoders have besides the numbers of every architecture.
type encoderOptions struct {
	// typeVocabulary is how many kinds of segments have an embedding; 0 without.
	typeVocabulary int64
	// positionRows is the height of the table of positions, of which the first ones may be left for padding.
	positionRows int64
	// classifierDropout is what the classification head drops where that differs from the hidden layers.
	classifierDropout *float64
	// questionDropout is what the head for question answering drops (DistilBERT).
	questionDropout float64
	// summaryDropout is what the head for multiple choice drops (ELECTRA).
	summaryDropout float64
	// fixedPositions are sine waves that are not trained.
	fixedPositions bool
	// buckets is how many distances between tokens have a bias (MPNet).
	buckets int64
	// embeddingWidth is that of the embeddings where they are brought to that of the layers; 0 without.
	embeddingWidth int64
	// groups are what ALBERT's layers come in, inGroup layers each, all of which run one after the other.
	groups, inGroup int64
	// positionsLast names the table of positions behind the others (RoBERTa and its like).
	positionsLast bool
	// normFirst puts the norms before attention and MLP, and one behind the last layer.
	normFirst bool
}

// encoder is the options of a text encoder.
func (a *Architecture) encoder() *encoderOptions {
	o, _ := a.own.(*encoderOptions)
	if o == nil {
		o = &encoderOptions{}
	}
	return o
}

// width is that of the embeddings of a model whose layers have width d.
func (o *encoderOptions) width(d int64) int64 {
	if o.embeddingWidth > 0 {
		return o.embeddingWidth
	}
	return d
}

// bidirectional: every token of a text encoder sees all others.
func (o *encoderOptions) bidirectional() bool { return true }

// encodes says that it is one.
func (o *encoderOptions) encodes() bool { return true }

// headDropout is the dropout before a classifier.
func (a *Architecture) headDropout() float64 {
	if p := a.encoder().classifierDropout; p != nil {
		return *p
	}
	return a.ResidualDropout
}

var bertFamily = family{modelType: "bert",
	keys: commonKeys,
	classes: []string{classLMHead, classMaskedLM, classClassification, classTokens, classQuestions, classChoices,
		classBase},
	pooled: []string{classClassification, classChoices, classBase},
	defaults: map[string]any{
		"vocab_size": 30522.0, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
		"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1,
		"max_position_embeddings":      512.0, "type_vocab_size": 2.0, "position_embedding_type": "absolute",
		"tie_word_embeddings": true},
	read: func(c *config, a *Architecture) {
		a.own = c.bert(a)
		a.Pooled = a.family.pools(a.Class)
	},
	spelled: bertSpelled, numbers: bertNumbers,
	build: buildBERT,
}

// bert reads the keys that BERT and its descendants share.
func (c *config) bert(a *Architecture) *encoderOptions {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.probability("hidden_dropout_prob"),
		c.probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.LearnedPositions = c.boolean("tie_word_embeddings"), true
	a.Labels = c.labels()
	c.refuseVariants()
	o := &encoderOptions{typeVocabulary: c.integer("type_vocab_size", maxRows), positionRows: a.MaxPositions}
	if _, given := c.value("classifier_dropout"); given {
		p := c.probability("classifier_dropout")
		o.classifierDropout = &p
	}
	return o
}

// refuseVariants names what BERT's configuration can ask for and nobody trains any more.
func (c *config) refuseVariants() {
	if v, _ := c.value("position_embedding_type"); v != nil && v != "absolute" {
		c.errs.Add(c.pointer+"/position_embedding_type", "unsupported",
			"position_embedding_type is %s; absolute is modelled", describe(v))
	}
	for _, key := range []string{"is_decoder", "add_cross_attention"} {
		if c.boolean(key) {
			c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is not modelled for an encoder", key)
		}
	}
	if v, ok := c.value("chunk_size_feed_forward"); ok && v != 0.0 {
		c.errs.Add(c.pointer+"/chunk_size_feed_forward", "unsupported",
			"a feed-forward in chunks is not modelled; set it to 0")
	}
}

// bertSpelled are the names that BERT and its descendants have for what others call otherwise.
var bertSpelled = map[string]string{"attention_dropout": "attention_probs_dropout_prob"}

// bertNumbers are an encoder's own. The catalog's counts have the head for masked words.
func bertNumbers(p *Preset, c map[string]any) {
	c["hidden_dropout_prob"] = p.Dropout.Hidden
	if p.TypeVocabulary > 0 {
		c["type_vocab_size"] = float64(p.TypeVocabulary)
	}
	c["architectures"] = []any{classMaskedLM}
}

// bert is transformers' BertModel with a head (modeling_bert.py, 4.57).
type bert struct {
	a                       *Architecture
	words, positions, types step.Weight
	norm                    norm
	layers                  []bertLayer
	final                   norm
	project                 *linear // behind the embeddings, nil without
	pooler                  linear
	masked                  maskedHead
	tokens                  tokenHead
	mask                    *step.T
	masksFirst              bool // in front of the embeddings
	// positionIDs makes the ids of the positions; nil where they are in a buffer.
	positionIDs func(t *step.Tape, ids step.T) step.T
	// classify makes logits of the classes from the encoder's output and what the pooler, if any, made of it; their
	// input is left for a variable of the class to hold, unless a module of its own forgets it.
	classify func(t *step.Tape, x step.T, pooled *step.T) (logits, input step.T)
}

func buildBERT(b *builder) step.Network {
	m := b.bertModel()
	switch b.a.Class {
	case classClassification, classChoices:
		m.classify = b.pooledClassifier(b.a.headDropout())
	case classMaskedLM, classLMHead:
		m.masked = b.maskedHead(func() step.Weight { return m.words }, "cls.predictions.transform.")
	case classTokens:
		m.tokens = b.tokenHead(b.a.headDropout())
	case classQuestions:
		m.tokens = b.tokenHead(0)
	}
	return m
}

// pooledClassifier declares a layer for the classes behind the dropout of what the pooler made.
func (b *builder) pooledClassifier(dropout float64) func(t *step.Tape, x step.T,
	pooled *step.T) (logits, input step.T) {
	classifier := b.linear("classifier", b.a.Hidden, b.a.outputs(), true)
	return func(t *step.Tape, _ step.T, pooled *step.T) (logits, input step.T) {
		dropped := t.Dropout(*pooled, dropout)
		return classifier.forward(t, dropped), dropped
	}
}

// bertModel declares BertModel: embeddings, layers and a pooler.
func (b *builder) bertModel() *bert { return b.bertAround(b.words()) }

// words declares the table of words.
func (b *builder) words() step.Weight {
	return b.embedding("embeddings.word_embeddings", b.a.Vocabulary, b.a.encoder().width(b.a.Hidden))
}

// bertAround is bertModel behind its table of words.
func (b *builder) bertAround(words step.Weight) *bert {
	a, o, d := b.a, b.a.encoder(), b.a.Hidden
	m := &bert{a: a, layers: make([]bertLayer, b.recorded), words: words}
	b.bertEmbeddings(m)
	if e := o.width(d); e != d {
		project := b.linear("embeddings_project", e, d, true)
		m.project = &project
	}
	b.stack(func(i int64) { m.layers[i] = b.bertLayer() })
	if o.normFirst {
		m.final = b.norm("encoder.LayerNorm", d, true)
	}
	if a.Pooled {
		m.pooler = b.linear("pooler.dense", d, d, true)
	}
	return m
}

// bertEmbeddings declares what of BertEmbeddings stands behind the table of words.
func (b *builder) bertEmbeddings(m *bert) {
	a, o := b.a, b.a.encoder()
	e := o.width(a.Hidden)
	m.types = step.NoWeight
	positions := func() { m.positions = b.embedding("embeddings.position_embeddings", o.positionRows, e) }
	last := a.Software.GathersSegments && o.positionsLast
	if !last {
		positions()
	}
	if o.typeVocabulary > 0 {
		m.types = b.embedding("embeddings.token_type_embeddings", o.typeVocabulary, e)
	}
	m.norm = b.norm("embeddings.LayerNorm", e, true)
	if last {
		positions()
	}
	b.buffer("embeddings.position_ids", o.positionRows, step.I64)
	if m.types.Exists() {
		b.buffer("embeddings.token_type_ids", o.positionRows, step.I64)
	}
}

// Batch is input_ids, attention_mask and labels.
func (m *bert) Batch(t *step.Tape) []step.T { return encoderBatch(t, m.a) }

func (m *bert) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2:]
	t.In(step.PartEmbedding)
	if m.masksFirst {
		m.mask = encoderMask(t, t.Recipe.Stored)
	}
	embedded := m.embeddings(t, ids)
	if m.project != nil {
		projected := m.project.forward(t, embedded)
		t.Drop(embedded)
		embedded = projected
	}
	if !m.masksFirst {
		m.mask = encoderMask(t, embedded.Dtype())
	}
	var besides step.Besides
	if m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x := runEncoder(t, m.a, len(m.layers), t.Hold(embedded), besides, m.layer)
	if m.a.encoder().normFirst {
		t.In(step.PartNorm)
		normed := m.final.layer(t, x)
		t.Drop(x)
		x = normed
	}
	pooled, forget := m.pooled(t, x)
	t.Drop(embedded)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	forget()
	return m.loss(t, x, pooled, labels)
}

// embeddings is BertEmbeddings: words plus segments plus positions, then a norm.
func (m *bert) embeddings(t *step.Tape, ids step.T) step.T {
	positionIDs := t.Buffered(t.Shape.Tokens, step.I64)
	if m.positionIDs != nil {
		positionIDs = m.positionIDs(t, ids)
	}
	segments := step.NoTensor
	if m.types.Exists() && t.Recipe.Software.GathersSegments {
		segments = t.Input(positionIDs.Numel(), step.I64)
	}
	words := t.Embedding(ids, m.words, step.LabelEmbedding)
	var parts [2]step.T
	var sum step.T
	if m.types.Exists() {
		if segments != step.NoTensor && segments.Numel() == ids.Numel() {
			parts[0] = t.Embedding(segments, m.types, step.LabelEmbedding)
		} else {
			parts[0] = t.ExpandedEmbedding(segments, m.types, step.LabelEmbedding)
		}
		sum = t.Add(words, parts[0], step.LabelEmbedding)
		parts[1] = t.Embedding(positionIDs, m.positions, step.LabelPositions)
		if t.Recipe.Software.GathersSegments {
			placed := t.Add(sum, parts[1], step.LabelEmbedding)
			t.Drop(sum)
			sum = placed
		} else {
			sum = t.AddInPlace(sum, parts[1])
		}
	} else {
		parts[0] = t.Embedding(positionIDs, m.positions, step.LabelPositions)
		sum = t.Add(words, parts[0], step.LabelEmbedding)
		parts[1] = t.Buffered(0, step.F32)
	}
	normed := m.norm.layer(t, sum)
	t.Drop(sum)
	x := t.Dropout(normed, m.a.EmbeddingDropout)
	t.Drop(normed, words, parts[0], parts[1], positionIDs, segments)
	return x
}

// pooled is the pooler's output, nil where there is no pooler or its output is a variable of an encoder that goes on,
// as embedding models' does; forget ends that variable.
func (m *bert) pooled(t *step.Tape, x step.T) (pooled *step.T, forget func()) {
	forget = func() {}
	switch {
	case !m.a.Pooled:
	case t.Embeds():
		_, forget = t.Pooled(func() step.T { return m.pool(t, x) })
	default:
		p := m.pool(t, x)
		pooled = &p
	}
	return pooled, forget
}

// pool is BertPooler: a layer and tanh over the first token.
func (m *bert) pool(t *step.Tape, x step.T) step.T {
	t.In(step.PartMLP)
	first := t.FirstToken(x, m.a.Hidden)
	dense := m.pooler.forward(t, first)
	pooled := t.Tanh(dense, step.LabelActivation)
	t.Drop(dense, first)
	return pooled
}

// loss is what BertForMaskedLM, BertForSequenceClassification and their like do with the encoder's output, which it
// takes over.
func (m *bert) loss(t *step.Tape, x step.T, pooled *step.T, labels []step.T) (step.T, []step.T) {
	defer t.Drop(x)
	if pooled != nil {
		defer t.Drop(*pooled)
	}
	switch m.a.Class {
	case classClassification, classChoices:
		logits, input := m.classify(t, x, pooled)
		defer t.Drop(input)
		return classesOrChoices(t, m.a, logits, labels[0])
	case classTokens, classQuestions:
		return m.tokens.loss(t, x, labels)
	case classBase:
		return baseLoss(t, x, pooled)
	}
	return m.masked.loss(t, m.a, x, labels[0])
}

func (m *bert) embeds() {}
