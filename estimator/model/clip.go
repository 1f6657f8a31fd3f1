package model

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/step"
)

var clipFamily = family{modelType: "clip",
	classes: []string{"CLIPModel"},
	keys: fieldNames{heads: "vision_config/num_attention_heads", hidden: "hidden_size",
		kv: "vision_config/num_attention_heads", dim: "hidden_size"},
	defaults: map[string]any{"projection_dim": 512.0},
	read:     (*config).clip,
	numbers: func(p *Preset, c map[string]any) {
		tower := func(values map[string]int64) map[string]any {
			t := map[string]any{"attention_dropout": p.Dropout.Attention}
			for key, value := range values {
				t[key] = float64(value)
			}
			return t
		}
		c["vision_config"] = tower(map[string]int64{"num_hidden_layers": p.Layers, "hidden_size": p.Hidden,
			"num_attention_heads": p.Heads, "intermediate_size": p.FFN, "image_size": p.ImageSize,
			"patch_size": p.PatchSize})
		c["projection_dim"] = float64(p.ProjectionWidth)
		if p.Text != nil {
			c["text_config"] = tower(map[string]int64{"num_hidden_layers": p.Text.Layers, "hidden_size": p.Text.Hidden,
				"num_attention_heads": p.Text.Heads, "intermediate_size": p.Text.FFN, "vocab_size": p.Vocabulary,
				"max_position_embeddings": p.Text.MaxPositions, "eos_token_id": 2}) // as the published files have it
		}
	},
	build: buildCLIP, undealt: undealtStacks,
	logits: func(batch int64) string { return fmt.Sprintf("%d pictures × %d texts", batch, batch) },
}

var clipTextDefaults = map[string]any{
	"vocab_size": 49408.0, "hidden_size": 512.0, "intermediate_size": 2048.0, "num_hidden_layers": 12.0,
	"num_attention_heads":     8.0,
	"max_position_embeddings": 77.0, "hidden_act": "quick_gelu", "attention_dropout": 0.0, "eos_token_id": 49407.0}

var clipVisionDefaults = map[string]any{
	"hidden_size": 768.0, "intermediate_size": 3072.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
	"num_channels": 3.0,
	"image_size":   224.0, "patch_size": 32.0, "hidden_act": "quick_gelu", "attention_dropout": 0.0}

// clipOptions is what only CLIP has.
type clipOptions struct {
	picture      patches
	vision, text clipSizes
	projection   int64 // the width in which pictures and texts are compared
	// normsAhead says that each norm of a layer is declared before what it feeds (SigLIP).
	normsAhead bool
	// legacyEnd says that the end of a text is where its largest id is.
	legacyEnd bool
}

// clipSizes are the numbers of one tower.
type clipSizes struct {
	layers, hidden, heads, ffn int64
	activation                 string
}

// towers completes an architecture with what follows from the sizes of its towers. transformers hands the attention
// that is asked for at the top to neither of them, so that it is always its own choice.
func (a *Architecture) towers(own clipOptions) {
	a.own = own
	a.Layers = own.vision.layers + own.text.layers
	a.Hidden, a.Heads, a.FFN = own.vision.hidden, own.vision.heads, max(own.vision.ffn, own.text.ffn)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.LearnedPositions, a.Irregular, a.SDPAOnly, a.InterfacesLater, a.UseCache = true, true, true, true, false
}

func (c *config) clip(a *Architecture) {
	text, vision := c.part("text_config", clipTextDefaults), c.part("vision_config", clipVisionDefaults)
	own := clipOptions{picture: vision.patches(), projection: c.integer("projection_dim", maxWidth)}
	own.text, own.vision = text.clipTower(), vision.clipTower()
	end, _ := text.value("eos_token_id")
	own.legacyEnd = end == 2.0
	a.Vocabulary, a.MaxPositions = text.integer("vocab_size", maxRows), text.integer("max_position_embeddings", maxRows)
	a.AttentionDropout = text.probability("attention_dropout")
	if vision.probability("attention_dropout") != a.AttentionDropout {
		c.errs.Add(vision.pointer+"/attention_dropout", "unsupported",
			"another attention_dropout than in text_config is not modelled")
	}
	a.towers(own)
}

func (c *config) clipTower() clipSizes {
	s := clipSizes{
		layers: c.integer("num_hidden_layers", maxLayers/2), hidden: c.integer("hidden_size", maxWidth),
		heads: c.integer("num_attention_heads", maxWidth),
		ffn:   c.integer("intermediate_size", maxRows), activation: c.activation("hidden_act", "quick_gelu", "gelu",
			"gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")}
	if s.heads > 0 && s.hidden%s.heads != 0 {
		c.errs.Add(c.pointer+"/num_attention_heads", "not_divisible",
			"num_attention_heads %d does not divide hidden_size %d", s.heads, s.hidden)
	}
	if float64(s.layers)*float64(s.hidden)*(4*float64(s.hidden)+2*float64(s.ffn)) > maxParameters {
		c.errs.Add(c.pointer, "too_large", "the tower would have more than %.0e parameters", float64(maxParameters))
	}
	return s
}

