package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// readModernBERT is transformers' ModernBertModel with a head (modeling_modernbert.py, 4.57), without flash-attn and so
// without unpadding.
type modernBERT struct {
	a                   *arch.Architecture
	embed               step.Weight
	embedNorm, final    arch.Norm
	layers              []modernLayer
	dense               arch.Linear
	headNorm            arch.Norm
	out                 arch.Linear
	tokens              blocks.TokenHead
	global, slidingMask step.T
	sides               [2]modernSide // of global and of local layers, in later releases
}

type modernLayer struct {
	attentionNorm, mlpNorm arch.Norm
	qkv, out, up, down     arch.Linear
	first, local           bool
}

// interfacesModernBERT is ModernBERT whose masks and attention are the library's, without parts that compile
// themselves.
var interfacesModernBERT = release.Declare("interfaces-modernbert", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "ModernBERT of transformers 5.10 makes its masks as other encoders do, none where a " +
		"batch is full, turns " +
		"queries and keys in float32 by tables that all layers of a kind share, and compiles no part of itself",
	Source: "models/modernbert/modeling_modernbert.py (ModernBertModel, ModernBertAttention), 4.57.6 and 5.23.0",
	Shown:  "traces of ModernBERT",
})

func buildModernBERT(b *arch.Builder) step.Network {
	a, o, d := b.A, modern(b.A), b.A.Hidden
	m := &modernBERT{a: a, layers: make([]modernLayer, b.Recorded)}
	m.embed = b.Embedding("embeddings.tok_embeddings", a.Vocabulary, d)
	m.embedNorm = b.Norm("embeddings.norm", d, a.NormBias)
	b.Stack(func(i int64) {
		l := &m.layers[i]
		l.first, l.local = i == 0, i%o.globalEvery != 0
		if !l.first {
			l.attentionNorm = b.Norm("attn_norm", d, a.NormBias)
		}
		l.qkv = b.Linear("attn.Wqkv", d, 3*d, a.QKVBias)
		if !a.Software.Has(interfacesModernBERT) {
			b.Buffer("attn.rotary_emb.inv_freq", a.HeadDim/2, step.F32)
		}
		l.out = b.Linear("attn.Wo", d, d, a.OutBias)
		l.mlpNorm = b.Norm("mlp_norm", d, a.NormBias)
		l.up, l.down = b.Linear("mlp.Wi", d, 2*a.FFN, a.MLPBias), b.Linear("mlp.Wo", a.FFN, d, a.MLPBias)
	})
	m.final = b.Norm("final_norm", d, a.NormBias)
	if a.Software.Has(interfacesModernBERT) {
		m.declareTables(b)
	}
	if a.Class == arch.ClassBase {
		return m
	}
	m.dense, m.headNorm = b.Linear("head.dense", d, d, o.headBias), b.Norm("head.norm", d, a.NormBias)
	if a.Class != arch.ClassMaskedLM {
		m.tokens = blocks.TokenHead{Answers: a.Class == arch.ClassQuestions, Out: b.Linear("classifier", d, a.Labels, true)}
		return m
	}
	m.out = b.OntoWords("decoder", func() step.Weight { return m.embed }, d, o.decoderBias)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *modernBERT) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *modernBERT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2:]
	t.In(step.PartEmbedding)
	if t.Recipe.Software.Has(interfacesModernBERT) {
		return m.loss(t, m.encode(t, ids), batch[1], labels)
	}
	positions := t.Input(t.Shape.Tokens, step.I64)
	m.global, m.slidingMask = modernMasks(t)
	x := m.embeddings(t, ids)

	locals := []step.T{m.global, m.slidingMask, positions}
	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{Captured: locals}, m.layer)
	t.In(step.PartNorm)
	last := m.final.Layer(t, x)
	t.Drop(x)
	t.Drop(locals...)
	return m.loss(t, last, batch[1], labels)
}

// embeddings is ModernBertEmbeddings.
func (m *modernBERT) embeddings(t *step.Tape, ids step.T) step.T {
	if m.compiles(t, m.a.EmbeddingDropout, false) {
		return t.CompiledEmbedding(ids, m.embed, m.embedNorm.W)
	}
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	normed := m.embedNorm.Layer(t, embedded)
	t.Drop(embedded)
	x := t.Dropout(normed, m.a.EmbeddingDropout)
	t.Drop(normed)
	return x
}

// modernMasks is _update_attention_mask: an additive mask for every sequence, and the same with what lies outside the
// window filled. The window itself is made on the CPU.
func modernMasks(t *step.Tape) (global, sliding step.T) {
	n := t.Shape.Tokens
	square := t.Shape.Batch * n * n
	expanded := t.Input(square, t.Recipe.Stored)
	inverted := t.Input(square, t.Recipe.Stored)
	hidden := t.Input(square, step.Bool)
	global = t.Input(square, t.Recipe.Stored)
	t.Drop(hidden, expanded, inverted)
	window := t.Input(n*n, step.Bool)
	outside := t.Input(n*n, step.Bool)
	sliding = t.Input(square, t.Recipe.Stored)
	t.Drop(outside, window)
	return global, sliding
}

