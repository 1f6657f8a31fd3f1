package pipelines

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// unet is UNet2DConditionModel.
// Sources: diffusers/models/unets/unet_2d_condition.py, unet_2d_blocks.py, 0.39.
type unet struct {
	own   unetOptions
	first int32
	half  unetHalf
	up    []unetUp
	final arch.Norm
	out   arch.Convolution
}

// readUNetHalf is what a UNet and the ControlNet made of it have in common: the way down and the middle.
type unetHalf struct {
	in              arch.Convolution
	timeIn, timeOut arch.Linear
	addIn, addOut   arch.Linear
	down            []unetDown
	middle          unetMiddle
}

// unetDown is DownBlock2D or CrossAttnDownBlock2D.
type unetDown struct {
	resnets      []resnet
	transformers []pictureTransformer
	down         arch.Convolution
	shrinks      bool
}

// unetMiddle is UNetMidBlock2DCrossAttn.
type unetMiddle struct {
	resnets     [2]resnet
	transformer pictureTransformer
}

// unetUp is UpBlock2D or CrossAttnUpBlock2D.
type unetUp struct {
	resnets      []resnet
	transformers []pictureTransformer
	up           arch.Convolution
	grows        bool
}

// time is the width of the time's embedding.
func (o unetOptions) time() int64 { return 4 * o.widths[0] }

// declareHalf declares what both have in common but the middle.
func (o unetOptions) declareHalf(b *arch.Builder, conditioning func()) unetHalf {
	var m unetHalf
	m.in = b.Convolution("conv_in", o.in, o.widths[0], 3, 3, true)
	m.timeIn, m.timeOut = matrix(b, "time_embedding.linear_1", o.widths[0], o.time()), matrix(b,
		"time_embedding.linear_2", o.time(), o.time())
	if o.added > 0 {
		m.addIn, m.addOut = matrix(b, "add_embedding.linear_1", o.added, o.time()), matrix(b, "add_embedding.linear_2",
			o.time(), o.time())
	}
	conditioning()
	in, last := o.widths[0], len(o.widths)-1
	for i, width := range o.widths {
		d := unetDown{shrinks: i < last}
		for range o.perBlock {
			if o.crosses[i] {
				d.transformers = append(d.transformers, o.pictureTransformer(b, "down_blocks", width, o.heads[i],
					o.transformers[i]))
			}
		}
		for range o.perBlock {
			d.resnets = append(d.resnets, buildResnet(b, "down_blocks", in, width, o.time(), o.groups))
			in = width
		}
		if d.shrinks {
			d.down = b.Convolution("down_blocks.downsamplers", width, width, 3, 3, true)
		}
		m.down = append(m.down, d)
	}
	return m
}

func (o unetOptions) declareMiddle(b *arch.Builder) unetMiddle {
	last := len(o.widths) - 1
	width := o.widths[last]
	m := unetMiddle{transformer: o.pictureTransformer(b, "mid_block", width, o.heads[last], o.transformers[last])}
	for i := range m.resnets {
		m.resnets[i] = buildResnet(b, "mid_block", width, width, o.time(), o.groups)
	}
	return m
}

// declareUp declares the way up, from the coarsest level to the finest: each resnet reads what the last one made and
// what the way down left.
func (m *unet) declareUp(b *arch.Builder) {
	o := m.own
	last := len(o.widths) - 1
	before := o.widths[last]
	for i := range o.widths {
		level := last - i
		width, skipped := o.widths[level], o.widths[max(level-1, 0)]
		u := unetUp{grows: i < last}
		for range o.perBlock + 1 {
			if o.crossesUp[i] {
				u.transformers = append(u.transformers, o.pictureTransformer(b, "up_blocks", width, o.heads[level],
					o.transformers[level]))
			}
		}
		for k := range o.perBlock + 1 {
			skip := width
			if k == o.perBlock {
				skip = skipped
			}
			u.resnets = append(u.resnets, buildResnet(b, "up_blocks", before+skip, width, o.time(), o.groups))
			before = width
		}
		if u.grows {
			u.up = b.Convolution("up_blocks.upsamplers", width, width, 3, 3, true)
		}
		m.up = append(m.up, u)
	}
}

