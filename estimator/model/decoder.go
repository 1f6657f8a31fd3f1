package model

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// decoder is a causal language model of transformers with rotary positions: Llama and what is written after its
// pattern. What a family does otherwise is in its traits.
// Source: transformers/models/llama/modeling_llama.py (LlamaModel, LlamaForCausalLM), 4.57.
type decoder struct {
	a *Architecture
	traits
	embed         step.Weight
	head          linear
	embedScale    step.Weight
	layers        []decoderLayer
	final         norm
	full, sliding around
	cache         []step.T
	given         step.T // the attention mask of the batch
}

// traits are in what a family departs from Llama.
type traits struct {
	// declare lists the modules of a layer in their order.
	declare func(b *builder, l *decoderLayer)
	// block is the forward of a layer.
	block func(m *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) step.T
	// attend is the forward of attention where it is not (*decoder).attention.
	attend func(m *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T)
	// project returns queries, keys and values by heads.
	project func(m *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T)
	// rotate turns queries and keys.
	rotate func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T)
	// scaleQueries is what queries go through once they are turned, nil for nothing. It takes them over.
	scaleQueries func(t *step.Tape, q step.T) step.T
	// normalize is the norm of the layers and the final one.
	normalize func(g norm, t *step.Tape, x step.T) step.T
	// makeMask makes the mask of the layers, nil for none.
	makeMask func(t *step.Tape, window int64, d step.DType) *step.T
	// scaleLogits is what the logits go through before the loss, nil for nothing. It takes them over.
	scaleLogits    func(t *step.Tape, logits step.T) step.T
	scaleEmbedding embeddingScale
	// feedForward is the MLP's forward where it is not (*decoder).mlp.
	feedForward func(m *decoder, t *step.Tape, l *decoderLayer, x step.T) step.T
	// ownTables hands a layer only the rotary tables of its own kind (OLMo 3).
	ownTables bool
	// unturned says that there are no rotary positions at all.
	unturned bool
	// unplaced says that the layers are not handed the positions.
	unplaced bool
	// idleWindow makes the mask of a window that no layer looks through.
	idleWindow bool
	// addsMask adds the mask of eager attention in place.
	addsMask bool
	// softCap bounds the scores of eager attention by a tanh.
	softCap bool
	// scaleBranches multiplies what attention and MLP add to the residual stream (Granite).
	scaleBranches bool
	// makeTable makes the rotary tables of heads of dim elements.
	makeTable func(t *step.Tape, dim int64, d step.DType) (cos, sin step.T)
	// clip clamps queries, keys and values (OLMo).
	clip bool
	// wideTables leaves cosines and sines in float32.
	wideTables bool
	// rotaryWindows turns queries and keys in the layers with a window alone (Cohere 2).
	rotaryWindows bool
	// localTables gives the layers with a window rotary tables of their own.
	localTables bool
	// repeats repeats grouped keys and values for every kernel, and drops the probabilities inside attention.
	repeats bool
	// score is attention behind the projections where it is not (*decoder).scores.
	score func(m *decoder, t *step.Tape, l *decoderLayer, w *around, heads step.Heads, q, k, v step.T) (step.T, *step.T)
	// plainNorms says that the norms have no parameters.
	plainNorms bool
	// turnedNorms norms each head of queries and keys once they are turned (HunYuan).
	turnedNorms bool
	// normBias gives the norms a bias.
	normBias bool
	// keepsProbabilities says that a variable of the layer holds them to its end, beside what the experts leave.
	keepsProbabilities bool
	// headBias gives the head of a language model a bias.
	headBias bool
	// tablesFirst declares the rotary tables' frequencies in front of the last norm (LFM2).
	tablesFirst bool
	// tablesAgain declares them twice, ownCache is a cache of the model's own (LFM2 before transformers 5.10).
	tablesAgain bool
	ownCache
	// slidingFirst makes the tables of layers with a window first, where Python iterates over a set of both kinds.
	slidingFirst bool
	// each says what layer i gets besides what all layers get, nil for nothing.
	each func(t *step.Tape, i int, all step.Besides) step.Besides
	// forgets ends what the model kept between its layers, nil for nothing.
	forgets func(t *step.Tape)
	// drops drops out the outputs of attention and MLP inside these modules, dropsEmbeddings the embeddings.
	drops, dropsEmbeddings bool
}

