package blocks

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Decoder is a causal language model of transformers with rotary positions: Llama and what is written after its
// pattern. What a family does otherwise is in its traits.
// Source: transformers/models/llama/modeling_llama.py (LlamaModel, LlamaForCausalLM), 4.57.
type Decoder struct {
	A *arch.Architecture
	Traits
	Embed         step.Weight
	Head          arch.Linear
	EmbedScale    step.Weight
	Layers        []DecoderLayer
	Final         arch.Norm
	Full, sliding Around
	Cache         []step.T
	Given         step.T // the attention mask of the batch
}

// Traits are in what a family departs from Llama.
type Traits struct {
	// Declare lists the modules of a layer in their order.
	Declare func(b *arch.Builder, l *DecoderLayer)
	// Block is the forward of a layer.
	Block func(m *Decoder, t *step.Tape, l *DecoderLayer, w *Around, x step.T) step.T
	// Attend is the forward of attention where it is not (*Decoder).Attention.
	Attend func(m *Decoder, t *step.Tape, l *DecoderLayer, w *Around, x step.T) (step.T, *step.T)
	// Project returns queries, keys and values by heads.
	Project func(m *Decoder, t *step.Tape, l *DecoderLayer, w *Around, x step.T) (q, k, v step.T)
	// Rotate turns queries and keys.
	Rotate func(t *step.Tape, q, k step.T, w *Around) (qr, kr step.T)
	// BehindRotary is what queries and keys go through once they are turned, nil for nothing. It takes them over.
	BehindRotary func(m *Decoder, t *step.Tape, l *DecoderLayer, q, k step.T) (step.T, step.T)
	// Normalize is the norm of the layers and the final one.
	Normalize func(g arch.Norm, t *step.Tape, x step.T) step.T
	// MakeMask makes the mask of the layers, nil for none.
	MakeMask func(t *step.Tape, window int64, d step.DType) *step.T
	// ScaleLogits is what the logits go through before the loss, nil for nothing. It takes them over.
	ScaleLogits    func(t *step.Tape, logits step.T) step.T
	ScaleEmbedding EmbeddingScale
	// FeedForward is the MLP's forward where it is not (*Decoder).MLP.
	FeedForward func(m *Decoder, t *step.Tape, l *DecoderLayer, x step.T) step.T
	// OwnTables hands a layer only the rotary tables of its own kind (OLMo 3).
	OwnTables bool
	// Unturned says that there are no rotary positions at all.
	Unturned bool
	// Unplaced says that the layers are not handed the positions.
	Unplaced bool
	// IdleWindow makes the mask of a window that no layer looks through.
	IdleWindow bool
	// Eager is what the family's attention that is written out does otherwise than Llama's.
	Eager step.EagerAttention
	// ScaleBranches multiplies what attention and MLP add to the residual stream (Granite).
	ScaleBranches bool
	// MakeTable makes the rotary tables of heads of dim elements.
	MakeTable func(t *step.Tape, dim int64, d step.DType) (cos, sin step.T)
	// WideTables leaves cosines and sines in float32.
	WideTables bool
	// RotaryWindows turns queries and keys in the layers with a window alone (Cohere 2).
	RotaryWindows bool
	// LocalTables gives the layers with a window rotary tables of their own.
	LocalTables bool
	// Repeats repeats grouped keys and values for every kernel, and drops the probabilities inside attention.
	Repeats bool
	// Score is attention behind the projections where it is not (*Decoder).Scores.
	Score func(m *Decoder, t *step.Tape, l *DecoderLayer, w *Around, heads step.Heads, q, k, v step.T) (step.T, *step.T)
	// PlainNorms says that the norms have no parameters.
	PlainNorms bool
	// NormBias gives the norms a bias.
	NormBias bool
	// HeadBias gives the head of a language model a bias.
	HeadBias bool
	// TablesFirst declares the rotary tables' frequencies in front of the last norm, nil where they stand behind it.
	TablesFirst func(b *arch.Builder)
	// OwnCache is a cache of the model's own, which refers to keys and values as they are, without a copy: what it
	// takes before the layers run. It is nil for the library's.
	OwnCache func(m *Decoder, t *step.Tape) []step.T
	// SlidingFirst makes the tables of layers with a window first, where Python iterates over a set of both kinds.
	SlidingFirst bool
	// Each says what layer i gets besides what all layers get, nil for nothing.
	Each func(t *step.Tape, i int, all step.Besides) step.Besides
	// Drops drops out the outputs of attention and MLP inside these modules.
	Drops bool
}

