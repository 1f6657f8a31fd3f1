package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// LlavaFamily is LLaVA 1.5: the hidden states of one of the last layers of a CLIP tower, through two linear layers, in
// the places of the tokens that stand for a picture. Source: transformers/models/llava/modeling_llava.py,
// configuration_llava.py, 4.57.
var LlavaFamily = arch.Family{ModelType: "llava",
	Classes: []string{arch.ClassConditional},
	Keys:    seeingKeys,
	Defaults: map[string]any{
		"vision_feature_layer": -2.0, "vision_feature_select_strategy": "default", "projector_hidden_act": "gelu",
		"multimodal_projector_bias": true},
	Read:       readLlava,
	Uncompiled: arch.UncompiledSeeing,
	PictureTokens: func(a *arch.Architecture, height, width int64) (int64, string) {
		own := a.Own.(Seeing)
		return own.own.(llavaOptions).tokens(own.Picture), own.Picture.squareOnly(height, width)
	},
	Build: buildLlava,
}

// llavaOptions is what only LLaVA has.
type llavaOptions struct {
	// layer is which of the tower's hidden states are read, 0 for its input.
	layer int64
	// whole says that the class token is read, too.
	whole      bool
	activation string
	bias       bool
}

// tokens is how many a picture takes.
func (o llavaOptions) tokens(p Patches) int64 {
	if o.whole {
		return p.tokens()
	}
	return p.count()
}

func readLlava(c *arch.Config, a arch.Architecture) arch.Architecture {
	text := readTextModel(c, &a, "llama", map[string]*arch.Family{"llama": &decoders.LlamaFamily,
		"mistral": &decoders.MistralFamily,
		"qwen2":   &decoders.Qwen2Family})
	own := clipVision(c)
	options := llavaOptions{activation: c.Activation("projector_hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh",
		"relu", "silu"), bias: c.Boolean("multimodal_projector_bias")}
	options.layer = featureLayer(c, own.Vision.Layers)
	switch v, _ := c.Value("vision_feature_select_strategy"); v {
	case "default":
	case "full":
		options.whole = true
	default:
		c.Errs.Add(c.Pointer+"/vision_feature_select_strategy", "unknown_value",
			"vision_feature_select_strategy is %s; default and full are accepted", arch.Describe(v))
	}
	own.own = options
	if text != nil {
		a = standBehind(a, text, own)
	}
	return a
}

// featureLayer is vision_feature_layer counted from the tower's input.
func featureLayer(c *arch.Config, layers int64) int64 {
	if v, _ := c.Value("vision_feature_layer"); arch.IsList(v) {
		c.Errs.Add(c.Pointer+"/vision_feature_layer", "unsupported",
			"vision_feature_layer is %s; a whole number is modelled, a list of layers is not", arch.Describe(v))
		return layers
	}
	n := c.Signed("vision_feature_layer")
	at := n
	if at < 0 {
		at += layers + 1
	}
	if at < 0 || at > layers {
		c.Errs.Add(c.Pointer+"/vision_feature_layer", "out_of_range",
			"vision_feature_layer is %d, and the tower of %d layers has hidden states from %d to %d", n, layers,
			-layers-1, layers)
		return layers
	}
	return at
}

// clipVision reads vision_config where it is CLIP's.
func clipVision(c *arch.Config) Seeing {
	vision := c.Part("vision_config", clipVisionDefaults)
	if kind, given := vision.Given["model_type"]; given && kind != "clip_vision_model" {
		c.Errs.Add(vision.Pointer+"/model_type", "unsupported",
			"a tower of type %s is not modelled in %s; clip_vision_model is", arch.Describe(kind),
			c.Given["model_type"])
	}
	return Seeing{Picture: patches(vision), Vision: CLIPTower(vision),
		visionDropout: vision.Probability("attention_dropout")}
}

// llava is LlavaForConditionalGeneration.
type llava struct {
	own           Seeing
	options       llavaOptions
	tower         *CLIP
	first, second arch.Linear
	text          *blocks.Decoder
}

