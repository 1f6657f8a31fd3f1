package pictures

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// look is the tower: all pictures as one row of patches.
func (m *qwenVL) look(t *step.Tape, pixels step.T) step.T {
	t.In(step.PartEmbedding)
	images := t.Shape.Batch * t.Shape.Images
	defer m.asRow(t)()
	x := t.TowerInput(t.VolumeConvolution(pixels, m.patches.W))
	places := m.places(t, images)
	windows := m.windows(t, images)
	if m.vision.window > 0 {
		x, places = m.reordered(t, x), m.reordered(t, places)
	}
	both := t.Table(2*places.Numel(), step.F32)
	cos, sin := t.Table(both.Numel(), step.F32), t.Table(both.Numel(), step.F32)
	ends := m.ends(t, images)
	t.EndLayers()
	pictures := slices.Repeat([]int64{t.Shape.Tokens / images}, int(images))
	for i := range m.layers {
		parts, captured := pictures, []step.T{ends, cos, sin}
		if m.vision.window > 0 && !m.vision.full[int64(i)] {
			parts, captured[0] = windows.lengths, windows.ends
		}
		x = t.Layer(int32(m.own.TextLayers)+int32(i), x, func(t *step.Tape, x step.T) step.T {
			return m.layer(t, &m.layers[i], x, cos, sin, parts)
		}, step.Besides{Captured: captured})
	}
	t.EndLayers()
	t.In(step.PartNorm)
	y := m.mergePatches(t, x)
	if m.vision.window > 0 {
		t.Drop(x)
		x = y
		y = t.RowsByHost(x, m.vision.out)
	}
	t.Drop(x, places, both, cos, sin, ends, windows.ends)
	return y
}

// reordered is x with the rows of each token's patches in the order of windows. It takes over x.
func (m *qwenVL) reordered(t *step.Tape, x step.T) step.T {
	y := t.RowsByHost(x, x.Numel()/m.tokens(t.Shape))
	t.Drop(x)
	return y
}

// tokens is how many tokens the patches of a row become.
func (m *qwenVL) tokens(s step.Shape) int64 { return s.Tokens / (m.vision.merge * m.vision.merge) }

// places is rot_pos_emb: the angles of every patch's row and column.
func (m *qwenVL) places(t *step.Tape, images int64) step.T {
	for range images {
		for range 2 {
			rows, columns := t.Input(1, step.I64), t.Input(1, step.I64)
			t.Drop(rows, columns)
		}
	}
	s, p := t.Shape, m.own.Picture.Patch
	most, width := max(s.Height, s.Width)/p, m.own.Vision.Hidden/m.own.Vision.Heads/4
	largest := t.Input(1, step.I64)
	if images > 1 { // the columns of one row are laid out already
		t.Drop(t.Input(2*images, step.I64))
	}
	numbers := t.Input(most, step.F32)
	angles := t.Table(most*width, step.F32)
	t.Drop(numbers)
	index := t.Input(2*s.Tokens, step.I64)
	places := t.Table(2*s.Tokens*width, step.F32)
	t.Drop(index, largest, angles)
	return places
}

// ends is cu_seqlens: where each picture ends.
func (m *qwenVL) ends(t *step.Tape, images int64) step.T {
	in := func(numel int64) step.T { return t.Input(numel, step.I64) }
	products := in(images)
	var dense []step.T
	if images > 1 {
		dense = []step.T{in(images), in(images)}
	}
	sums := t.CumulativeSum(1, images)
	if images > 1 {
		t.Drop(sums)
	}
	index := in(images)
	if images == 1 {
		t.Drop(sums)
	}
	for _, x := range dense {
		t.Drop(x)
	}
	repeated := in(images)
	t.Drop(index, products)
	short := t.ShortCumulativeSum(images)
	t.Drop(repeated)
	ends := t.Input(images+1, step.F32) // 32 bits
	t.Drop(short)
	return ends
}

// mergePatches is PatchMerger.
func (m *qwenVL) mergePatches(t *step.Tape, x step.T) step.T {
	h := m.norm(t, m.after, x)
	t.In(step.PartMLP)
	up := m.first.Forward(t, h)
	act := t.GELU(up)
	t.Drop(up)
	y := m.second.Forward(t, act)
	t.Drop(act, h)
	return y
}

func (m *qwenVL) norm(t *step.Tape, n arch.Norm, x step.T) step.T {
	if m.vision.gated {
		return n.RMS(t, x)
	}
	return n.Layer(t, x)
}

// layer is Qwen2VLVisionBlock on a row of patches, of which each attends to those of the same part.
func (m *qwenVL) layer(t *step.Tape, l *qwenBlock, x, cos, sin step.T, parts []int64) step.T {
	rows := int64(0)
	for _, n := range parts {
		rows += n
	}
	sequences := t.Shape
	t.Shape.Batch, t.Shape.Tokens, t.Shape.Images = 1, rows, 1
	defer func() { t.Shape = sequences }()
	t.In(step.PartNorm)
	h := m.norm(t, l.before, x)
	t.In(step.PartAttention)
	out := m.attention(t, l, h, cos, sin, parts)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, out, step.LabelResidual)
	t.Drop(out)
	h = m.norm(t, l.between, middle)
	t.In(step.PartMLP)
	var down step.T
	if m.vision.gated {
		down = l.mlp.Forward(t, m.a, h)
	} else {
		up := l.fc1.Forward(t, h)
		act := arch.Activation(t, m.own.Vision.activation, up)
		t.Drop(up)
		down = l.fc2.Forward(t, act)
		t.Drop(act)
	}
	t.Drop(h)
	t.In(step.PartNorm)
	y := t.Add(middle, down, step.LabelResidual)
	t.Drop(down, middle)
	return y
}

// attention is VisionAttention: queries and keys turned in float32, then each part by itself.
func (m *qwenVL) attention(t *step.Tape, l *qwenBlock, x, cos, sin step.T, parts []int64) step.T {
	s := m.own.Vision
	fused := t.Heads(l.qkv.Forward(t, x), true)
	q, k, v := t.Split3(fused)
	turned := m.turned(t, [2]step.T{q, k}, cos, sin)
	t.Drop(q, k)
	lengths := t.Input(int64(len(parts)), step.F32)
	queries, keys, values := t.Pieces(turned[0]), t.Pieces(turned[1]), t.Pieces(v)
	outputs := make([]step.T, len(parts))
	for i, n := range parts {
		h := step.Heads{Query: s.Heads, KV: s.Heads, Dim: s.Hidden / s.Heads, Queries: n, Keys: n, Bidirectional: true}
		qi, ki, vi := queries.Next(n*s.Hidden), keys.Next(n*s.Hidden), values.Next(n*s.Hidden)
		outputs[i] = t.TokensFirst(t.SDPA(qi, ki, vi, h, nil, 0), h, false)
		t.Drop(qi, ki, vi)
	}
	context := t.Stack(outputs)
	y := l.out.Forward(t, context)
	t.Drop(append(outputs, context, lengths, turned[0], turned[1], v, fused)...)
	return y
}

// turned is apply_rotary_pos_emb_vision.
func (m *qwenVL) turned(t *step.Tape, qk [2]step.T, cos, sin step.T) [2]step.T {
	var wide, out [2]step.T
	for i, x := range qk {
		wide[i] = t.Float(x, step.LabelCast)
	}
	for i := range wide {
		out[i] = t.Rotary(wide[i], cos, sin)
	}
	for i, x := range out {
		out[i] = t.Cast(x, qk[i].Dtype(), step.LabelCast)
		t.Drop(x)
	}
	t.Drop(wide[0], wide[1])
	return out
}
