package model

import "github.com/vramplan/vramplan/estimator/step"

// Batch is input_ids, attention_mask and pixel_values; the texts are the labels of the pictures.
func (m *clip) Batch(t *step.Tape) []step.T {
	n, p := t.Shape.N(), m.own.picture
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(t.Shape.Batch*p.channels*p.image*p.image,
		step.F32)}
}

func (m *clip) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, pixels := batch[0], batch[2]
	t.EndLayers()
	if t.Recipe.Software.ProjectsTowers {
		return m.projected(t, ids, pixels)
	}
	seen, picture := m.look(t, pixels)
	read, text := m.read(t, ids)
	t.In(step.PartMLP)
	images := m.visualProjection.forward(t, picture)
	texts := m.textProjection.forward(t, text)
	images, texts = m.normalised(t, images), m.normalised(t, texts)
	loss, similarity := m.compare(t, texts, images)
	outputs := []step.T{t.Hold(similarity), t.Hold(loss), similarity, texts, images, read, text, seen, picture}
	return loss, outputs
}

// projected is CLIPModel.forward of transformers 5: each tower's result is projected before the other tower runs, and
// stays in its outputs.
// Source: transformers/models/clip/modeling_clip.py (CLIPModel.get_image_features, get_text_features), 5.23.
func (m *clip) projected(t *step.Tape, ids, pixels step.T) (step.T, []step.T) {
	seen, picture := m.look(t, pixels)
	t.In(step.PartMLP)
	imagesAsMade := m.visualProjection.forward(t, picture)
	t.Drop(picture)
	read, text := m.read(t, ids)
	t.In(step.PartMLP)
	textsAsMade := m.textProjection.forward(t, text)
	t.Drop(text)
	images, texts := m.normalised(t, t.Hold(imagesAsMade)), m.normalised(t, t.Hold(textsAsMade))
	loss, similarity := m.compare(t, texts, images)
	outputs := []step.T{t.Hold(similarity), t.Hold(loss), similarity, texts, images, read, textsAsMade, seen,
		imagesAsMade}
	return loss, outputs
}

// look is CLIPVisionTransformer: the last hidden states, and the norm of the class token.
func (m *clip) look(t *step.Tape, pixels step.T) (last, pooled step.T) {
	t.In(step.PartEmbedding)
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	cut := t.TowerInput(t.Convolution(stored, m.patches.w, m.patches.b, m.own.picture.count(), true))
	t.Drop(stored)
	all := t.Concat(t.RepeatedVector(m.class), cut, step.LabelEmbedding)
	places := t.Embedding(t.Buffered(m.own.picture.tokens(), step.I64), m.places, step.LabelPositions)
	embedded := t.Add(all, places, step.LabelEmbedding)
	t.Drop(places, all, cut)
	t.In(step.PartNorm)
	normed := m.before.layer(t, embedded)
	t.Drop(embedded)
	last = m.vision.forward(t, t.Hold(normed), step.Besides{})
	t.In(step.PartNorm)
	class := t.FirstToken(last, m.own.vision.hidden)
	if t.Shape.Batch > 1 {
		pooled = t.TransposedLayerNorm(class, m.after.w, m.after.b)
	} else {
		pooled = m.after.layer(t, class)
	}
	t.Drop(class, normed)
	m.pooledAt = t.GraphSize()
	return last, pooled
}

// read is CLIPTextTransformer: the last hidden states, and those at the end of each text.
func (m *clip) read(t *step.Tape, ids step.T) (last, pooled step.T) {
	t.In(step.PartEmbedding)
	words := t.TowerInput(t.Embedding(ids, m.words, step.LabelEmbedding))
	places := t.Embedding(t.Buffered(t.Shape.Tokens, step.I64), m.wordPlaces, step.LabelPositions)
	embedded := t.Add(words, places, step.LabelEmbedding)
	t.Drop(words, places)
	masks := m.masks(t, embedded.Dtype())
	x := m.text.forward(t, t.Hold(embedded), step.Besides{Arguments: masks})
	t.In(step.PartNorm)
	last = m.final.layer(t, x)
	rows, ends := t.Input(t.Shape.Batch, step.I64), m.ends(t)
	pooled = t.PickTokens(last, m.own.text.hidden, rows, ends)
	t.Drop(append(masks, embedded, x, rows, ends)...)
	return last, pooled
}