// clip is transformers' CLIPModel (modeling_clip.py, 4.57).
type clip struct {
	a                                *Architecture
	own                              clipOptions
	words, wordPlaces                step.Weight
	patches                          convolution
	class, places                    step.Weight
	text, vision                     clipTower
	before, after, final             norm // of the pictures, and of the texts
	visualProjection, textProjection linear
	scale                            step.Weight
	causal, padding                  step.T
	pooledAt                         int32 // how large the graph is behind the pictures
}

// clipTower is CLIPEncoder, or SiglipEncoder.
type clipTower struct {
	m      *clip
	sizes  clipSizes
	tokens int64 // 0 for the sequence's
	layers []clipLayer
	first  int // unit of its first layer
	// within says that its pictures stand in sequences, of which each may have several.
	within bool
	// transposed says that the residual stream lies with the channels outermost.
	transposed bool
	// masked says that the layers have a mask, which hides nothing.
	masked bool
	// holds says that a list keeps the input of every layer, and the output of the last.
	holds  bool
	states []step.T
	// unused is how large the graph was before the last of the layers of whose results nothing is made.
	used   int
	unused int32
}

type clipLayer struct {
	k, v, q, out    linear
	fc1, fc2        linear
	before, between norm
}

func buildCLIP(b *builder) step.Network {
	a := b.a
	m := &clip{a: a, own: a.own.(clipOptions)}
	text, vision := m.own.text, m.own.vision
	m.words, m.wordPlaces = b.embedding("text_model.embeddings.token_embedding", a.Vocabulary, text.hidden),
		b.embedding("text_model.embeddings.position_embedding", a.MaxPositions, text.hidden)
	b.buffer("text_model.embeddings.position_ids", a.MaxPositions, step.I64)
	m.text = m.declare(b, "text_model", text)
	m.text.first = int(vision.layers)
	m.final = b.norm("text_model.final_layer_norm", text.hidden, true)
	m.declareVision(b)
	m.visualProjection, m.textProjection = b.linear("visual_projection", vision.hidden, m.own.projection, false),
		b.linear("text_projection", text.hidden, m.own.projection, false)
	m.visualProjection.matrix, m.textProjection.matrix = true, true
	m.scale = b.parameter("logit_scale", 1, 1)
	b.ahead(m.scale, m.words)
	return m
}

// declareVision declares CLIPVisionTransformer.
func (m *clip) declareVision(b *builder) {
	vision := m.own.vision
	m.patches = b.convolution("vision_model.embeddings.patch_embedding", m.own.picture.channels, vision.hidden,
		m.own.picture.patch, m.own.picture.patch, false)
	m.places = b.embedding("vision_model.embeddings.position_embedding", m.own.picture.tokens(), vision.hidden)
	m.class = b.parameter("vision_model.embeddings.class_embedding", vision.hidden, 1)
	b.ahead(m.class, m.patches.w)
	b.buffer("vision_model.embeddings.position_ids", m.own.picture.tokens(), step.I64)
	m.before = b.norm("vision_model.pre_layrnorm", vision.hidden, true)
	m.vision = m.declare(b, "vision_model", vision)
	m.vision.tokens = m.own.picture.tokens()
	m.after = b.norm("vision_model.post_layernorm", vision.hidden, true)
}

func (m *clip) declare(b *builder, name string, sizes clipSizes) clipTower {
	w := clipTower{m: m, sizes: sizes, layers: make([]clipLayer, sizes.layers)}
	d := sizes.hidden
	if b.a.Family == "clip" { // and not a tower of a model that sees
		defer b.inLayers(len(b.p.List))
	}
	for i := range w.layers {
		l := &w.layers[i]
		if m.own.normsAhead {
			l.before = b.norm(name+".layer_norm1", d, true)
		}
		l.k, l.v = b.linear(name+".self_attn.k_proj", d, d, true), b.linear(name+".self_attn.v_proj", d, d, true)
		l.q, l.out = b.linear(name+".self_attn.q_proj", d, d, true), b.linear(name+".self_attn.out_proj", d, d, true)
		if m.own.normsAhead {
			l.between = b.norm(name+".layer_norm2", d, true)
		} else {
			l.before = b.norm(name+".layer_norm1", d, true)
		}
		l.fc1, l.fc2 = b.linear(name+".mlp.fc1", d, sizes.ffn, true), b.linear(name+".mlp.fc2", sizes.ffn, d, true)
		if !m.own.normsAhead {
			l.between = b.norm(name+".layer_norm2", d, true)
		}
	}
	return w
}