// EmbeddingScale is how a model scales its embeddings, or drops them out.
type EmbeddingScale uint8

const (
	notScaled        EmbeddingScale = iota
	ScaledByModel                   // inputs_embeds = inputs_embeds * multiplier
	ScaledByModule                  // the embedding's own forward does it, with a buffer
	ScaledBehindMask                // inputs_embeds = inputs_embeds * multiplier, once the mask is made
	ScaledAsHidden                  // hidden_states = inputs_embeds * multiplier, and inputs_embeds lives on
	DroppedAsHidden                 // hidden_states = dropout(inputs_embeds)
)

// Around is what a layer gets besides its input.
type Around struct {
	Mask     *step.T
	Cos, Sin step.T
	Rotary   bool
}

// DecoderLayer holds the modules of a layer; no family has them all.
type DecoderLayer struct {
	Index                                   int64
	Q, K, V, Out                            arch.Linear
	QNorm, KNorm                            arch.Norm
	Gate, Up, Down                          arch.Linear
	QKV, GateUp                             arch.Linear // fused
	Conv                                    arch.Convolution
	Mixer                                   any            // instead of attention
	QNorms, KNorms                          []arch.Norm    // one for every head
	Experts                                 mixture        // instead of gate, up and down
	Alphas                                  [2]step.Weight // of the activation
	InputNorm, PostAttentionNorm            arch.Norm
	PreFeedforwardNorm, PostFeedforwardNorm arch.Norm
}

// BuildDecoder declares a model with the given traits.
func BuildDecoder(b *arch.Builder, with Traits) step.Network {
	a := b.A
	m := &Decoder{A: a, Traits: with, Layers: make([]DecoderLayer, b.Recorded)}
	m.Embed = b.Embedding("embed_tokens", a.Vocabulary, a.Hidden)
	b.InputSection()
	if with.ScaleEmbedding == ScaledByModule {
		m.EmbedScale = b.Scalar("embed_tokens.embed_scale")
	}
	b.StackAt("model.layers", func(i int64) {
		m.Layers[i].Index = i
		with.Declare(b, &m.Layers[i])
	})
	if with.TablesFirst != nil {
		with.TablesFirst(b)
	}
	if !with.PlainNorms {
		m.Final = b.Norm("norm", a.Hidden, with.NormBias)
		b.FinalNormSection(with.NormBias)
	}
	if !with.Unturned && with.TablesFirst == nil {
		b.Frequencies("rotary_emb.", a.RotaryWidth()/2)
	}
	if with.LocalTables && (!a.Software.Has(arch.KeepsFrequencies) || a.Mixes()) {
		b.Frequencies("rotary_emb_local.", a.HeadDim/2)
	}
	switch {
	case a.Class == arch.ClassBase:
		return m
	default:
		m.Head = DecoderHead(b, "lm_head", a.Hidden, with.HeadBias)
	}
	b.HeadSection(m.Head)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *Decoder) Batch(t *step.Tape) []step.T { return EncoderBatch(t, m.A) }

// Forward embeds the tokens and runs the layers and the head.
func (m *Decoder) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	m.Given = batch[1]
	return m.Read(t, Handed{Embedded: m.Embeddings(t, batch[0])}, batch[2])
}

// Handed is what a decoder is called with instead of input_ids. It is taken over when the last layer has run.
type Handed struct {
	Embedded step.T
	// Positions are those of the tokens, nil where the decoder makes them.
	Positions []step.T
	// Mask is the layers', nil where the decoder makes it; it is one of locals, as is sliding, that of layers with a
	// window where it is another.
	Mask, Sliding *step.T
	// MaskedFirst says that the caller makes the masks, before the decoder makes the positions.
	MaskedFirst bool
	// SlidingFirst says that the mask with a window is made before the one without.
	SlidingFirst bool
	// Prepare runs behind the masks, and returns what the decoder holds of it; nil for nothing.
	Prepare func() []step.T
	// Ended lets go of what the caller has held besides, after the layers; nil for nothing.
	Ended func()
	// Loss is the model's own, which may return other logits, nil where it is that of all decoders.
	Loss func(t *step.Tape, logits, labels step.T) (returned, loss step.T)
	// Captured are what the keywords of all layers refer to besides.
	Captured []step.T
	// Locals are what the caller's variables hold besides.
	Locals []step.T
}

