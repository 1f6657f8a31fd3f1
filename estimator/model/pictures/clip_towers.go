package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Batch is input_ids, attention_mask and pixel_values; the texts are the labels of the pictures.
func (m *CLIP) Batch(t *step.Tape) []step.T {
	n, p := t.Shape.N(), m.Own.picture
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(t.Shape.Batch*p.channels*p.Image*p.Image,
		step.F32)}
}

// projectsTowers is CLIP that projects what one tower made before the other runs, with the masks of all decoders.
var projectsTowers = release.Declare("projects-towers", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "CLIP of transformers 5.10 projects the pictures before it reads the texts, whose " +
		"mask is that of all " +
		"decoders: none for full texts",
	Source: "models/clip/modeling_clip.py (CLIPModel, CLIPTextModel), 4.57.6 and 5.23.0",
	Shown:  "traces of CLIP",
})

// Forward runs both towers and compares what they make.
func (m *CLIP) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, pixels := batch[0], batch[2]
	t.EndLayers()
	if t.Recipe.Software.Has(projectsTowers) {
		return m.projected(t, ids, pixels)
	}
	seen, picture := m.look(t, pixels)
	read, text := m.read(t, ids)
	t.In(step.PartMLP)
	images := m.visualProjection.Forward(t, picture)
	texts := m.TextProjection.Forward(t, text)
	images, texts = m.normalised(t, images), m.normalised(t, texts)
	loss, similarity := m.compare(t, texts, images)
	outputs := []step.T{t.Hold(similarity), t.Hold(loss), similarity, texts, images, read, text, seen, picture}
	return loss, outputs
}

// projected is CLIPModel.forward of transformers 5: each tower's result is projected before the other tower runs, and
// stays in its outputs.
// Source: transformers/models/clip/modeling_clip.py (CLIPModel.get_image_features, get_text_features), 5.23.
func (m *CLIP) projected(t *step.Tape, ids, pixels step.T) (step.T, []step.T) {
	seen, picture := m.look(t, pixels)
	t.In(step.PartMLP)
	imagesAsMade := m.visualProjection.Forward(t, picture)
	t.Drop(picture)
	read, text := m.read(t, ids)
	t.In(step.PartMLP)
	textsAsMade := m.TextProjection.Forward(t, text)
	t.Drop(text)
	images, texts := m.normalised(t, t.Hold(imagesAsMade)), m.normalised(t, t.Hold(textsAsMade))
	loss, similarity := m.compare(t, texts, images)
	outputs := []step.T{t.Hold(similarity), t.Hold(loss), similarity, texts, images, read, textsAsMade, seen,
		imagesAsMade}
	return loss, outputs
}

// look is CLIPVisionTransformer: the last hidden states, and the norm of the class token.
func (m *CLIP) look(t *step.Tape, pixels step.T) (last, pooled step.T) {
	t.In(step.PartEmbedding)
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	cut := t.TowerInput(t.Convolution(stored, m.patches.W, m.patches.B, m.Own.picture.count(), true))
	t.Drop(stored)
	all := t.Concat(t.RepeatedVector(m.class), cut, step.LabelEmbedding)
	places := t.Embedding(t.Buffered(m.Own.picture.tokens(), step.I64), m.places, step.LabelPositions)
	embedded := t.Add(all, places, step.LabelEmbedding)
	t.Drop(places, all, cut)
	t.In(step.PartNorm)
	normed := m.before.Layer(t, embedded)
	t.Drop(embedded)
	last = m.vision.Forward(t, t.Hold(normed), step.Besides{})
	t.In(step.PartNorm)
	class := t.FirstToken(last, m.Own.Vision.Hidden)
	if t.Shape.Batch > 1 {
		pooled = t.TransposedLayerNorm(class, m.after.W, m.after.B)
	} else {
		pooled = m.after.Layer(t, class)
	}
	t.Drop(class, normed)
	m.pooledAt = t.GraphSize()
	return last, pooled
}

// read is CLIPTextTransformer: the last hidden states, and those at the end of each text.
func (m *CLIP) read(t *step.Tape, ids step.T) (last, pooled step.T) {
	t.In(step.PartEmbedding)
	words := t.TowerInput(t.Embedding(ids, m.Words, step.LabelEmbedding))
	places := t.Embedding(t.Buffered(t.Shape.Tokens, step.I64), m.WordPlaces, step.LabelPositions)
	embedded := t.Add(words, places, step.LabelEmbedding)
	t.Drop(words, places)
	masks := m.masks(t, embedded.Dtype())
	x := m.Text.Forward(t, t.Hold(embedded), step.Besides{Arguments: masks})
	t.In(step.PartNorm)
	last = m.Final.Layer(t, x)
	rows, ends := t.Input(t.Shape.Batch, step.I64), m.Ends(t)
	pooled = t.PickTokens(last, m.Own.Text.Hidden, rows, ends)
	t.Drop(append(masks, embedded, x, rows, ends)...)
	return last, pooled
}