// unetRun is one forward of a UNet or of a ControlNet.
type unetRun struct {
	t          *step.Tape
	unit       int32
	time, text step.T
	textTokens int64
	// direct says that its layers are not checkpointed whatever the recipe says.
	direct bool
}

// layer runs a layer on x, which it takes over, and beside, which it captures.
func (r *unetRun) layer(x, beside step.T, forward step.Layer) step.T {
	unit := r.unit
	r.unit++
	if r.direct {
		y := forward(r.t, x)
		r.t.Drop(x)
		return y
	}
	return r.t.Layer(unit, x, forward, step.Besides{Arguments: []step.T{beside}})
}

// resnet runs one on x, which it takes over.
func (r *unetRun) resnet(m *resnet, x step.T, at extent) step.T {
	return r.layer(x, r.time, func(t *step.Tape, x step.T) step.T { return m.forward(t, x, r.time, at) })
}

// skip is what the way down leaves for the way up.
type skip struct {
	x  step.T
	at extent
}

// sines are the sines and cosines of numbers, of so many elements each.
// Source: diffusers/models/embeddings.py (get_timestep_embedding), 0.39.
func sines(t *step.Tape, numbers, width int64) step.T {
	half := width / 2
	next := func(old step.T, numel int64) step.T {
		x := t.Input(numel, step.F32)
		t.Drop(old)
		return x
	}
	exponent := next(next(t.Input(half, step.F32), half), half)
	rates, times := t.Input(half, step.F32), t.Input(numbers, step.F32)
	angles := t.Input(numbers*half, step.F32)
	t.Drop(times, rates)
	angles = next(angles, numbers*half)
	sine, cosine := t.Input(numbers*half, step.F32), t.Input(numbers*half, step.F32)
	both := t.Input(numbers*width, step.F32)
	t.Drop(cosine, sine, angles)
	flipped := next(both, numbers*width)
	t.Drop(exponent)
	return flipped
}

// embedded is TimestepEmbedding of x, which it borrows.
func embedded(t *step.Tape, in, out *arch.Linear, x step.T) step.T {
	h := silu(t, in.Forward(t, x))
	y := out.Forward(t, h)
	t.Drop(h)
	return y
}

// embedTime is the time's embedding and what is added to it; held is what the forward keeps beside it.
func (m *unetHalf) embedTime(t *step.Tape, o unetOptions, in denoising) (time step.T, held []step.T) {
	t.In(step.PartEmbedding)
	wide := sines(t, in.batch, o.widths[0])
	stored := t.Cast(wide, in.latents.Dtype(), step.LabelCast)
	t.Drop(wide)
	time = embedded(t, &m.timeIn, &m.timeOut, stored)
	held = []step.T{stored}
	if o.added == 0 {
		return time, held
	}
	numbers := (o.added - in.pooled.Numel()/in.batch) / max(o.sines, 1)
	ids := sines(t, in.batch*numbers, o.sines)
	both := t.Concat(in.pooled, ids, step.LabelEmbedding)
	same := t.Cast(both, time.Dtype(), step.LabelCast)
	t.Drop(both)
	added := embedded(t, &m.addIn, &m.addOut, same)
	t.Drop(same, ids)
	sum := t.Add(time, added, step.LabelEmbedding)
	t.Drop(time)
	return sum, append(held, added)
}

// descend runs the way down on sample, which it takes over, and returns what the last level makes and what the way up
// reads.
func (m *unetHalf) descend(r *unetRun, sample step.T, at *extent) (step.T, []skip) {
	t := r.t
	skips := []skip{{t.Hold(sample), *at}}
	for i := range m.down {
		d := &m.down[i]
		for k := range d.resnets {
			sample = r.resnet(&d.resnets[k], sample, *at)
			if d.transformers != nil {
				y := d.transformers[k].forward(r, sample, *at, false)
				t.Drop(sample)
				sample = y
			}
			skips = append(skips, skip{t.Hold(sample), *at})
		}
		if d.shrinks {
			at.rows, at.columns = step.CeilDiv(at.rows, 2), step.CeilDiv(at.columns, 2)
			t.In(step.PartMLP)
			sample = forward(d.down, t, sample, at.places())
			skips = append(skips, skip{t.Hold(sample), *at})
		}
	}
	return sample, skips
}

