package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// DistilBERTFamily is DistilBERT.
var DistilBERTFamily = arch.Family{ModelType: "distilbert",
	Keys: arch.FieldNames{Heads: "n_heads", Hidden: "dim", KV: "n_heads", Dim: "dim"},
	Classes: []string{arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions,
		arch.ClassChoices, arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 30522.0, "dim": 768.0, "n_layers": 6.0, "n_heads": 12.0, "hidden_dim": 3072.0,
		"activation": "gelu",
		"dropout":    0.1, "attention_dropout": 0.1, "seq_classif_dropout": 0.2, "qa_dropout": 0.1,
		"max_position_embeddings": 512.0,
		"sinusoidal_pos_embds":    false, "tie_word_embeddings": true},
	Read: readDistilBERT,
	Spelled: map[string]string{"num_hidden_layers": "n_layers", "hidden_size": "dim", "num_attention_heads": "n_heads",
		"intermediate_size": "hidden_dim"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["dropout"], c["architectures"] = p.Dropout.Hidden, []any{arch.ClassMaskedLM}
	},
	Build: buildDistilBERT,
}

func readDistilBERT(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("n_layers", arch.MaxLayers)
	a.Hidden = c.Integer("dim", arch.MaxWidth)
	a.Heads = c.Integer("n_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("hidden_dim", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	a.Activation = c.Activation("activation", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.Probability("dropout"), c.Probability("attention_dropout")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.LearnedPositions = c.Boolean("tie_word_embeddings"), true
	a.Labels = c.Labels()
	refuseVariants(c)
	dropout := c.Probability("seq_classif_dropout")
	a.Own = &EncoderOptions{PositionRows: a.MaxPositions, classifierDropout: &dropout,
		questionDropout: c.Probability("qa_dropout"), fixedPositions: c.Boolean("sinusoidal_pos_embds")}
	return a
}

// readDistilBERT is transformers' DistilBertModel with a head (modeling_distilbert.py, 4.57): the embeddings are BERT's
// without segments.
type distilBERT struct {
	bert
	given step.T  // the attention mask as the batch has it
	mask  *step.T // and as attention takes it
}

// trainsSines trains the positions of DistilBERT that are sine waves at first.
var trainsSines = arch.Of(func(a *arch.Architecture, _ arch.Use) bool {
	return encoder(a).fixedPositions
}, release.Declare("trains-sines", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "DistilBERT's positions that are sine waves (sinusoidal_pos_embds) are trained in transformers 5, which " +
		"copies the waves into a parameter; 4.57 takes its gradient away",
	Source: "models/distilbert/modeling_distilbert.py (create_sinusoidal_embeddings, _init_weights), 4.57.6, 5.0.0 " +
		"and 5.23.0",
	Shown: "traces of DistilBERT with sine waves",
}))

func buildDistilBERT(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &distilBERT{bert: bert{a: a, layers: make([]bertLayer, b.Recorded), types: step.NoWeight}}
	m.words, m.positions = b.Embedding("embeddings.word_embeddings", a.Vocabulary, d),
		b.Embedding("embeddings.position_embeddings", encoder(a).PositionRows, d)
	if encoder(a).fixedPositions && !a.Software.Has(trainsSines) {
		b.P.List[m.positions.Index].Frozen = true
	}
	m.norm = b.Norm("embeddings.LayerNorm", d, true)
	b.Buffer("embeddings.position_ids", encoder(a).PositionRows, step.I64)
	b.Stack(func(i int64) { m.layers[i] = distilBERTLayer(b) })
	switch a.Class {
	case arch.ClassClassification, arch.ClassChoices:
		first, second := b.Linear("pre_classifier", d, d, true), b.Linear("classifier", d, blocks.Outputs(a), true)
		m.classify = func(t *step.Tape, x step.T, _ *step.T) (logits, input step.T) {
			return m.classes(t, x, first, second)
		}
	case arch.ClassMaskedLM:
		m.masked = blocks.ProjectorHead(b, func() step.Weight { return m.words },
			blocks.MaskedNames{Dense: "vocab_transform", Norm: "vocab_layer_norm", Out: "vocab_projector"})
	case arch.ClassTokens:
		m.tokens = blocks.BuildTokenHead(b, a.ResidualDropout)
	case arch.ClassQuestions:
		m.tokens = blocks.BuildTokenHead(b, encoder(a).questionDropout)
	}
	return m
}