// embeddingScale is how a model scales its embeddings.
type embeddingScale uint8

const (
	notScaled        embeddingScale = iota
	scaledByModel                   // inputs_embeds = inputs_embeds * multiplier
	scaledByModule                  // the embedding's own forward does it, with a buffer
	scaledBehindMask                // inputs_embeds = inputs_embeds * multiplier, once the mask is made
	scaledAsHidden                  // hidden_states = inputs_embeds * multiplier, and inputs_embeds lives on
)

// around is what a layer gets besides its input.
type around struct {
	mask     *step.T
	cos, sin step.T
	rotary   bool
}

// decoderLayer holds the modules of a layer; no family has them all.
type decoderLayer struct {
	index                                   int64
	q, k, v, out                            linear
	qNorm, kNorm                            norm
	gate, up, down                          linear
	qkv, gateUp                             linear // fused
	conv                                    convolution
	mixer                                   any            // instead of attention
	qNorms, kNorms                          []norm         // one for every head
	experts                                 mixture        // instead of gate, up and down
	alphas                                  [2]step.Weight // of the activation
	inputNorm, postAttentionNorm            norm
	preFeedforwardNorm, postFeedforwardNorm norm
}

// decoder declares a model with the given traits.
func (b *builder) decoder(with traits) step.Network {
	a := b.a
	m := &decoder{a: a, traits: with, layers: make([]decoderLayer, b.recorded)}
	m.embed = b.embedding("embed_tokens", a.Vocabulary, a.Hidden)
	b.inputSection()
	if with.scaleEmbedding == scaledByModule {
		m.embedScale = b.scalar("embed_tokens.embed_scale")
	}
	b.stack(func(i int64) {
		m.layers[i].index = i
		with.declare(b, &m.layers[i])
	})
	if with.tablesFirst {
		b.frequencies("rotary_emb.", a.rotaryWidth()/2)
		if with.tablesAgain {
			b.frequencies("pos_emb.", a.rotaryWidth()/2)
		}
	}
	if !with.plainNorms {
		m.final = b.norm("norm", a.Hidden, with.normBias)
		b.finalNormSection(with.normBias)
	}
	if !with.unturned && !with.tablesFirst {
		b.frequencies("rotary_emb.", a.rotaryWidth()/2)
	}
	if with.localTables && (!a.Software.KeepsFrequencies || a.mixes()) {
		b.frequencies("rotary_emb_local.", a.HeadDim/2)
	}
	switch {
	case a.Class == classBase:
		return m
	case a.classes():
		m.head = b.score()
	default:
		m.head = b.head("lm_head", a.Hidden, with.headBias)
	}
	b.headSection(m.head)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *decoder) Batch(t *step.Tape) []step.T { return encoderBatch(t, m.a) }

func (m *decoder) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	m.given = batch[1]
	return m.read(t, handed{embedded: m.embeddings(t, batch[0])}, batch[2])
}

// handed is what a decoder is called with instead of input_ids. It is taken over when the last layer has run.
type handed struct {
	embedded step.T
	// positions are those of the tokens, nil where the decoder makes them.
	positions []step.T
	// mask is the layers', nil where the decoder makes it; it is one of locals, as is sliding, that of layers with a
	// window where it is another.
	mask, sliding *step.T
	// maskedFirst says that the caller makes the masks, before the decoder makes the positions.
	maskedFirst bool
	// slidingFirst says that the mask with a window is made before the one without.
	slidingFirst bool
	// prepare runs behind the masks, and returns what the decoder holds of it; nil for nothing.
	prepare func() []step.T
	// ended lets go of what the caller has held besides, after the layers; nil for nothing.
	ended func()
	// loss is the model's own, which may return other logits, nil where it is that of all decoders.
	loss func(t *step.Tape, logits, labels step.T) (returned, loss step.T)
	// captured are what the keywords of all layers refer to besides.
	captured []step.T
	// locals are what the caller's variables hold besides.
	locals []step.T
}

