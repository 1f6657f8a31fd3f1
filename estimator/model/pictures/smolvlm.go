package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// SmolVLMFamily is SmolVLM: a SigLIP tower that takes pictures of any size and so a mask, whose patches are folded
// into fewer and wider ones before a linear layer; every tile of a picture is a picture of its own. Source:
// transformers/models/smolvlm/modeling_smolvlm.py, configuration_smolvlm.py, 4.57.
var SmolVLMFamily = arch.Family{ModelType: "smolvlm",
	Classes:       []string{arch.ClassConditional},
	Keys:          seeingKeys,
	Defaults:      map[string]any{"scale_factor": 2.0},
	Read:          readSmolVLM,
	Uncompiled:    arch.UncompiledSeeing,
	PictureTokens: smolVLMTokens,
	UsualPictures: usualTiles,
	Build:         buildSmolVLM,
}

var smolVLMVisionDefaults = map[string]any{
	"hidden_size": 1152.0, "intermediate_size": 3072.0, "num_hidden_layers": 12.0, "num_attention_heads": 16.0,
	"num_channels": 3.0,
	"image_size":   224.0, "patch_size": 32.0, "hidden_act": "gelu_pytorch_tanh", "attention_dropout": 0.0}

// smolVLMOptions is what only SmolVLM has.
type smolVLMOptions struct {
	// scale is how many patches a side are folded into one.
	scale int64
}

func smolVLMTokens(a *arch.Architecture, height, width int64) (int64, string) {
	own := a.Own.(Seeing)
	scale := own.own.(smolVLMOptions).scale
	return own.Picture.count() / (scale * scale), own.Picture.squareOnly(height, width)
}

// usualTiles are those of one square picture: the processor makes its longest side four tiles long, and adds the whole
// as one more. Source: transformers/models/smolvlm/image_processing_smolvlm.py (do_image_splitting, size), 4.57.
func usualTiles(a *arch.Architecture, p arch.Pictures, room int64) (arch.Pictures, string) {
	const most = 4*4 + 1
	if p.Images > 0 {
		return p, ""
	}
	tokens, why := smolVLMTokens(a, PictureSize(a), PictureSize(a))
	if why != "" || tokens < 1 {
		return arch.Pictures{}, ""
	}
	p.Images = max(min(most, room/tokens), 1)
	return p, "into which its processor cuts a square one, or as many as leave a quarter of the sequence to text"
}

func readSmolVLM(c *arch.Config, a arch.Architecture) arch.Architecture {
	text := readTextModel(c, &a, "llama", map[string]*arch.Family{"llama": &decoders.LlamaFamily})
	vision := c.Part("vision_config", smolVLMVisionDefaults)
	own := Seeing{Picture: patches(vision), Vision: CLIPTower(vision),
		visionDropout: vision.Probability("attention_dropout")}
	const mostScale = 64
	scale := max(c.Integer("scale_factor", mostScale), 1)
	if own.Picture.Patch > 0 && (own.Picture.Image/own.Picture.Patch)%scale != 0 {
		c.Errs.Add(c.Pointer+"/scale_factor", "not_divisible",
			"scale_factor %d does not divide the %d patches of a side", scale, own.Picture.Image/own.Picture.Patch)
	}
	own.own = smolVLMOptions{scale: scale}
	if text != nil {
		a = standBehind(a, text, own)
	}
	return a
}

// readSmolVLM is SmolVLMForConditionalGeneration.
type smolVLM struct {
	own       Seeing
	options   smolVLMOptions
	tower     *siglip
	projector arch.Linear
	text      *blocks.Decoder
}

func buildSmolVLM(b *arch.Builder) step.Network {
	own := b.A.Own.(Seeing)
	m := &smolVLM{own: own, options: own.own.(smolVLMOptions), tower: patchedSiglip(b, own)}
	m.projector = b.Linear("connector.modality_projection.proj", own.Vision.Hidden*m.options.scale*m.options.scale,
		b.A.Hidden, false)
	m.text = buildTextModel(b, own)
	return m
}

// Batch is pixel_values, pixel_attention_mask, input_ids, attention_mask and labels.
func (m *smolVLM) Batch(t *step.Tape) []step.T {
	s := t.Shape
	pixels := pixelValues(t, m.own.Picture.channels)
	mask := t.Input(s.Batch*s.Images*s.Height*s.Width, step.I64)
	return append([]step.T{pixels, mask}, blocks.BatchWithMask(t)...)
}

func (m *smolVLM) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[2], batch[4]
	t.In(step.PartEmbedding)
	embedded := m.text.Embeddings(t, ids)
	features := m.look(t, pixels)
	t.In(step.PartEmbedding)
	loss, outputs := m.text.Read(t, blocks.Handed{Embedded: m.merge(t, embedded, features)}, labels)
	return loss, append(outputs, features)
}

// look is get_image_features: tiles that are all zeros are left out, of which there are none here.
func (m *smolVLM) look(t *step.Tape, pixels step.T) step.T {
	s, p := t.Shape, m.own.Picture
	tiles := s.Batch * s.Images
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	zero := t.Input(stored.Numel(), step.Bool)
	counted := t.Input(tiles, step.I64)
	t.Drop(t.Input(stored.Numel(), step.I64))
	t.Drop(zero)
	seen := t.Input(tiles, step.Bool)
	t.Drop(counted)
	chosen := t.ChosenRows(stored.Numel(), tiles, stored.Dtype())
	t.Drop(stored)
	shown := t.ChosenRows(tiles*s.Height*s.Width, tiles, step.I64)
	sums := t.Input(tiles*p.count(), step.I64)
	patches := t.Input(tiles*p.count(), step.Bool)
	t.Drop(sums)
	last := m.tower.lookThrough(t, chosen)
	back := lookAtPictures(t, p.count())
	t.In(step.PartMLP)
	wide := t.Heads(t.Contiguous(last), true) // whose gradient is laid out anew at each fold
	folded := t.Heads(t.Contiguous(wide), true)
	t.Drop(wide)
	features := m.projector.Forward(t, folded)
	t.Drop(folded, last)
	back()
	t.Drop(chosen, seen, shown, patches)
	return features
}