// masks are the padding of every sequence, as an additive mask, and what lies behind a token.
// Source: transformers/modeling_attn_mask_utils.py (_make_causal_mask, _expand_mask), 4.57.
func (m *CLIP) masks(t *step.Tape, d step.DType) []step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	var masks []step.T
	m.Causal = step.NoTensor
	if t.Recipe.Software.Has(projectsTowers) {
		m.Padding = step.NoTensor
		if made := blocks.CausalMask(t, 0, d); made != nil {
			m.Padding = *made
			masks = append(masks, m.Padding)
		}
		return masks
	}
	if n > 1 {
		m.Causal = t.Input(n*n, step.F32)
		places, next := t.Input(n, step.I64), t.Input(n, step.I64)
		before := t.Input(n*n, step.Bool)
		t.Drop(next, before)
		wide := m.Causal
		m.Causal = t.Cast(wide, d, step.LabelAttentionMask)
		t.Drop(wide, places)
		masks = append(masks, m.Causal)
	}
	expanded := t.Input(b*n*n, d)
	inverted := t.Input(b*n*n, d)
	truth := t.Input(b*n*n, step.Bool)
	m.Padding = t.Input(b*n*n, d)
	t.Drop(truth, expanded, inverted)
	return append([]step.T{m.Padding}, masks...)
}

// Ends finds the place of the end in each text: that of the largest id, or of the first that says so.
func (m *CLIP) Ends(t *step.Tape) step.T {
	n, b := t.Shape.N(), t.Shape.Batch
	narrow := t.Input(n*4, step.Bool) // 32-bit integers
	if !m.Own.LegacyEnd {
		found := t.Input(n, step.Bool)
		t.Drop(narrow)
		narrow = t.Input(n*4, step.Bool)
		t.Drop(found)
	}
	ends := t.Input(b, step.I64)
	t.Drop(narrow)
	return ends
}

// normalised is x / |x| for every row. It takes over x.
func (m *CLIP) normalised(t *step.Tape, x step.T) step.T {
	norm := t.RowNorm(x, m.Own.Projection)
	y := t.DivideRows(x, norm)
	t.Drop(norm, x)
	return y
}

// compare is the cosine of every text with every picture, scaled, and the mean of the losses over rows and columns.
func (m *CLIP) compare(t *step.Tape, texts, images step.T) (loss, similarity step.T) {
	right := t.Autocast(images)
	left := t.Autocast(texts)
	b := t.Shape.Batch
	products := t.BMM(left, right, b*b, step.LabelLogits)
	t.Drop(left, right)
	scale := t.Exp(t.Parameter(m.scale))
	similarity = t.MulByNumber(products, scale)
	t.Drop(scale, products)
	ofTexts := t.ContrastiveLoss(similarity, false)
	columns := t.Transposed(t.Hold(similarity))
	ofPictures := t.ContrastiveLoss(columns, true)
	t.Drop(columns)
	sum := t.Add(ofTexts, ofPictures, step.LabelLoss)
	loss = t.MulScalar(sum, step.LabelLoss)
	t.Drop(sum, ofTexts, ofPictures)
	return loss, similarity
}

// Forward runs the layers of the tower on x, which it takes over.
func (w *clipTower) Forward(t *step.Tape, x step.T, besides step.Besides) step.T {
	w.States = w.States[:0]
	for i := range w.layers {
		w.hold(t, x, i)
		if i == w.used {
			w.unused = t.GraphSize()
		}
		x = t.Layer(int32((w.First+i)/int(w.M.A.UnitLayers())), x, func(t *step.Tape, x step.T) step.T {
			return w.layer(t, i, x)
		}, besides)
	}
	w.hold(t, x, len(w.layers))
	if w.used >= len(w.layers) {
		w.unused = t.GraphSize()
	}
	t.EndLayers()
	return x
}