// layer is ModernBertEncoderLayer.
func (m *modernBERT) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	h := x
	if l.first {
		t.Hold(h)
	} else {
		t.In(step.PartNorm)
		h = l.attentionNorm.Layer(t, x)
	}
	t.In(step.PartAttention)
	var attended step.T
	var probabilities *step.T
	if t.Recipe.Software.Has(interfacesModernBERT) {
		attended, probabilities = m.attend(t, l, h)
	} else {
		attended = m.attention(t, l, h)
	}
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attended, step.LabelResidual)
	mlp := m.mlp(t, l, middle)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(middle, attended, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention is ModernBertAttention with sdpa_attention_forward or eager_attention_forward. Every layer makes its own
// tables of cosines and sines.
func (m *modernBERT) attention(t *step.Tape, l *modernLayer, x step.T) step.T {
	mask := m.global
	if l.local {
		mask = m.slidingMask
	}
	qkv := t.Heads(l.qkv.Forward(t, x), true)
	cos, sin := blocks.RotaryTables(t, m.a.HeadDim, qkv.Dtype())
	q, k, v := t.Split3(qkv)
	qr, kr := t.Rotary(q, cos, sin), t.Rotary(k, cos, sin)
	t.Drop(q, k)
	y, probabilities := blocks.Attend(t, m.a, &mask, qr, kr, v)
	t.Drop(qr, kr, v, cos, sin)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	projected := l.out.Forward(t, y)
	out := t.Dropout(projected, m.a.AttentionDropout)
	t.Drop(projected, y, qkv)
	return out
}

// mlp is ModernBertMLP behind its norm: Wo(drop(act(input)·gate)) of the halves of one projection.
func (m *modernBERT) mlp(t *step.Tape, l *modernLayer, x step.T) step.T {
	if m.compiles(t, modern(m.a).mlpDropout, m.a.MLPBias) {
		t.In(step.PartMLP)
		return t.CompiledGLU(x, l.mlpNorm.W, l.up.W, l.down.W)
	}
	h := l.mlpNorm.Layer(t, x)
	t.In(step.PartMLP)
	defer t.Drop(h)
	both := l.up.Forward(t, h)
	input, gate := t.SplitHalves(both)
	t.Drop(both)
	act := arch.Activation(t, m.a.Activation, input)
	product := t.Mul(act, gate, false, step.LabelActivation)
	t.Drop(act)
	dropped := t.Dropout(product, modern(m.a).mlpDropout)
	t.Drop(product)
	down := l.down.Forward(t, dropped)
	t.Drop(dropped, input, gate)
	return down
}

// head is ModernBertPredictionHead: norm(act(dense(x))).
func (m *modernBERT) head(t *step.Tape, x step.T) step.T {
	t.In(step.PartMLP)
	dense := m.dense.Forward(t, x)
	act := arch.Activation(t, modern(m.a).headActivation, dense)
	t.Drop(dense)
	y := m.headNorm.Layer(t, act)
	t.Drop(act)
	return y
}

// logits is the decoder of the head.
func (m *modernBERT) logits(t *step.Tape, x step.T) step.T {
	if m.compiles(t, 0, modern(m.a).headBias) {
		t.In(step.PartMLP)
		return t.CompiledHead(x, m.dense.W, m.headNorm.W, m.out.W, m.out.B)
	}
	h := m.head(t, x)
	defer t.Drop(h)
	return m.out.Logits(t, h)
}

// loss takes over x.
func (m *modernBERT) loss(t *step.Tape, x, mask step.T, labels []step.T) (step.T, []step.T) {
	defer t.Drop(x)
	switch m.a.Class {
	case arch.ClassBase:
		return blocks.BaseLoss(t, x, nil)
	case arch.ClassMaskedLM:
		logits := m.logits(t, x)
		wide := t.FloatLogits(logits)
		loss := t.CrossEntropy(wide, labels[0])
		t.Drop(wide)
		return loss, []step.T{logits, t.Hold(loss)}
	}
	if m.a.Class != arch.ClassClassification {
		h := m.droppedHead(t, x)
		defer t.Drop(h)
		return m.tokens.Loss(t, h, labels)
	}
	pooled := m.pool(t, x, mask)
	defer t.Drop(pooled)
	h := m.droppedHead(t, pooled)
	defer t.Drop(h)
	logits := m.tokens.Out.Forward(t, h)
	return blocks.ClassificationLoss(t, m.a, logits, labels[0])
}

// droppedHead is dropout behind the head, as the classifiers have it.
func (m *modernBERT) droppedHead(t *step.Tape, x step.T) step.T {
	h := m.head(t, x)
	defer t.Drop(h)
	return t.Dropout(h, modern(m.a).classifierDropout)
}

// pool is the first token, or the mean over all tokens of the attention mask.
func (m *modernBERT) pool(t *step.Tape, x, mask step.T) step.T {
	if !modern(m.a).meanPooling {
		return t.FirstToken(x, m.a.Hidden)
	}
	return t.MaskedMean(x, mask, m.a.Hidden)
}

// compiles says whether a part without dropout (drops), with or without biases in its linear layers, runs compiled as
// it was traced.
func (m *modernBERT) compiles(t *step.Tape, drops float64, bias bool) bool {
	return modern(m.a).compiled && !t.Recipe.Software.Has(interfacesModernBERT) && !t.Recipe.Compile && drops == 0 &&
		!bias && !m.a.NormBias && m.a.LoRA == nil
}

func modern(a *arch.Architecture) *modernOptions { return a.Own.(*modernOptions) }

func (m *modernBERT) Embeds() {}