// patchedSiglip declares a SigLIP tower whose positions are looked up for every patch, and that has a mask.
func patchedSiglip(b *arch.Builder, own Seeing) *siglip {
	a := *b.A
	a.AttentionDropout, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery = own.visionDropout, 0, nil, 0
	m := &siglip{own: own}
	m.tower = CLIP{A: &a, Own: CLIPOptions{picture: own.Picture, Vision: own.Vision}, Causal: step.NoTensor}
	d := own.Vision.Hidden
	Tower(b, own.frozen, func() {
		m.patches = b.Convolution("vision_model.embeddings.patch_embedding", own.Picture.channels, d, own.Picture.Patch,
			own.Picture.Patch, true)
		m.places = b.Embedding("vision_model.embeddings.position_embedding", own.Picture.count(), d)
		m.tower.vision = m.tower.Declare(b, "vision_model", own.Vision)
		m.after = b.Norm("vision_model.post_layernorm", d, true)
	})
	v := &m.tower.vision
	v.tokens, v.First, v.within, v.transposed, v.masked = own.Picture.count(), int(own.TextLayers), true, true, true
	return m
}

// lookThrough is SmolVLMVisionTransformer: the places of every tile's patches, a mask that hides nothing, and the
// layers.
func (m *siglip) lookThrough(t *step.Tape, pixels step.T) step.T {
	n := m.own.Picture.count()
	side := m.own.Picture.Image / m.own.Picture.Patch
	defer lookAtPictures(t, n)()
	t.In(step.PartEmbedding)
	ordered := t.Recipe.CheckpointEvery > 0
	cut := t.Convolution(pixels, m.patches.W, m.patches.B, n, !ordered)
	boundaries := t.Input(side-1, step.F32)
	places := t.Input(t.Shape.Batch*n, step.I64)
	var locals []step.T
	for range t.Shape.Batch {
		locals = placesOf(t, locals, side, pixels.Dtype())
	}
	positions := t.Heads(t.Embedding(places, m.places, step.LabelPositions), ordered)
	x := t.InputGradient(t.Add(cut, positions, step.LabelEmbedding))
	t.Drop(append(locals, boundaries, places, positions, cut)...)
	m.tower.Padding = *blocks.ExpandedMask(t, x.Dtype())
	embedded := t.Hold(x)
	x = m.tower.vision.Forward(t, x, step.Besides{Arguments: []step.T{m.tower.Padding}})
	t.In(step.PartNorm)
	y := t.TransposedLayerNorm(x, m.after.W, m.after.B)
	t.Drop(x, embedded, m.tower.Padding)
	return y
}

// placesOf is one turn of the loop over tiles: which of the positions of the largest picture a patch has. It takes over
// what the variables held after the turn before, and returns what they hold.
func placesOf(t *step.Tape, former []step.T, side int64, d step.DType) []step.T {
	held := make([]step.T, 0, 9)
	set := func(x step.T) {
		if k := len(held); k < len(former) {
			t.Drop(former[k])
		}
		held = append(held, x)
	}
	for range 2 { // patches of a column, and of a row
		set(t.Reduced(side))
	}
	for range 2 {
		set(t.Input(side, d))
	}
	for range 2 {
		share := t.Input(side, d)
		scaled := t.Input(side, d)
		t.Drop(share)
		set(scaled)
	}
	for range 2 {
		bucket := t.Input(side, step.I64)
		t.Drop(t.Input(side, step.F32)) // 32 bits
		set(bucket)
	}
	rows := t.Input(side, step.I64)
	all := t.Input(side*side, step.I64)
	t.Drop(rows)
	set(all)
	t.Drop(t.MaskIndices(side * side))
	return held
}

// merge is inputs_merger. It takes over embedded.
func (m *smolVLM) merge(t *step.Tape, embedded, features step.T) step.T {
	s := t.Shape
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	n, chosen := s.N(), features.Numel()/m.text.A.Hidden
	mask := in(n, step.Bool)
	counts := in(s.Batch, step.I64)
	t.Drop(in(n, step.I64))
	rest := in(s.Batch, step.I64)
	even := in(s.Batch, step.Bool)
	t.Drop(rest)
	t.Drop(in(1, step.Bool))
	t.Drop(even)
	blocks := in(s.Batch, step.I64)
	sums := t.CumulativeSum(1, s.Batch)
	offsets := in(s.Batch+1, step.I64)
	t.Drop(sums)
	order := t.CumulativeSumOf(s.Batch, s.Tokens)
	index := func() step.T {
		less := in(n, step.I64)
		y := in(n, step.I64)
		t.Drop(less)
		return y
	}
	chunk, place := index(), index()
	block := in(n, step.I64)
	zeros := in(embedded.Numel(), embedded.Dtype())
	whole := t.MergeRows(embedded, zeros, mask, features, chosen, n)
	t.Drop(mask, counts, blocks, offsets, order, chunk, place, block, zeros, embedded)
	return whole
}