// hold keeps hidden states for the caller, since transformers 5 those alone that it reads, besides the input.
func (w *clipTower) hold(t *step.Tape, x step.T, i int) {
	switch {
	case !w.Holds:
	case t.Recipe.Software.Has(returnsTower) && i > 0 && i != w.used:
		w.States = append(w.States, step.NoTensor)
	default:
		w.States = append(w.States, t.Hold(x))
	}
}

// layer is CLIPEncoderLayer.
func (w *clipTower) layer(t *step.Tape, i int, x step.T) step.T {
	if w.within {
		defer lookAtPictures(t, w.tokens)()
	}
	l := &w.layers[i]
	t.In(step.PartNorm)
	h := w.normed(t, l.before, x)
	t.In(step.PartAttention)
	attn, probabilities := w.attention(t, l, h)
	out := t.Heads(attn, w.relays(t, i))
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, out, step.LabelResidual)
	t.Drop(out)
	h = w.normed(t, l.between, middle)
	t.In(step.PartMLP)
	up := l.fc1.Forward(t, h)
	act := arch.Activation(t, w.sizes.activation, up)
	t.Drop(up)
	down := t.Heads(l.fc2.Forward(t, act), w.relays(t, i))
	t.Drop(act, h)
	t.In(step.PartNorm)
	y := t.Add(middle, down, step.LabelResidual)
	t.Drop(down, middle)
	if probabilities != step.NoTensor {
		t.Drop(probabilities)
	}
	if i+2 == len(w.layers) {
		y = w.lastInput(t, y)
	}
	return y
}

// lastInput marks the input of the last layer: as the leaf that checkpointing makes of it, it gets the only gradient
// that does not lie with the channels outermost already.
func (w *clipTower) lastInput(t *step.Tape, x step.T) step.T {
	if w.transposed {
		return t.Permuted(x)
	}
	return x
}

// relays says that the gradient of layer i's output arrives with the channels outermost, as a leaf that lies so was
// given it: that of a layer behind it that ran again. Of one picture it is a matrix that products read transposed.
func (w *clipTower) relays(t *step.Tape, i int) bool {
	return w.transposed && t.Shape.Batch > 1 && t.Recipe.CheckpointEvery > 0 && i+1 < len(w.layers)
}

func (w *clipTower) normed(t *step.Tape, n arch.Norm, x step.T) step.T {
	if w.transposed {
		return t.TransposedLayerNorm(x, n.W, n.B)
	}
	return n.Layer(t, x)
}

// attention is CLIPAttention; texts have a mask for padding to which the causal one is added anew in each layer.
// It also returns the probabilities of eager attention where the layer gets them.
func (w *clipTower) attention(t *step.Tape, l *clipLayer, x step.T) (out, probabilities step.T) {
	h := step.Heads{Query: w.sizes.Heads, KV: w.sizes.Heads, Dim: w.sizes.Hidden / w.sizes.Heads, Queries: w.tokens,
		Keys: w.tokens, Bidirectional: w.tokens > 0, Drops: w.M.A.AttentionDropout > 0}
	var mask *step.T
	if (w.tokens == 0 || w.masked) && w.M.Padding != step.NoTensor {
		mask = &w.M.Padding
	}
	copiesQV, copiesK := t.PadsHeads(h, mask != nil), t.PadsHeads(h, mask != nil)
	eager := t.Recipe.Attention == step.AttentionEager
	if eager {
		copiesQV, copiesK = t.CopiesEncoderGradient(h, mask != nil)
	}
	q, k, v := l.q.Forward(t, x), l.k.Keys(t, x, eager && copiesK), l.v.Forward(t, x)
	q, k, v = t.Heads(q, copiesQV), t.Heads(k, copiesK && !eager), t.Heads(v, copiesQV)
	if mask != nil && w.M.Causal != step.NoTensor {
		both := t.Add(*mask, w.M.Causal, step.LabelAttentionMask)
		defer t.Drop(both)
		mask = &both
	}
	var context step.T
	if probabilities = step.NoTensor; eager {
		context, probabilities = t.Eager(step.EagerAttention{Heads: h, Dropout: w.M.A.AttentionDropout, Mask: mask,
			Upcast: true}, q, k, v)
		if !t.Recipe.Software.Has(blocks.ReturnsProbabilities) {
			t.Drop(probabilities)
			probabilities = step.NoTensor
		}
	} else {
		context = t.TokensFirst(t.SDPA(q, k, v, h, mask, w.M.A.AttentionDropout), h, mask != nil)
	}
	out = l.out.Forward(t, context)
	t.Drop(context, q, k, v)
	return out, probabilities
}
