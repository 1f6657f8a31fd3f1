package model

import "github.com/vramplan/vramplan/estimator/step"

// LLaVA 1.5: the hidden states of one of the last layers of a CLIP tower, through two linear layers, in the places of
// the tokens that stand for a picture. Source: transformers/models/llava/modeling_llava.py, configuration_llava.py,
// 4.57.
var llavaFamily = family{modelType: "llava",
	classes: []string{classConditional},
	keys:    seeingKeys,
	defaults: map[string]any{
		"vision_feature_layer": -2.0, "vision_feature_select_strategy": "default", "projector_hidden_act": "gelu",
		"multimodal_projector_bias": true},
	read:       (*config).llava,
	uncompiled: uncompiledSeeing,
	pictureTokens: func(a *Architecture, height, width int64) (int64, string) {
		own := a.own.(seeing)
		return own.own.(llavaOptions).tokens(own.picture), own.picture.squareOnly(height, width)
	},
	build: buildLlava,
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
func (o llavaOptions) tokens(p patches) int64 {
	if o.whole {
		return p.tokens()
	}
	return p.count()
}

func (c *config) llava(a *Architecture) {
	text := c.textModel(a, "llama", map[string]*family{"llama": &llamaFamily, "mistral": &mistralFamily,
		"qwen2": &qwen2Family})
	own := c.clipVision()
	options := llavaOptions{activation: c.activation("projector_hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh",
		"relu", "silu"), bias: c.boolean("multimodal_projector_bias")}
	options.layer = c.featureLayer(own.vision.layers)
	switch v, _ := c.value("vision_feature_select_strategy"); v {
	case "default":
	case "full":
		options.whole = true
	default:
		c.errs.Add(c.pointer+"/vision_feature_select_strategy", "unknown_value",
			"vision_feature_select_strategy is %s; default and full are accepted", describe(v))
	}
	own.own = options
	if text != nil {
		a.seen(text, own)
	}
}

// featureLayer is vision_feature_layer counted from the tower's input.
func (c *config) featureLayer(layers int64) int64 {
	if v, _ := c.value("vision_feature_layer"); isList(v) {
		c.errs.Add(c.pointer+"/vision_feature_layer", "unsupported",
			"vision_feature_layer is %s; a whole number is modelled, a list of layers is not", describe(v))
		return layers
	}
	n := c.signed("vision_feature_layer")
	at := n
	if at < 0 {
		at += layers + 1
	}
	if at < 0 || at > layers {
		c.errs.Add(c.pointer+"/vision_feature_layer", "out_of_range",
			"vision_feature_layer is %d, and the tower of %d layers has hidden states from %d to %d", n, layers,
			-layers-1, layers)
		return layers
	}
	return at
}

// clipVision reads vision_config where it is CLIP's.
func (c *config) clipVision() seeing {
	vision := c.part("vision_config", clipVisionDefaults)
	if kind, given := vision.given["model_type"]; given && kind != "clip_vision_model" {
		c.errs.Add(vision.pointer+"/model_type", "unsupported",
			"a tower of type %s is not modelled in %s; clip_vision_model is", describe(kind), c.given["model_type"])
	}
	return seeing{picture: vision.patches(), vision: vision.clipTower(),
		visionDropout: vision.probability("attention_dropout")}
}

// llava is LlavaForConditionalGeneration.
type llava struct {
	own           seeing
	options       llavaOptions
	tower         *clip
	first, second linear
	text          *decoder
}

func buildLlava(b *builder) step.Network {
	own := b.a.own.(seeing)
	m := &llava{own: own, options: own.own.(llavaOptions), tower: b.clipTower(own)}
	m.tower.vision.holds, m.tower.vision.used = true, int(m.options.layer)
	d := own.vision.hidden
	m.first, m.second = b.linear("multi_modal_projector.linear_1", d, b.a.Hidden, m.options.bias),
		b.linear("multi_modal_projector.linear_2", b.a.Hidden, b.a.Hidden, m.options.bias)
	m.text = b.textModel(own)
	return m
}

// clipTower declares the tower of a model that sees.
func (b *builder) clipTower(own seeing) *clip {
	whole := b.a
	a := *whole
	a.AttentionDropout, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery = own.visionDropout, 0, nil, 0
	m := &clip{a: &a, own: clipOptions{picture: own.picture, vision: own.vision}}
	b.tower(own.frozen, func() { m.declareVision(b) })
	m.vision.first, m.vision.within = int(own.textLayers), true
	return m
}

// Batch is pixel_values, input_ids, attention_mask and labels.
func (m *llava) Batch(t *step.Tape) []step.T {
	return append([]step.T{pixelValues(t, m.own.picture.channels)}, batchWithMask(t)...)
}

func (m *llava) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[1], batch[3]
	t.In(step.PartEmbedding)
	embedded := m.text.embeddings(t, ids)
	features, ended := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, mask := scatterPictures(t, embedded, features, func() {})
	loss, outputs := m.text.read(t, handed{embedded: merged, locals: []step.T{mask}, ended: ended}, labels)
	return loss, append(outputs, features)
}

// look is get_image_features, and the features of all pictures in one row. ended lets go of the tower's outputs where
// the caller holds them.
func (m *llava) look(t *step.Tape, pixels step.T, d step.DType) (features step.T, ended func()) {
	back := lookAtPictures(t, m.own.picture.tokens())
	last, pooled := m.tower.look(t, pixels)
	states := m.tower.vision.states
	chosen := t.Hold(states[m.options.layer])
	if !m.options.whole {
		whole := chosen
		chosen = t.WithoutFirst(whole, m.own.vision.hidden)
		t.Drop(whole)
	}
	t.In(step.PartMLP)
	up := m.project(t, chosen)
	act := activation(t, m.options.activation, up)
	t.Drop(up)
	projected := m.second.forward(t, act)
	t.Drop(act)
	returned := append(states, chosen, last, pooled)
	leave := func() {
		for _, x := range returned {
			t.Drop(x)
		}
		t.Abandon(m.tower.vision.unused, m.tower.pooledAt)
	}
	if t.Recipe.Software.ReturnsTower { // the projector's output in the place of the pooled one
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
	if m.options.whole || t.Shape.Batch == 1 || m.first.adapter != nil || t.Recipe.Autocast &&
		x.Dtype() != t.Recipe.Compute {
		return m.first.forward(t, x)
	}
	dense := t.Contiguous(x)
	y := t.Linear(dense, m.first.w, step.NoWeight, step.LabelLinear)
	t.Drop(dense)
	if m.first.b.Exists() {
		y = t.AddInPlace(y, t.Parameter(m.first.b))
	}
	return y
}