// Read is the model behind its embeddings.
func (m *Decoder) Read(t *step.Tape, given Handed, labels step.T) (step.T, []step.T) {
	if m.Cache = nil; m.OwnCache != nil && t.Recipe.UseCache {
		m.Cache = m.OwnCache(m, t)
	}
	embedded, positions := given.Embedded, given.Positions
	if positions == nil && !given.MaskedFirst {
		positions = []step.T{PositionNumbers(t)}
	}
	var masks []step.T
	if m.Full, m.sliding = (Around{Mask: given.Mask}), (Around{Mask: given.Mask}); given.Mask == nil {
		masks = m.makeMasks(t, embedded.Dtype(), given.SlidingFirst)
	} else if given.Sliding != nil {
		m.sliding.Mask = given.Sliding
	}
	if positions == nil {
		positions = []step.T{PositionNumbers(t)}
	}
	if given.Prepare != nil {
		masks = append(masks, given.Prepare()...)
	}
	if m.ScaleEmbedding == ScaledBehindMask {
		scaled := t.MulScalar(embedded, step.LabelEmbedding)
		t.Drop(embedded)
		embedded = scaled
	}
	x := t.Hold(embedded)
	if m.ScaleEmbedding == DroppedAsHidden {
		t.Drop(x)
		x = t.DropoutFunction(embedded, m.A.EmbeddingDropout)
	}
	tables := m.makeTables(t, embedded.Dtype())
	if m.ScaleEmbedding == ScaledAsHidden {
		t.Drop(x)
		x = t.MulScalar(embedded, step.LabelEmbedding)
	}
	besides := m.besides(t, slices.Concat(positions, given.Captured), tables)
	if m.Each != nil {
		alike := besides
		besides = func(i int) step.Besides { return m.Each(t, i, alike(i)) }
	}
	x = RunLayersWith(t, m.A, len(m.Layers), x, besides, m.layer)

	x = t.OpenSection(step.HeadSection, x)
	t.In(step.PartNorm)
	normed := m.Normalize(m.Final, t, x)
	t.Drop(x, embedded)
	t.Drop(slices.Concat(positions, given.Locals, masks, tables)...)
	if given.Ended != nil {
		given.Ended()
	}
	if t.Embeds() {
		for _, cached := range m.Cache { // which goes with the output that it is in
			t.Drop(cached)
		}
		return step.NoTensor, []step.T{normed}
	}
	if m.A.Classes() {
		loss, outputs := classify(t, m.A, m.Head, normed, labels, m.Cache)
		m.Cache = nil
		return loss, outputs
	}
	var logits step.T
	switch {
	case m.ScaleLogits == nil, t.RunsHead(): // an objective's own head scales and bounds within its tiles
		logits = t.CloseSection(step.HeadSection, m.Head.Logits(t, normed))
	case t.Recipe.Software.Has(step.UpcastsInModel): // what is scaled is made float32, in the model
		logits = t.CloseSection(step.HeadSection, m.Head.ScaledLogits(t, normed, m.ScaleLogits))
	default:
		logits = m.ScaleLogits(t, t.CloseSection(step.HeadSection, m.Head.Logits(t, normed)))
	}
	var loss step.T
	if given.Loss != nil {
		logits, loss = given.Loss(t, logits, labels)
	} else {
		loss = t.CausalLMLoss(logits, labels)
	}
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.Cache...)
}

// Embeddings is inputs_embeds.
func (m *Decoder) Embeddings(t *step.Tape, ids step.T) step.T {
	x := t.Section(step.InputSection, ids, func(ids step.T) step.T {
		switch {
		case m.ScaleEmbedding == ScaledByModule && m.A.SharesVocabulary(): // the sum over the GPUs is scaled
			x := m.A.Embedded(t, ids, m.Embed)
			y := t.Mul(x, t.Parameter(m.EmbedScale), false, step.LabelEmbedding)
			t.Drop(x)
			return y
		case m.ScaleEmbedding == ScaledByModule:
			return t.ScaledEmbedding(ids, m.Embed, m.EmbedScale, step.LabelEmbedding)
		}
		return m.A.Embedded(t, ids, m.Embed)
	})
	if m.ScaleEmbedding != ScaledByModel {
		return x
	}
	y := t.MulScalar(x, step.LabelEmbedding)
	t.Drop(x)
	return y
}

