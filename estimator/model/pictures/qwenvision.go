package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// readQwenVL is Qwen2VLForConditionalGeneration, or that of 2.5.
type qwenVL struct {
	own     Seeing
	vision  qwenVision
	a       *arch.Architecture // with the tower's activation
	patches arch.Convolution
	layers  []qwenBlock
	after   arch.Norm
	first   arch.Linear // of the merger
	second  arch.Linear
	text    *blocks.Decoder
}

// qwenBlock is a layer of the tower.
type qwenBlock struct {
	before, between arch.Norm
	qkv, out        arch.Linear
	fc1, fc2        arch.Linear // Qwen2-VL
	mlp             arch.GatedMLP
}

func buildQwenVL(b *arch.Builder) step.Network {
	own := b.A.Own.(Seeing)
	a := *b.A
	a.Activation = own.Vision.activation
	m := &qwenVL{own: own, vision: own.own.(qwenVision), a: &a}
	Tower(b, own.frozen, func() { m.declare(b) })
	m.text = buildTextModel(b, own)
	return m
}

func (m *qwenVL) declare(b *arch.Builder) {
	s, bias := m.own.Vision, !m.vision.gated
	d := s.Hidden
	kernel := m.own.Picture.channels * m.vision.deep * m.own.Picture.Patch * m.own.Picture.Patch
	m.patches = arch.Convolution{W: b.Parameter("visual.patch_embed.proj", d, kernel), B: step.NoWeight}
	b.Buffer("visual.rotary_pos_emb.inv_freq", d/s.Heads/4, step.F32)
	m.layers = make([]qwenBlock, s.Layers)
	matrix := func(name string, in, out int64) arch.Linear {
		l := b.Linear(name, in, out, true)
		l.Matrix = true
		return l
	}
	for i := range m.layers {
		l := &m.layers[i]
		l.before, l.between = b.Norm("visual.blocks.norm1", d, bias), b.Norm("visual.blocks.norm2", d, bias)
		l.qkv, l.out = matrix("visual.blocks.attn.qkv", d, 3*d), matrix("visual.blocks.attn.proj", d, d)
		if m.vision.gated {
			l.mlp = arch.GatedMLP{Gate: matrix("visual.blocks.mlp.gate_proj", d, s.FFN),
				Up: matrix("visual.blocks.mlp.up_proj", d, s.FFN), Down: matrix("visual.blocks.mlp.down_proj", s.FFN,
					d)}
		} else {
			l.fc1, l.fc2 = matrix("visual.blocks.mlp.fc1", d, s.FFN), matrix("visual.blocks.mlp.fc2", s.FFN, d)
		}
	}
	wide := d * m.vision.merge * m.vision.merge
	m.after = b.Norm("visual.merger.ln_q", d, bias)
	m.first, m.second = matrix("visual.merger.mlp.0", wide, wide), matrix("visual.merger.mlp.2", wide, m.vision.out)
}

// Batch is pixel_values, image_grid_thw, input_ids, attention_mask and labels.
func (m *qwenVL) Batch(t *step.Tape) []step.T {
	s := t.Shape
	pixels := t.Input(m.patchCount(s)*m.patches.W.Cols, step.F32)
	grid := t.Input(s.Batch*s.Images*3, step.I64)
	return append([]step.T{pixels, grid}, blocks.BatchWithMask(t)...)
}

// patchCount is how many patches the pictures of a batch have.
func (m *qwenVL) patchCount(s step.Shape) int64 {
	p := m.own.Picture.Patch
	return s.Batch * s.Images * (s.Height / p) * (s.Width / p)
}

func (m *qwenVL) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[2], batch[4]
	t.In(step.PartEmbedding)
	embedded := m.text.Embeddings(t, ids)
	features := m.features(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, masks := m.merge(t, embedded, features)
	positions := m.positions(t)
	loss, outputs := m.text.Read(t, blocks.Handed{Embedded: merged, Locals: append(masks, features, positions)}, labels)
	return loss, outputs
}

// asRow makes the shape of what follows that of one row of all patches, until back is called.
func (m *qwenVL) asRow(t *step.Tape) (back func()) {
	sequences := t.Shape
	t.Shape.Batch, t.Shape.Tokens, t.Shape.Images = 1, m.patchCount(sequences), 1
	return func() { t.Shape = sequences }
}

// features is get_image_features, split by pictures and put together again, in type d.
func (m *qwenVL) features(t *step.Tape, pixels step.T, d step.DType) step.T {
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	images := t.Shape.Batch * t.Shape.Images
	looked := m.look(t, stored)
	product := t.Input(images, step.I64)
	sizes := t.Input(images, step.I64)
	t.Drop(product, sizes, stored)
	joined := t.JoinPictures(looked)
	features := t.Cast(joined, d, step.LabelCast)
	t.Drop(joined, looked)
	return features
}

// merge is get_placeholder_mask, for pictures and for videos, and masked_scatter. It takes over embedded.
func (m *qwenVL) merge(t *step.Tape, embedded, features step.T) (merged step.T, masks []step.T) {
	n := t.Shape.N()
	pictures, videos := t.Input(n, step.Bool), t.Input(n, step.Bool)
	counted := t.Reduced(n)
	t.CountMasked(embedded, features.Numel(), 3)
	second := t.Reduced(n)
	t.Drop(counted, second)
	merged = t.MaskedScatter(embedded, pictures, features, 3)
	t.Drop(embedded)
	return merged, []step.T{pictures, videos}
}

// positions is get_rope_index: sequence by sequence, the places of time, height and width. The model keeps the offset
// of the positions behind.
func (m *qwenVL) positions(t *step.Tape) step.T {
	s := t.Shape
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	whole := m.vision.gated // 2.5 compares the mask of the whole batch once, the other a sequence's where it needs it
	compared := func(numel int64, at bool) step.T {
		if whole != at {
			return step.NoTensor
		}
		return in(numel, step.Bool)
	}
	batch := compared(s.N(), true)
	positions := in(spatialParts*s.N(), step.I64)
	var former []step.T
	set := func(k int, x step.T) {
		if k < len(former) {
			t.Drop(former[k])
			former[k] = x
		} else {
			former = append(former, x)
		}
	}
	count := func() step.T {
		equal := in(s.Images, step.Bool)
		sum := t.Reduced(s.Images)
		t.Drop(equal)
		return sum
	}
	for i := range s.Batch {
		if i > 0 {
			t.Drop(former[0])
		}
		attended := compared(s.Tokens, false)
		ids := t.ChosenRows(s.Tokens, s.Tokens, step.I64)
		if i == 0 {
			former = append(former, ids)
		}
		former[0] = ids
		t.Drop(attended)
		starts := in(s.Tokens, step.Bool)
		set(1, t.Indices(s.Tokens, s.Images))
		t.Drop(starts)
		next := in(s.Images, step.I64)
		set(2, in(s.Images, step.I64))
		t.Drop(next)
		pictures, videos := count(), count()
		set(3, pictures)
		set(4, videos)
		t.Drop(in(1, step.I64))
		for range s.Images {
			t.Drop(in(1, step.Bool))
		}
		places, put := in(spatialParts*s.Tokens, step.I64), compared(s.Tokens, false)
		t.Drop(t.MaskIndices(s.Tokens))
		t.Drop(places, put)
	}
	kept := in(s.Batch, step.I64)
	t.Drop(append(former, batch)...)
	t.KeptByModel(kept)
	return positions
}