// forward takes over sample. Its first resnet is not checkpointed.
func (m *unetMiddle) forward(r *unetRun, sample step.T, at extent) step.T {
	t := r.t
	h := m.resnets[0].forward(t, sample, r.time, at)
	y := m.transformer.forward(r, h, at, false)
	t.Drop(h)
	h = r.resnet(&m.resnets[1], y, at)
	t.Drop(sample) // the caller's variable
	return h
}

// denoise is UNet2DConditionModel.forward.
func (m *unet) denoise(t *step.Tape, in denoising) step.T {
	return m.forward(t, in, controls{})
}

// controls are what a ControlNet adds: to each of the skips, and to the middle; nothing without one.
type controls struct {
	skips  []step.T
	middle step.T
}

func (m *unet) forward(t *step.Tape, in denoising, c controls) step.T {
	r := &unetRun{t: t, unit: m.first, text: in.embeddings, textTokens: in.textTokens, direct: c.skips != nil}
	time, held := m.half.embedTime(t, m.own, in)
	r.time = time
	held = append(held, time)
	at := extent{in.rows, in.columns}
	t.In(step.PartEmbedding)
	sample := t.PictureConvolution(in.latents, m.half.in.W, m.half.in.B, at.places(), false)
	sample, skips := m.half.descend(r, sample, &at)
	if c.skips != nil {
		held = append(held, add(t, skips, c)...)
	}
	sample = m.half.middle.forward(r, sample, at)
	if c.skips != nil {
		sum := t.Add(sample, c.middle, step.LabelResidual)
		t.Drop(sample)
		sample = sum
	}
	var mine []skip
	for i := range m.up {
		for _, s := range mine { // of the level before, which a variable has kept
			t.Drop(s.x)
		}
		first := len(skips) - len(m.up[i].resnets)
		mine, skips = skips[first:], skips[:first]
		sample = m.up[i].forward(r, sample, mine, skips, &at)
	}
	t.EndLayers()
	t.In(step.PartNorm)
	normed := t.GroupNorm(sample, m.final.W, m.final.B, step.Grouped{Groups: m.own.groups})
	t.Drop(sample)
	t.In(step.PartMLP)
	y := forward(m.out, t, silu(t, normed), at.places())
	for _, s := range mine {
		held = append(held, s.x)
	}
	for _, x := range held {
		t.Drop(x)
	}
	return y
}

// add adds to the skips what a ControlNet makes; the sums stay in a variable of the forward's.
func add(t *step.Tape, skips []skip, c controls) (held []step.T) {
	t.In(step.PartNorm)
	former := slices.Clone(skips)
	for i, s := range former {
		skips[i].x = t.AddPictures(s.x, c.skips[i], step.LabelResidual)
		held = append(held, t.Hold(skips[i].x))
	}
	for _, s := range former {
		t.Drop(s.x)
	}
	return held
}

// forward takes over sample. mine are the skips that it reads, the last first, and left those that the levels behind it
// will read: the picture grows to the size of the next of them.
func (u *unetUp) forward(r *unetRun, sample step.T, mine, left []skip, at *extent) step.T {
	t := r.t
	given := t.Hold(sample) // a variable of the caller
	parts := t.Shape.Batch > 1
	for k := range u.resnets {
		t.In(step.PartNorm)
		both := t.Concat(sample, mine[len(mine)-1-k].x, step.LabelResidual)
		t.Drop(sample)
		sample = r.resnet(&u.resnets[k], both, *at)
		if u.transformers != nil {
			y := u.transformers[k].forward(r, sample, *at, parts && k+1 < len(u.resnets))
			t.Drop(sample)
			sample = y
		}
	}
	if u.grows {
		t.In(step.PartMLP)
		*at = left[len(left)-1].at
		wide := t.UpsampleNearest(sample, t.Shape.Batch*u.up.W.Rows*at.places())
		y := t.PictureConvolution(wide, u.up.W, u.up.B, at.places(), parts)
		t.Drop(wide, sample)
		sample = y
	}
	t.Drop(given)
	return sample
}
