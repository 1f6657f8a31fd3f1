package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// EncoderOptions is what the text encoders have besides the numbers of every architecture.
type EncoderOptions struct {
	// TypeVocabulary is how many kinds of segments have an embedding; 0 without.
	TypeVocabulary int64
	// PositionRows is the height of the table of positions, of which the first ones may be left for padding.
	PositionRows int64
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
	// PositionsLast names the table of positions behind the others (RoBERTa and its like).
	PositionsLast bool
	// NormFirst puts the norms before attention and MLP, and one behind the last layer.
	NormFirst bool
}

// encoder is the options of a text encoder.
func encoder(a *arch.Architecture) *EncoderOptions {
	o, _ := a.Own.(*EncoderOptions)
	if o == nil {
		o = &EncoderOptions{}
	}
	return o
}

// width is that of the embeddings of a model whose layers have width d.
func (o *EncoderOptions) width(d int64) int64 {
	if o.embeddingWidth > 0 {
		return o.embeddingWidth
	}
	return d
}

// Bidirectional: every token of a text encoder sees all others.
func (o *EncoderOptions) Bidirectional() bool { return true }

// Encodes says that it is one.
func (o *EncoderOptions) Encodes() bool { return true }

// headDropout is the dropout before a classifier.
func headDropout(a *arch.Architecture) float64 {
	if p := encoder(a).classifierDropout; p != nil {
		return *p
	}
	return a.ResidualDropout
}

// BERTFamily is BERT.
var BERTFamily = arch.Family{ModelType: "bert",
	Keys: arch.CommonKeys,
	Classes: []string{arch.ClassLMHead, arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens,
		arch.ClassQuestions, arch.ClassChoices,
		arch.ClassBase},
	Pooled: []string{arch.ClassClassification, arch.ClassChoices, arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 30522.0, "hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
		"intermediate_size": 3072.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1,
		"max_position_embeddings":      512.0, "type_vocab_size": 2.0, "position_embedding_type": "absolute",
		"tie_word_embeddings": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a, a.Own = readBERT(c, a)
		a.Pooled = a.Described.Pools(a.Class)
		return a
	},
	Spelled: bertSpelled, Numbers: bertNumbers,
	Build: buildBERT,
}

