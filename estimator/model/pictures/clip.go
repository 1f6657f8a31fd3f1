package pictures

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// CLIPFamily is CLIP.
var CLIPFamily = arch.Family{ModelType: "clip",
	Classes: []string{"CLIPModel"},
	Keys: arch.FieldNames{Heads: "vision_config/num_attention_heads", Hidden: "hidden_size",
		KV: "vision_config/num_attention_heads", Dim: "hidden_size"},
	Defaults: map[string]any{"projection_dim": 512.0},
	Read:     readCLIP,
	Numbers: func(p *arch.Preset, c map[string]any) {
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
	Build: buildCLIP, Undealt: arch.UndealtStacks,
	Logits: func(batch int64) string { return fmt.Sprintf("%d pictures × %d texts", batch, batch) },
}

// CLIPTextDefaults are those of CLIPTextConfig.
var CLIPTextDefaults = map[string]any{
	"vocab_size": 49408.0, "hidden_size": 512.0, "intermediate_size": 2048.0, "num_hidden_layers": 12.0,
	"num_attention_heads":     8.0,
	"max_position_embeddings": 77.0, "hidden_act": "quick_gelu", "attention_dropout": 0.0, "eos_token_id": 49407.0}

var clipVisionDefaults = map[string]any{
	"hidden_size": 768.0, "intermediate_size": 3072.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0,
	"num_channels": 3.0,
	"image_size":   224.0, "patch_size": 32.0, "hidden_act": "quick_gelu", "attention_dropout": 0.0}

// CLIPOptions is what only CLIP has.
type CLIPOptions struct {
	picture      Patches
	Vision, Text CLIPSizes
	Projection   int64 // the width in which pictures and texts are compared
	// normsAhead says that each norm of a layer is declared before what it feeds (SigLIP).
	normsAhead bool
	// LegacyEnd says that the end of a text is where its largest id is.
	LegacyEnd bool
}

// CLIPSizes are the numbers of one tower.
type CLIPSizes struct {
	Layers, Hidden, Heads, FFN int64
	activation                 string
}

// towersOf completes an architecture with what follows from the sizes of its towers. transformers hands the attention
// that is asked for at the top to neither of them, so that it is always its own choice.
func towersOf(a arch.Architecture, own CLIPOptions) arch.Architecture {
	a.Own = own
	a.Layers = own.Vision.Layers + own.Text.Layers
	a.Hidden, a.Heads, a.FFN = own.Vision.Hidden, own.Vision.Heads, max(own.Vision.FFN, own.Text.FFN)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.LearnedPositions, a.Irregular, a.SDPAOnly, a.UseCache = true, true, true, false
	a.Interfaced = blocks.ReturnsProbabilities
	return a
}

func readCLIP(c *arch.Config, a arch.Architecture) arch.Architecture {
	text, vision := c.Part("text_config", CLIPTextDefaults), c.Part("vision_config", clipVisionDefaults)
	own := CLIPOptions{picture: patches(vision), Projection: c.Integer("projection_dim", arch.MaxWidth)}
	own.Text, own.Vision = CLIPTower(text), CLIPTower(vision)
	end, _ := text.Value("eos_token_id")
	own.LegacyEnd = end == 2.0
	a.Vocabulary, a.MaxPositions = text.Integer("vocab_size", arch.MaxRows), text.Integer("max_position_embeddings", arch.MaxRows)
	a.AttentionDropout = text.Probability("attention_dropout")
	if vision.Probability("attention_dropout") != a.AttentionDropout {
		c.Errs.Add(vision.Pointer+"/attention_dropout", "unsupported",
			"another attention_dropout than in text_config is not modelled")
	}
	a = towersOf(a, own)
	return a
}

// CLIPTower reads the numbers of one tower.
func CLIPTower(c *arch.Config) CLIPSizes {
	s := CLIPSizes{
		Layers: c.Integer("num_hidden_layers", arch.MaxLayers/2), Hidden: c.Integer("hidden_size", arch.MaxWidth),
		Heads: c.Integer("num_attention_heads", arch.MaxWidth),
		FFN:   c.Integer("intermediate_size", arch.MaxRows), activation: c.Activation("hidden_act", "quick_gelu", "gelu",
			"gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")}
	if s.Heads > 0 && s.Hidden%s.Heads != 0 {
		c.Errs.Add(c.Pointer+"/num_attention_heads", "not_divisible",
			"num_attention_heads %d does not divide hidden_size %d", s.Heads, s.Hidden)
	}
	if float64(s.Layers)*float64(s.Hidden)*(4*float64(s.Hidden)+2*float64(s.FFN)) > arch.MaxParameters {
		c.Errs.Add(c.Pointer, "too_large", "the tower would have more than %.0e parameters", float64(arch.MaxParameters))
	}
	return s
}

// CLIP is transformers' CLIPModel (modeling_clip.py, 4.57).
type CLIP struct {
	A                                *arch.Architecture
	Own                              CLIPOptions
	Words, WordPlaces                step.Weight
	patches                          arch.Convolution
	class, places                    step.Weight
	Text, vision                     clipTower
	before, after, Final             arch.Norm // of the pictures, and of the texts
	visualProjection, TextProjection arch.Linear
	scale                            step.Weight
	Causal, Padding                  step.T
	pooledAt                         int32 // how large the graph is behind the pictures
}

// CLIPTower is CLIPEncoder, or SiglipEncoder.
type clipTower struct {
	M      *CLIP
	sizes  CLIPSizes
	tokens int64 // 0 for the sequence's
	layers []clipLayer
	First  int // unit of its first layer
	// within says that its pictures stand in sequences, of which each may have several.
	within bool
	// transposed says that the residual stream lies with the channels outermost.
	transposed bool
	// masked says that the layers have a mask, which hides nothing.
	masked bool
	// Holds says that a list keeps the input of every layer, and the output of the last.
	Holds  bool
	States []step.T
	// unused is how large the graph was before the last of the layers of whose results nothing is made.
	used   int
	unused int32
}

type clipLayer struct {
	k, v, q, out    arch.Linear
	fc1, fc2        arch.Linear
	before, between arch.Norm
}

func buildCLIP(b *arch.Builder) step.Network {
	a := b.A
	m := &CLIP{A: a, Own: a.Own.(CLIPOptions)}
	text, vision := m.Own.Text, m.Own.Vision
	m.Words, m.WordPlaces = b.Embedding("text_model.embeddings.token_embedding", a.Vocabulary, text.Hidden),
		b.Embedding("text_model.embeddings.position_embedding", a.MaxPositions, text.Hidden)
	b.Buffer("text_model.embeddings.position_ids", a.MaxPositions, step.I64)
	m.Text = m.Declare(b, "text_model", text)
	m.Text.First = int(vision.Layers)
	m.Final = b.Norm("text_model.final_layer_norm", text.Hidden, true)
	m.declareVision(b)
	m.visualProjection, m.TextProjection = b.Linear("visual_projection", vision.Hidden, m.Own.Projection, false),
		b.Linear("text_projection", text.Hidden, m.Own.Projection, false)
	m.visualProjection.Matrix, m.TextProjection.Matrix = true, true
	m.scale = b.Parameter("logit_scale", 1, 1)
	b.Ahead(m.scale, m.Words)
	return m
}

// declareVision declares CLIPVisionTransformer.
func (m *CLIP) declareVision(b *arch.Builder) {
	vision := m.Own.Vision
	m.patches = b.Convolution("vision_model.embeddings.patch_embedding", m.Own.picture.channels, vision.Hidden,
		m.Own.picture.Patch, m.Own.picture.Patch, false)
	m.places = b.Embedding("vision_model.embeddings.position_embedding", m.Own.picture.tokens(), vision.Hidden)
	m.class = b.Parameter("vision_model.embeddings.class_embedding", vision.Hidden, 1)
	b.Ahead(m.class, m.patches.W)
	b.Buffer("vision_model.embeddings.position_ids", m.Own.picture.tokens(), step.I64)
	m.before = b.Norm("vision_model.pre_layrnorm", vision.Hidden, true)
	m.vision = m.Declare(b, "vision_model", vision)
	m.vision.tokens = m.Own.picture.tokens()
	m.after = b.Norm("vision_model.post_layernorm", vision.Hidden, true)
}

// Declare lists the layers of a tower.
func (m *CLIP) Declare(b *arch.Builder, name string, sizes CLIPSizes) clipTower {
	w := clipTower{M: m, sizes: sizes, layers: make([]clipLayer, sizes.Layers)}
	d := sizes.Hidden
	if b.A.Family == "clip" { // and not a tower of a model that sees
		defer b.InLayers(len(b.P.List))
	}
	for i := range w.layers {
		l := &w.layers[i]
		if m.Own.normsAhead {
			l.before = b.Norm(name+".layer_norm1", d, true)
		}
		l.k, l.v = b.Linear(name+".self_attn.k_proj", d, d, true), b.Linear(name+".self_attn.v_proj", d, d, true)
		l.q, l.out = b.Linear(name+".self_attn.q_proj", d, d, true), b.Linear(name+".self_attn.out_proj", d, d, true)
		if m.Own.normsAhead {
			l.between = b.Norm(name+".layer_norm2", d, true)
		} else {
			l.before = b.Norm(name+".layer_norm1", d, true)
		}
		l.fc1, l.fc2 = b.Linear(name+".mlp.fc1", d, sizes.FFN, true), b.Linear(name+".mlp.fc2", sizes.FFN, d, true)
		if !m.Own.normsAhead {
			l.between = b.Norm(name+".layer_norm2", d, true)
		}
	}
	return w
}