func distilBERTLayer(b *arch.Builder) bertLayer {
	d, f := b.A.Hidden, b.A.FFN
	var l bertLayer
	l.q, l.k, l.v = b.Linear("attention.q_lin", d, d, true), b.Linear("attention.k_lin", d, d, true),
		b.Linear("attention.v_lin", d, d, true)
	l.out, l.attentionNorm = b.Linear("attention.out_lin", d, d, true), b.Norm("sa_layer_norm", d, true)
	l.up, l.down = b.Linear("ffn.lin1", d, f, true), b.Linear("ffn.lin2", f, d, true)
	l.lastNorm = b.Norm("output_layer_norm", d, true)
	return l
}

func (m *distilBERT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	embedded := m.embeddings(t, batch[0])
	m.given = batch[1]
	var besides step.Besides
	if m.fills(t) {
		besides.Arguments = []step.T{m.given}
	} else if m.mask = blocks.EncoderMask(t, embedded.Dtype()); m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x := blocks.RunEncoder(t, m.a, len(m.layers), t.Hold(embedded), besides, m.layer)
	t.Drop(embedded)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	return m.loss(t, x, nil, batch[2:])
}

// layer is TransformerBlock.
func (m *distilBERT) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartAttention)
	attended := m.attention(t, l, x)
	middle := addNorm(t, l.attentionNorm, attended, x)
	t.Drop(attended)

	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, middle)
	down := l.down.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	y := addNorm(t, l.lastNorm, dropped, middle)
	t.Drop(dropped, middle)
	dropProbabilities(t)
	return y
}

// fills says that attention is written out as releases before transformers 5 do it, which fill the scores of padding.
func (m *distilBERT) fills(t *step.Tape) bool {
	return t.Recipe.Attention == step.AttentionEager && !t.Recipe.Software.Has(step.ReassignsScores)
}

// addNorm is n(h + x).
func addNorm(t *step.Tape, n arch.Norm, h, x step.T) step.T {
	t.In(step.PartNorm)
	sum := t.Add(h, x, step.LabelResidual)
	y := n.Layer(t, sum)
	t.Drop(sum)
	return y
}

// attention is DistilBertSdpaAttention or MultiHeadSelfAttention, with their last linear layer, or
// DistilBertSelfAttention of transformers 5, which writes the formula out as BERT does.
func (m *distilBERT) attention(t *step.Tape, l *bertLayer, x step.T) step.T {
	heads := m.a.Geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, m.mask != nil)
	q := t.Heads(l.q.Forward(t, x), copiesQV)
	k := l.k.Keys(t, x, copiesK)
	v := t.Heads(l.v.Forward(t, x), copiesQV)
	var y step.T
	var locals []step.T
	switch {
	case m.fills(t):
		scaled := t.MulScalar(q, step.LabelAttentionScores)
		t.Drop(q)
		q = scaled
		y, locals = t.FilledAttention(q, k, v, heads, m.a.AttentionDropout)
	case t.Recipe.Attention == step.AttentionEager:
		var probabilities, scores step.T
		y, probabilities, scores = t.EncoderAttention(q, k, v, heads, m.mask, m.a.AttentionDropout)
		t.Drop(scores)
		t.AlsoReturns(probabilities)
	default:
		y = t.TokensFirst(t.SDPA(q, k, v, heads, m.mask, m.a.AttentionDropout), heads, m.mask != nil)
	}
	out := l.out.Forward(t, y)
	t.Drop(append(locals, y, q, k, v)...)
	return out
}

// classes are the logits of DistilBertForSequenceClassification: a layer and ReLU over the first token, and a second
// layer.
func (m *distilBERT) classes(t *step.Tape, x step.T, first, second arch.Linear) (logits, input step.T) {
	t.In(step.PartMLP)
	token := t.FirstToken(x, m.a.Hidden)
	dense := first.Forward(t, token)
	t.Drop(token)
	act := t.ReLU(dense)
	t.Drop(dense)
	dropped := t.Dropout(act, headDropout(m.a))
	t.Drop(act)
	return second.Forward(t, dropped), dropped
}