// readBERT reads the keys that BERT and its descendants share.
func readBERT(c *arch.Config, a arch.Architecture) (arch.Architecture, *EncoderOptions) {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("intermediate_size", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	a.Activation = c.Activation("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.Probability("hidden_dropout_prob"),
		c.Probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.LearnedPositions = c.Boolean("tie_word_embeddings"), true
	a.Labels = c.Labels()
	refuseVariants(c)
	o := &EncoderOptions{TypeVocabulary: c.Integer("type_vocab_size", arch.MaxRows), PositionRows: a.MaxPositions}
	if _, given := c.Value("classifier_dropout"); given {
		p := c.Probability("classifier_dropout")
		o.classifierDropout = &p
	}
	return a, o
}

// refuseVariants names what BERT's configuration can ask for and nobody trains any more.
func refuseVariants(c *arch.Config) {
	if v, _ := c.Value("position_embedding_type"); v != nil && v != "absolute" {
		c.Errs.Add(c.Pointer+"/position_embedding_type", "unsupported",
			"position_embedding_type is %s; absolute is modelled", arch.Describe(v))
	}
	for _, key := range []string{"is_decoder", "add_cross_attention"} {
		if c.Boolean(key) {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is not modelled for an encoder", key)
		}
	}
	if v, ok := c.Value("chunk_size_feed_forward"); ok && v != 0.0 {
		c.Errs.Add(c.Pointer+"/chunk_size_feed_forward", "unsupported",
			"a feed-forward in chunks is not modelled; set it to 0")
	}
}

// bertSpelled are the names that BERT and its descendants have for what others call otherwise.
var bertSpelled = map[string]string{"attention_dropout": "attention_probs_dropout_prob"}

// bertNumbers are an encoder's own. The catalog's counts have the head for masked words.
func bertNumbers(p *arch.Preset, c map[string]any) {
	c["hidden_dropout_prob"] = p.Dropout.Hidden
	if p.TypeVocabulary > 0 {
		c["type_vocab_size"] = float64(p.TypeVocabulary)
	}
	c["architectures"] = []any{arch.ClassMaskedLM}
}

// bert is transformers' BertModel with a head (modeling_bert.py, 4.57).
// bertPredictions are the names of BertOnlyMLMHead.
var bertPredictions = blocks.MaskedNames{Dense: "cls.predictions.transform.dense",
	Norm: "cls.predictions.transform.LayerNorm", Out: "cls.predictions.decoder"}

type bert struct {
	a                       *arch.Architecture
	words, positions, types step.Weight
	norm                    arch.Norm
	layers                  []bertLayer
	final                   arch.Norm
	project                 *arch.Linear // behind the embeddings, nil without
	pooler                  arch.Linear
	masked                  blocks.MaskedHead
	tokens                  blocks.TokenHead
	mask                    *step.T
	masksFirst              bool // in front of the embeddings
	// positionIDs makes the ids of the positions; nil where they are in a buffer.
	positionIDs func(t *step.Tape, ids step.T) step.T
	// classify makes logits of the classes from the encoder's output and what the pooler, if any, made of it; their
	// input is left for a variable of the class to hold, unless a module of its own forgets it.
	classify func(t *step.Tape, x step.T, pooled *step.T) (logits, input step.T)
}

func buildBERT(b *arch.Builder) step.Network {
	m := bertModel(b)
	switch b.A.Class {
	case arch.ClassClassification, arch.ClassChoices:
		m.classify = pooledClassifier(b, headDropout(b.A))
	case arch.ClassMaskedLM, arch.ClassLMHead:
		m.masked = blocks.BuildMaskedHead(b, func() step.Weight { return m.words }, bertPredictions)
	case arch.ClassTokens:
		m.tokens = blocks.BuildTokenHead(b, headDropout(b.A))
	case arch.ClassQuestions:
		m.tokens = blocks.BuildTokenHead(b, 0)
	}
	return m
}

// pooledClassifier declares a layer for the classes behind the dropout of what the pooler made.
func pooledClassifier(b *arch.Builder, dropout float64) func(t *step.Tape, x step.T,
	pooled *step.T) (logits, input step.T) {
	classifier := b.Linear("classifier", b.A.Hidden, blocks.Outputs(b.A), true)
	return func(t *step.Tape, _ step.T, pooled *step.T) (logits, input step.T) {
		dropped := t.Dropout(*pooled, dropout)
		return classifier.Forward(t, dropped), dropped
	}
}

// bertModel declares BertModel: embeddings, layers and a pooler.
func bertModel(b *arch.Builder) *bert { return bertAround(b, buildWords(b)) }

// buildWords declares the table of words.
func buildWords(b *arch.Builder) step.Weight {
	return b.Embedding("embeddings.word_embeddings", b.A.Vocabulary, encoder(b.A).width(b.A.Hidden))
}

// bertAround is bertModel behind its table of words.
func bertAround(b *arch.Builder, words step.Weight) *bert {
	a, o, d := b.A, encoder(b.A), b.A.Hidden
	m := &bert{a: a, layers: make([]bertLayer, b.Recorded), words: words}
	bertEmbeddings(b, m)
	if e := o.width(d); e != d {
		project := b.Linear("embeddings_project", e, d, true)
		m.project = &project
	}
	b.Stack(func(i int64) { m.layers[i] = buildBERTLayer(b) })
	if o.NormFirst {
		m.final = b.Norm("encoder.LayerNorm", d, true)
	}
	if a.Pooled {
		m.pooler = b.Linear("pooler.dense", d, d, true)
	}
	return m
}

// gathersSegments gathers the segments of BERT and its like by position, and adds positions out of place.
var gathersSegments = release.Declare("gathers-segments", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "transformers 5.23 gathers the segments of BERT and its like by position, and adds " +
		"positions out of place",
	Source: "models/bert/modeling_bert.py (BertEmbeddings), 4.57.6 and 5.23.0",
	Shown:  "traces of BERT and RoBERTa",
})

// bertEmbeddings declares what of BertEmbeddings stands behind the table of words.
func bertEmbeddings(b *arch.Builder, m *bert) {
	a, o := b.A, encoder(b.A)
	e := o.width(a.Hidden)
	m.types = step.NoWeight
	positions := func() { m.positions = b.Embedding("embeddings.position_embeddings", o.PositionRows, e) }
	last := a.Software.Has(gathersSegments) && o.PositionsLast
	if !last {
		positions()
	}
	if o.TypeVocabulary > 0 {
		m.types = b.Embedding("embeddings.token_type_embeddings", o.TypeVocabulary, e)
	}
	m.norm = b.Norm("embeddings.LayerNorm", e, true)
	if last {
		positions()
	}
	b.Buffer("embeddings.position_ids", o.PositionRows, step.I64)
	if m.types.Exists() {
		b.Buffer("embeddings.token_type_ids", o.PositionRows, step.I64)
	}
}

// Batch is input_ids, attention_mask and labels.
func (m *bert) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *bert) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2:]
	t.In(step.PartEmbedding)
	if m.masksFirst {
		m.mask = blocks.EncoderMask(t, t.Recipe.Stored)
	}
	embedded := m.embeddings(t, ids)
	if m.project != nil {
		projected := m.project.Forward(t, embedded)
		t.Drop(embedded)
		embedded = projected
	}
	if !m.masksFirst {
		m.mask = blocks.EncoderMask(t, embedded.Dtype())
	}
	var besides step.Besides
	if m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x := blocks.RunEncoder(t, m.a, len(m.layers), t.Hold(embedded), besides, m.layer)
	if encoder(m.a).NormFirst {
		t.In(step.PartNorm)
		normed := m.final.Layer(t, x)
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
	if m.types.Exists() && t.Recipe.Software.Has(gathersSegments) {
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
		if t.Recipe.Software.Has(gathersSegments) {
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
	normed := m.norm.Layer(t, sum)
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
	dense := m.pooler.Forward(t, first)
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
	case arch.ClassClassification, arch.ClassChoices:
		logits, input := m.classify(t, x, pooled)
		defer t.Drop(input)
		return blocks.ClassesOrChoices(t, m.a, logits, labels[0])
	case arch.ClassTokens, arch.ClassQuestions:
		return m.tokens.Loss(t, x, labels)
	case arch.ClassBase:
		return blocks.BaseLoss(t, x, pooled)
	}
	return m.masked.Loss(t, m.a, x, labels[0])
}

func (m *bert) Embeds() {}