func buildLlava(b *arch.Builder) step.Network {
	own := b.A.Own.(Seeing)
	m := &llava{own: own, options: own.own.(llavaOptions), tower: buildCLIPTower(b, own)}
	m.tower.vision.Holds, m.tower.vision.used = true, int(m.options.layer)
	d := own.Vision.Hidden
	m.first, m.second = b.Linear("multi_modal_projector.linear_1", d, b.A.Hidden, m.options.bias),
		b.Linear("multi_modal_projector.linear_2", b.A.Hidden, b.A.Hidden, m.options.bias)
	m.text = buildTextModel(b, own)
	return m
}

// buildCLIPTower declares the tower of a model that sees.
func buildCLIPTower(b *arch.Builder, own Seeing) *CLIP {
	whole := b.A
	a := *whole
	a.AttentionDropout, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery = own.visionDropout, 0, nil, 0
	m := &CLIP{A: &a, Own: CLIPOptions{picture: own.Picture, Vision: own.Vision}}
	Tower(b, own.frozen, func() { m.declareVision(b) })
	m.vision.First, m.vision.within = int(own.TextLayers), true
	return m
}

// Batch is pixel_values, input_ids, attention_mask and labels.
func (m *llava) Batch(t *step.Tape) []step.T {
	return append([]step.T{pixelValues(t, m.own.Picture.channels)}, blocks.BatchWithMask(t)...)
}

func (m *llava) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[1], batch[3]
	t.In(step.PartEmbedding)
	embedded := m.text.Embeddings(t, ids)
	features, ended := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, mask := scatterPictures(t, embedded, features, func() {})
	loss, outputs := m.text.Read(t, blocks.Handed{Embedded: merged, Locals: []step.T{mask}, Ended: ended}, labels)
	return loss, append(outputs, features)
}

// look is get_image_features, and the features of all pictures in one row. ended lets go of the tower's outputs where
// the caller holds them.
func (m *llava) look(t *step.Tape, pixels step.T, d step.DType) (features step.T, ended func()) {
	back := lookAtPictures(t, m.own.Picture.tokens())
	last, pooled := m.tower.look(t, pixels)
	states := m.tower.vision.States
	chosen := t.Hold(states[m.options.layer])
	if !m.options.whole {
		whole := chosen
		chosen = t.WithoutFirst(whole, m.own.Vision.Hidden)
		t.Drop(whole)
	}
	t.In(step.PartMLP)
	up := m.project(t, chosen)
	act := arch.Activation(t, m.options.activation, up)
	t.Drop(up)
	projected := m.second.Forward(t, act)
	t.Drop(act)
	returned := append(states, chosen, last, pooled)
	leave := func() {
		for _, x := range returned {
			t.Drop(x)
		}
		t.Abandon(m.tower.vision.unused, m.tower.pooledAt)
	}
	if t.Recipe.Software.Has(returnsTower) { // the projector's output in the place of the pooled one
		t.Drop(chosen, pooled, states[0])
		states = states[1:]
		returned, ended = append(states, last, t.Hold(projected)), leave
	} else {
		leave()
	}
	joined := t.JoinPictures(projected)
	features = t.Cast(joined, d, step.LabelCast)
	t.Drop(joined, projected)
	back()
	return features, ended
}

// project is linear_1. What is left of a view of several pictures is laid out for it, unless autocast or an adapter has
// made a copy in another type, and its bias is added in place. Source: aten/src/ATen/native/Linear.cpp (linear), torch
// 2.9.
func (m *llava) project(t *step.Tape, x step.T) step.T {
	if m.options.whole || t.Shape.Batch == 1 || m.first.Adapter != nil || t.Recipe.Autocast &&
		x.Dtype() != t.Recipe.Compute {
		return m.first.Forward(t, x)
	}
	dense := t.Contiguous(x)
	y := t.Linear(dense, m.first.W, step.NoWeight, step.LabelLinear)
	t.Drop(dense)
	if m.first.B.Exists() {
		y = t.AddInPlace(y, t.Parameter(m.first.B))
	}
	return y
}