// masks are the padding of every sequence, as an additive mask, and what lies behind a token.
// Source: transformers/modeling_attn_mask_utils.py (_make_causal_mask, _expand_mask), 4.57.
func (m *clip) masks(t *step.Tape, d step.DType) []step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	var masks []step.T
	m.causal = step.NoTensor
	if t.Recipe.Software.ProjectsTowers {
		m.padding = step.NoTensor
		if made := causalMask(t, 0, d); made != nil {
			m.padding = *made
			masks = append(masks, m.padding)
		}
		return masks
	}
	if n > 1 {
		m.causal = t.Input(n*n, step.F32)
		places, next := t.Input(n, step.I64), t.Input(n, step.I64)
		before := t.Input(n*n, step.Bool)
		t.Drop(next, before)
		wide := m.causal
		m.causal = t.Cast(wide, d, step.LabelAttentionMask)
		t.Drop(wide, places)
		masks = append(masks, m.causal)
	}
	expanded := t.Input(b*n*n, d)
	inverted := t.Input(b*n*n, d)
	truth := t.Input(b*n*n, step.Bool)
	m.padding = t.Input(b*n*n, d)
	t.Drop(truth, expanded, inverted)
	return append([]step.T{m.padding}, masks...)
}

// ends finds the place of the end in each text: that of the largest id, or of the first that says so.
func (m *clip) ends(t *step.Tape) step.T {
	n, b := t.Shape.N(), t.Shape.Batch
	narrow := t.Input(n*4, step.Bool) // 32-bit integers
	if !m.own.legacyEnd {
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
func (m *clip) normalised(t *step.Tape, x step.T) step.T {
	norm := t.RowNorm(x, m.own.projection)
	y := t.DivideRows(x, norm)
	t.Drop(norm, x)
	return y
}

// compare is the cosine of every text with every picture, scaled, and the mean of the losses over rows and columns.
func (m *clip) compare(t *step.Tape, texts, images step.T) (loss, similarity step.T) {
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

// forward runs the layers of the tower on x, which it takes over.
func (w *clipTower) forward(t *step.Tape, x step.T, besides step.Besides) step.T {
	w.states = w.states[:0]
	for i := range w.layers {
		w.hold(t, x, i)
		if i == w.used {
			w.unused = t.GraphSize()
		}
		x = t.Layer(int32((w.first+i)/int(w.m.a.UnitLayers())), x, func(t *step.Tape, x step.T) step.T {
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
	case !w.holds:
	case t.Recipe.Software.ReturnsTower && i > 0 && i != w.used:
		w.states = append(w.states, step.NoTensor)
	default:
		w.states = append(w.states, t.Hold(x))
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
	up := l.fc1.forward(t, h)
	act := activation(t, w.sizes.activation, up)
	t.Drop(up)
	down := t.Heads(l.fc2.forward(t, act), w.relays(t, i))
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

func (w *clipTower) normed(t *step.Tape, n norm, x step.T) step.T {
	if w.transposed {
		return t.TransposedLayerNorm(x, n.w, n.b)
	}
	return n.layer(t, x)
}

// attention is CLIPAttention; texts have a mask for padding to which the causal one is added anew in each layer.
// It also returns the probabilities of eager attention where the layer gets them.
func (w *clipTower) attention(t *step.Tape, l *clipLayer, x step.T) (out, probabilities step.T) {
	h := step.Heads{Query: w.sizes.heads, KV: w.sizes.heads, Dim: w.sizes.hidden / w.sizes.heads, Queries: w.tokens,
		Keys: w.tokens, Bidirectional: w.tokens > 0, Drops: w.m.a.AttentionDropout > 0}
	var mask *step.T
	if (w.tokens == 0 || w.masked) && w.m.padding != step.NoTensor {
		mask = &w.m.padding
	}
	copiesQV, copiesK := t.PadsHeads(h, mask != nil), t.PadsHeads(h, mask != nil)
	eager := t.Recipe.Attention == step.AttentionEager
	if eager {
		copiesQV, copiesK = t.CopiesEncoderGradient(h, mask != nil)
	}
	q, k, v := l.q.forward(t, x), l.k.keys(t, x, eager && copiesK), l.v.forward(t, x)
	q, k, v = t.Heads(q, copiesQV), t.Heads(k, copiesK && !eager), t.Heads(v, copiesQV)
	if mask != nil && w.m.causal != step.NoTensor {
		both := t.Add(*mask, w.m.causal, step.LabelAttentionMask)
		defer t.Drop(both)
		mask = &both
	}
	var context step.T
	if probabilities = step.NoTensor; eager {
		context, probabilities = t.Eager(step.EagerAttention{Heads: h, Dropout: w.m.a.AttentionDropout, Mask: mask,
			Upcast: true}, q, k, v)
		if !t.Recipe.Software.ReturnsProbabilities {
			t.Drop(probabilities)
			probabilities = step.NoTensor
		}
	} else {
		context = t.TokensFirst(t.SDPA(q, k, v, h, mask, w.m.a.AttentionDropout), h, mask != nil)
	}
	out = l.out.forward(t, context)
	t.Drop(context, q, k, v)
	return out, probabilities
}
