package model

import "github.com/vramplan/vramplan/estimator/step"

// siglip is SiglipVisionTransformer without its head, inside a model that reads pictures. As its positions are added to
// what a convolution left with the channels outermost, the residual stream stays in this order. Source:
// transformers/models/siglip/modeling_siglip.py, 4.57.
type siglip struct {
	own     seeing
	patches convolution
	places  step.Weight
	tower   clip
	after   norm
	// turned says that the gradient of the last hidden states comes with the channels outermost, too.
	turned bool
}

var siglipVisionDefaults = map[string]any{
	"hidden_size": 768.0, "intermediate_size": 3072.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
	"num_channels": 3.0,
	"image_size":   224.0, "patch_size": 16.0, "hidden_act": "gelu_pytorch_tanh", "attention_dropout": 0.0,
	"vision_use_head": true}

// siglipVision reads vision_config where it is SigLIP's.
func (c *config) siglipVision() seeing {
	vision := c.part("vision_config", siglipVisionDefaults)
	if kind, given := vision.given["model_type"]; given && kind != "siglip_vision_model" {
		c.errs.Add(vision.pointer+"/model_type", "unsupported",
			"a tower of type %s is not modelled in %s; siglip_vision_model is", describe(kind), c.given["model_type"])
	}
	if vision.boolean("vision_use_head") {
		c.errs.Add(vision.pointer+"/vision_use_head", "unsupported",
			"the head of SigLIP, which pools a picture and is not read here, is not modelled; set "+
				"vision_use_head to false")
	}
	return seeing{picture: vision.patches(), vision: vision.clipTower(),
		visionDropout: vision.probability("attention_dropout")}
}

// siglip declares the tower.
func (b *builder) siglip(own seeing) *siglip {
	a := *b.a
	a.AttentionDropout, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery = own.visionDropout, 0, nil, 0
	m := &siglip{own: own}
	m.tower = clip{a: &a, own: clipOptions{picture: own.picture, vision: own.vision, normsAhead: true}}
	d := own.vision.hidden
	b.tower(own.frozen, func() {
		m.patches = b.convolution("vision_model.embeddings.patch_embedding", own.picture.channels, d, own.picture.patch,
			own.picture.patch, true)
		m.places = b.embedding("vision_model.embeddings.position_embedding", own.picture.count(), d)
		b.buffer("vision_model.embeddings.position_ids", own.picture.count(), step.I64)
		m.tower.vision = m.tower.declare(b, "vision_model", own.vision)
		m.after = b.norm("vision_model.post_layernorm", d, true)
	})
	v := &m.tower.vision
	v.tokens, v.first, v.within, v.transposed = own.picture.count(), int(own.textLayers), true, true
	return m
}

// look is the last hidden states, behind the last norm.
func (m *siglip) look(t *step.Tape, pixels step.T) step.T {
	n := m.own.picture.count()
	defer lookAtPictures(t, n)()
	t.In(step.PartEmbedding)
	ordered := t.Recipe.CheckpointEvery > 0 // a leaf has laid the gradient out like the convolution's result
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	cut := t.TowerInput(t.Convolution(stored, m.patches.w, m.patches.b, n, !ordered))
	t.Drop(stored)
	places := t.Heads(t.Embedding(t.Buffered(n, step.I64), m.places, step.LabelPositions), ordered &&
		t.Shape.Batch == 1)
	x := t.Add(cut, places, step.LabelEmbedding)
	if len(m.tower.vision.layers) == 1 {
		x = m.tower.vision.lastInput(t, x)
	}
	t.Drop(places, cut)
	embedded := t.Hold(x)
	x = m.tower.vision.forward(t, x, step.Besides{})
	t.In(step.PartNorm)
	norm := (*step.Tape).TransposedLayerNorm
	if m.turned {
		norm = (*step.Tape).LayerNormBetweenTransposed
	}
	y := norm(t, x, m.after.w, m.after.b)
	t.Drop(x, embedded)
	return y
}