// makeMasks makes the mask of all layers or, where some have a window, one for either kind.
func (m *Decoder) makeMasks(t *step.Tape, d step.DType, slidingFirst bool) []step.T {
	a := m.A
	m.Full, m.sliding = Around{}, Around{}
	switch {
	case a.Sliding == nil:
		m.Full.Mask = m.MakeMask(t, a.SlidingWindow, d)
	case slidingFirst:
		m.sliding.Mask = CausalMask(t, a.SlidingWindow, d)
		m.Full.Mask = CausalMask(t, 0, d)
	default:
		m.Full.Mask = CausalMask(t, 0, d)
		m.sliding.Mask = CausalMask(t, a.SlidingWindow, d)
	}
	var made []step.T
	for _, mask := range [...]*step.T{m.Full.Mask, m.sliding.Mask} {
		if mask != nil {
			made = append(made, *mask)
		}
	}
	if m.IdleWindow {
		if mask := CausalMask(t, 1, d); mask != nil { // of every length the window is shorter
			made = append(made, *mask)
		}
	}
	return made
}

// makeTables makes the cosines and sines of the rotary positions.
func (m *Decoder) makeTables(t *step.Tape, d step.DType) []step.T {
	if m.Unturned {
		return nil
	}
	if m.WideTables {
		d = step.F32
	}
	if m.SlidingFirst {
		m.sliding.Cos, m.sliding.Sin = m.MakeTable(t, m.A.HeadDim, d)
		m.Full.Cos, m.Full.Sin = m.MakeTable(t, m.A.RotaryWidth(), d)
		return []step.T{m.Full.Cos, m.Full.Sin, m.sliding.Cos, m.sliding.Sin}
	}
	m.Full.Cos, m.Full.Sin = m.MakeTable(t, m.A.RotaryWidth(), d)
	m.sliding.Cos, m.sliding.Sin = m.Full.Cos, m.Full.Sin
	if !m.LocalTables || m.A.Software.Has(arch.KeepsFrequencies) && !m.A.Mixes() {
		return []step.T{m.Full.Cos, m.Full.Sin}
	}
	m.sliding.Cos, m.sliding.Sin = m.MakeTable(t, m.A.HeadDim, d)
	return []step.T{m.Full.Cos, m.Full.Sin, m.sliding.Cos, m.sliding.Sin}
}

// layer is the forward of layer i.
func (m *Decoder) layer(t *step.Tape, i int, x step.T) step.T {
	w := m.Full
	if m.A.Slides(int64(i)) {
		w = m.sliding
	}
	w.Rotary = !m.Unturned && (!m.RotaryWindows || m.A.Slides(int64(i)))
	w.Rotary = w.Rotary && (m.A.NoRotaryEvery == 0 || (int64(i)+1)%m.A.NoRotaryEvery != 0)
	return m.Block(m, t, &m.Layers[i], &w, x)
}

// DeclareProjections declares q_proj, k_proj, v_proj and o_proj.
func DeclareProjections(b *arch.Builder, l *DecoderLayer) {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.Q, l.K = b.Linear("self_attn.q_proj", d, q, a.QKVBias), b.Linear("self_attn.k_proj", d, kv, a.QKVBias)
	l.V, l.Out = b.Linear("self_attn.v_proj", d, kv, a.QKVBias), b.Linear("self_attn.o_proj", q, d, a.OutBias)
	b.Cut(arch.Columns, &l.Q, &l.K, &l.V)
	b.Cut(arch.Rows, &l.Out)
}

// DeclareMLP declares gate_proj, up_proj and down_proj.
func DeclareMLP(b *arch.Builder, l *DecoderLayer) {
	m := arch.BuildGatedMLP(b, "mlp", b.A.FFN, b.A.MLPBias)
	l.Gate, l.Up, l.Down = m.Gate, m.Up, m.Down
	b.Cut(arch.Columns, &l.Gate, &l.Up)
	b.Cut(arch.Rows, &l.Down)
}

// PlainHead says that the logits are the head's output as it is.
func (m *Decoder) PlainHead() bool { return m.ScaleLogits == nil && !m.A.Classes() }

// Embeds says that the decoder runs without a head, too.
func (m *Decoder) Embeds() {}

// MatrixHead says that the logits are the head's output but for numbers.
func (m *Decoder) MatrixHead() bool { return !m.A.Classes() }
