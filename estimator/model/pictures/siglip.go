package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// siglip is SiglipVisionTransformer without its head, inside a model that reads pictures. As its positions are added to
// what a convolution left with the channels outermost, the residual stream stays in this order. Source:
// transformers/models/siglip/modeling_siglip.py, 4.57.
type siglip struct {
	own     Seeing
	patches arch.Convolution
	places  step.Weight
	tower   CLIP
	after   arch.Norm
	// turned says that the gradient of the last hidden states comes with the channels outermost, too.
	turned bool
}

var siglipVisionDefaults = map[string]any{
	"hidden_size": 768.0, "intermediate_size": 3072.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
	"num_channels": 3.0,
	"image_size":   224.0, "patch_size": 16.0, "hidden_act": "gelu_pytorch_tanh", "attention_dropout": 0.0,
	"vision_use_head": true}

// siglipVision reads vision_config where it is SigLIP's.
func siglipVision(c *arch.Config) Seeing {
	vision := c.Part("vision_config", siglipVisionDefaults)
	if kind, given := vision.Given["model_type"]; given && kind != "siglip_vision_model" {
		c.Errs.Add(vision.Pointer+"/model_type", "unsupported",
			"a tower of type %s is not modelled in %s; siglip_vision_model is", arch.Describe(kind), c.Given["model_type"])
	}
	if vision.Boolean("vision_use_head") {
		c.Errs.Add(vision.Pointer+"/vision_use_head", "unsupported",
			"the head of SigLIP, which pools a picture and is not read here, is not modelled; set "+
				"vision_use_head to false")
	}
	return Seeing{Picture: patches(vision), Vision: CLIPTower(vision),
		visionDropout: vision.Probability("attention_dropout")}
}

// buildSiglip declares the tower.
func buildSiglip(b *arch.Builder, own Seeing) *siglip {
	a := *b.A
	a.AttentionDropout, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery = own.visionDropout, 0, nil, 0
	m := &siglip{own: own}
	m.tower = CLIP{A: &a, Own: CLIPOptions{picture: own.Picture, Vision: own.Vision, normsAhead: true}}
	d := own.Vision.Hidden
	Tower(b, own.frozen, func() {
		m.patches = b.Convolution("vision_model.embeddings.patch_embedding", own.Picture.channels, d, own.Picture.Patch,
			own.Picture.Patch, true)
		m.places = b.Embedding("vision_model.embeddings.position_embedding", own.Picture.count(), d)
		b.Buffer("vision_model.embeddings.position_ids", own.Picture.count(), step.I64)
		m.tower.vision = m.tower.Declare(b, "vision_model", own.Vision)
		m.after = b.Norm("vision_model.post_layernorm", d, true)
	})
	v := &m.tower.vision
	v.tokens, v.First, v.within, v.transposed = own.Picture.count(), int(own.TextLayers), true, true
	return m
}

// look is the last hidden states, behind the last norm.
func (m *siglip) look(t *step.Tape, pixels step.T) step.T {
	n := m.own.Picture.count()
	defer lookAtPictures(t, n)()
	t.In(step.PartEmbedding)
	ordered := t.Recipe.CheckpointEvery > 0 // a leaf has laid the gradient out like the convolution's result
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	cut := t.TowerInput(t.Convolution(stored, m.patches.W, m.patches.B, n, !ordered))
	t.Drop(stored)
	places := t.Heads(t.Embedding(t.Buffered(n, step.I64), m.places, step.LabelPositions), ordered &&
		t.Shape.Batch == 1)
	x := t.Add(cut, places, step.LabelEmbedding)
	if len(m.tower.vision.layers) == 1 {
		x = m.tower.vision.lastInput(t, x)
	}
	t.Drop(places, cut)
	embedded := t.Hold(x)
	x = m.tower.vision.Forward(t, x, step.Besides{})
	t.In(step.PartNorm)
	norm := (*step.Tape).TransposedLayerNorm
	if m.turned {
		norm = (*step.Tape).LayerNormBetweenTransposed
	}
	y := norm(t, x, m.after.W, m.after.B)
	t.Drop(x, embedded)
	return y
}