// read is the model behind its embeddings.
func (m *decoder) read(t *step.Tape, given handed, labels step.T) (step.T, []step.T) {
	m.cache = m.opened(m, t)
	embedded, positions := given.embedded, given.positions
	if positions == nil && !given.maskedFirst {
		positions = []step.T{positionNumbers(t)}
	}
	var masks []step.T
	if m.full, m.sliding = (around{mask: given.mask}), (around{mask: given.mask}); given.mask == nil {
		masks = m.makeMasks(t, embedded.Dtype(), given.slidingFirst)
	} else if given.sliding != nil {
		m.sliding.mask = given.sliding
	}
	if positions == nil {
		positions = []step.T{positionNumbers(t)}
	}
	if given.prepare != nil {
		masks = append(masks, given.prepare()...)
	}
	if m.scaleEmbedding == scaledBehindMask {
		scaled := t.MulScalar(embedded, step.LabelEmbedding)
		t.Drop(embedded)
		embedded = scaled
	}
	x := t.Hold(embedded)
	if m.dropsEmbeddings {
		t.Drop(x)
		x = t.DropoutFunction(embedded, m.a.EmbeddingDropout)
	}
	tables := m.makeTables(t, embedded.Dtype())
	if m.scaleEmbedding == scaledAsHidden {
		t.Drop(x)
		x = t.MulScalar(embedded, step.LabelEmbedding)
	}
	besides := m.besides(t, slices.Concat(positions, given.captured), tables)
	if m.each != nil {
		alike := besides
		besides = func(i int) step.Besides { return m.each(t, i, alike(i)) }
	}
	x = runLayersWith(t, m.a, len(m.layers), x, besides, m.layer)

	x = t.OpenSection(step.HeadSection, x)
	t.In(step.PartNorm)
	normed := m.normalize(m.final, t, x)
	t.Drop(x, embedded)
	t.Drop(slices.Concat(positions, given.locals, masks, tables)...)
	if m.forgets != nil {
		m.forgets(t)
	}
	if given.ended != nil {
		given.ended()
	}
	if t.Embeds() {
		for _, cached := range m.cache { // which goes with the output that it is in
			t.Drop(cached)
		}
		return step.NoTensor, []step.T{normed}
	}
	if m.a.classes() {
		loss, outputs := m.classify(t, normed, labels)
		return loss, append(outputs, m.cache...)
	}
	var logits step.T
	switch {
	case m.scaleLogits == nil, t.RunsHead(): // an objective's own head scales and bounds within its tiles
		logits = t.CloseSection(step.HeadSection, m.head.logits(t, normed))
	case t.Recipe.UpcastInModel: // what is scaled is made float32, in the model
		logits = t.CloseSection(step.HeadSection, m.head.scaledLogits(t, normed, m.scaleLogits))
	default:
		logits = m.scaleLogits(t, t.CloseSection(step.HeadSection, m.head.logits(t, normed)))
	}
	var loss step.T
	if given.loss != nil {
		logits, loss = given.loss(t, logits, labels)
	} else {
		loss = t.CausalLMLoss(logits, labels)
	}
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

// embeddings is inputs_embeds.
func (m *decoder) embeddings(t *step.Tape, ids step.T) step.T {
	x := t.Section(step.InputSection, ids, func(ids step.T) step.T {
		if m.scaleEmbedding == scaledByModule {
			return t.ScaledEmbedding(ids, m.embed, m.embedScale, step.LabelEmbedding)
		}
		return t.Embedding(ids, m.embed, step.LabelEmbedding)
	})
	if m.scaleEmbedding != scaledByModel {
		return x
	}
	y := t.MulScalar(x, step.LabelEmbedding)
	t.Drop(x)
	return y
}

// makeMasks makes the mask of all layers or, where some have a window, one for either kind.
func (m *decoder) makeMasks(t *step.Tape, d step.DType, slidingFirst bool) []step.T {
	a := m.a
	m.full, m.sliding = around{}, around{}
	switch {
	case a.Sliding == nil:
		m.full.mask = m.makeMask(t, a.SlidingWindow, d)
	case slidingFirst:
		m.sliding.mask = causalMask(t, a.SlidingWindow, d)
		m.full.mask = causalMask(t, 0, d)
	default:
		m.full.mask = causalMask(t, 0, d)
		m.sliding.mask = causalMask(t, a.SlidingWindow, d)
	}
	var made []step.T
	for _, mask := range [...]*step.T{m.full.mask, m.sliding.mask} {
		if mask != nil {
			made = append(made, *mask)
		}
	}
	if m.idleWindow {
		if mask := causalMask(t, 1, d); mask != nil { // of every length the window is shorter
			made = append(made, *mask)
		}
	}
	return made
}

// makeTables makes the cosines and sines of the rotary positions.
func (m *decoder) makeTables(t *step.Tape, d step.DType) []step.T {
	if m.unturned {
		return nil
	}
	if m.wideTables {
		d = step.F32
	}
	if m.slidingFirst {
		m.sliding.cos, m.sliding.sin = m.makeTable(t, m.a.HeadDim, d)
		m.full.cos, m.full.sin = m.makeTable(t, m.a.rotaryWidth(), d)
		return []step.T{m.full.cos, m.full.sin, m.sliding.cos, m.sliding.sin}
	}
	m.full.cos, m.full.sin = m.makeTable(t, m.a.rotaryWidth(), d)
	m.sliding.cos, m.sliding.sin = m.full.cos, m.full.sin
	if !m.localTables || m.a.Software.KeepsFrequencies && !m.a.mixes() {
		return []step.T{m.full.cos, m.full.sin}
	}
	m.sliding.cos, m.sliding.sin = m.makeTable(t, m.a.HeadDim, d)
	return []step.T{m.full.cos, m.full.sin, m.sliding.cos, m.sliding.sin}
}

// layer is the forward of layer i.
func (m *decoder) layer(t *step.Tape, i int, x step.T) step.T {
	w := m.full
	if m.a.slides(int64(i)) {
		w = m.sliding
	}
	w.rotary = !m.unturned && (!m.rotaryWindows || m.a.slides(int64(i)))
	w.rotary = w.rotary && (m.a.NoRotaryEvery == 0 || (int64(i)+1)%m.a.NoRotaryEvery != 0)
	return m.block(m, t, &m.layers[i], &w, x)
}

// projections declares q_proj, k_proj, v_proj and o_proj.
func (b *builder) projections(l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.q, l.k = b.linear("self_attn.q_proj", d, q, a.QKVBias), b.linear("self_attn.k_proj", d, kv, a.QKVBias)
	l.v, l.out = b.linear("self_attn.v_proj", d, kv, a.QKVBias), b.linear("self_attn.o_proj", q, d, a.OutBias)
	b.cut(columns, &l.q, &l.k, &l.v)
	b.cut(rows, &l.out)
}

// mlp declares gate_proj, up_proj and down_proj.
func (b *builder) mlp(l *decoderLayer) {
	m := buildGatedMLP(b, "mlp", b.a.FFN, b.a.MLPBias)
	l.gate, l.up, l.down = m.gate, m.up, m.down
	b.cut(columns, &l.gate, &l.up)
	b.cut(rows, &l.down)
}

func (m *decoder) plainHead() bool { return m.scaleLogits == nil && !m.a.classes() }

func (m *decoder) embeds() {}

func (m *decoder) matrixHead() bool { return !m.a.classes() }
