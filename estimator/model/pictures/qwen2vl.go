package pictures

import (
	"math"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen2VLFamily is Qwen2-VL: a tower that takes pictures of any size as one row of patches, turns queries and keys by
// their places, and attends within each picture; a layer that merges four patches into a token; and a text model whose
// rotary positions have three parts, for time, height and width. Source:
// transformers/models/qwen2_vl/modeling_qwen2_vl.py, configuration_qwen2_vl.py, 4.57.
var Qwen2VLFamily = arch.Family{ModelType: "qwen2_vl",
	Classes: []string{arch.ClassConditional},
	Keys:    qwenSeeingKeys,
	Defaults: map[string]any{
		"vision_start_token_id": 151652.0, "vision_end_token_id": 151653.0, "image_token_id": 151655.0},
	Read:          qwen2VL,
	Uncompiled:    arch.UncompiledSeeing,
	PictureTokens: mergedTokens,
	UsualPictures: usualQwenPictures,
	Build:         buildQwenVL,
}

// qwenSeeingKeys are where older files, which have no text_config, say the numbers of the text model.
var qwenSeeingKeys = arch.FieldNames{Heads: "num_attention_heads", Hidden: "hidden_size", KV: "num_key_value_heads",
	Dim: "head_dim"}

var qwenVLTextDefaults = map[string]any{
	"vocab_size": 152064.0, "hidden_size": 8192.0, "intermediate_size": 29568.0, "num_hidden_layers": 80.0,
	"num_attention_heads": 64.0, "num_key_value_heads": 8.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
	"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "use_sliding_window": false,
	"sliding_window": 4096.0, "max_window_layers": 80.0}

var qwen2VLVisionDefaults = map[string]any{
	"depth": 32.0, "embed_dim": 1280.0, "hidden_size": 3584.0, "hidden_act": "quick_gelu", "mlp_ratio": 4.0,
	"num_heads": 16.0, "in_channels": 3.0, "patch_size": 14.0, "spatial_merge_size": 2.0, "temporal_patch_size": 2.0}

// qwenVLText is the text model, which is built as a part of these models alone.
var qwenVLText = arch.Family{ModelType: "qwen2", Build: func(b *arch.Builder) step.Network {
	with := blocks.LikeLlama()
	with.Declare, with.Project = declareQwenVL, projectAhead
	with.MakeTable, with.Rotate = spatialTables, rotateSpatially
	return blocks.BuildDecoder(b, with)
}}

// qwenVision is what only these towers have.
type qwenVision struct {
	// merge is how many patches a side become one token, deep how many pictures follow each other in a patch.
	merge, deep int64
	// gated says that the MLP has a gate and the norms no bias (2.5).
	gated bool
	// window is how many pixels wide the windows are that most layers attend within, 0 for none; full has the layers
	// that attend within pictures.
	window int64
	full   map[int64]bool
	out    int64
}

func qwen2VL(c *arch.Config, a arch.Architecture) arch.Architecture {
	vision := c.Part("vision_config", qwen2VLVisionDefaults)
	own := qwenVision{out: vision.Integer("hidden_size", arch.MaxWidth)}
	sizes := qwenTower(vision, "embed_dim", &own)
	const mostWider = 64
	ratio, _ := vision.Factor("mlp_ratio", mostWider)
	sizes.FFN = int64(ratio * float64(sizes.Hidden))
	a = readQwenVL(c, a, vision, sizes, own)
	return a
}

// qwenTower reads what both towers have; width is the key of the tower's width.
func qwenTower(c *arch.Config, width string, own *qwenVision) CLIPSizes {
	const mostSide = 64
	own.merge = max(c.Integer("spatial_merge_size", mostSide), 1)
	own.deep = max(c.Integer("temporal_patch_size", mostSide), 1)
	s := CLIPSizes{Layers: c.Integer("depth", arch.MaxLayers/2), Hidden: c.Integer(width, arch.MaxWidth),
		Heads:      c.Integer("num_heads", arch.MaxWidth),
		activation: c.Activation("hidden_act", "quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")}
	if s.Heads > 0 && (s.Hidden%s.Heads != 0 || s.Hidden/s.Heads%4 != 0) {
		c.Errs.Add(c.Pointer+"/num_heads", "not_divisible",
			"num_heads is %d and the width %d; a head has a multiple of four elements", s.Heads, s.Hidden)
	}
	return s
}

// readQwenVL completes the architecture with the text model, whose keys older files have at the top.
func readQwenVL(c *arch.Config, a arch.Architecture, vision *arch.Config, sizes CLIPSizes,
	own qwenVision) arch.Architecture {
	text := c.Part("text_config", qwenVLTextDefaults)
	if text.Given == nil {
		text.Given, text.Read, text.Pointer = c.Given, c.Read, c.Pointer
	}
	a = blocks.ReadLlama(text, a)
	a.QKVBias = true
	a = text.Windows(a, text.AfterFirst())
	const maxSide = 1 << 14
	picture := Patches{Patch: max(vision.Integer("patch_size", maxSide), 1),
		channels: vision.Integer("in_channels", maxSide)}
	if own.out != a.Hidden {
		c.Errs.Add(vision.Pointer, "conflict", "the tower gives features of %d elements, and the text model reads %d",
			own.out, a.Hidden)
	}
	a = standBehind(a, &qwenVLText, Seeing{Picture: picture, Vision: sizes, own: own})
	return a
}

// mergedTokens is how many tokens a picture becomes.
func mergedTokens(a *arch.Architecture, height, width int64) (int64, string) {
	own := a.Own.(Seeing)
	side := own.Picture.Patch * own.own.(qwenVision).merge
	if height%side != 0 || width%side != 0 {
		return 0, "image_size is " + size(height, width) + "; the processor makes both sides multiples of " +
			size(side, side) + ", and image_size is what reaches the model"
	}
	return height / side * (width / side), ""
}

// usualQwenPictures are pictures as LLaMA-Factory bounds them, of up to 768 × 768 pixels (hparams/data_args.py,
// image_max_pixels): the processor itself leaves them as large as they are, up to 12.8 million pixels.
func usualQwenPictures(a *arch.Architecture, p arch.Pictures, room int64) (arch.Pictures, string) {
	const mostPixels = 768
	own := a.Own.(Seeing)
	side := own.Picture.Patch * own.own.(qwenVision).merge
	p.Images = max(p.Images, 1)
	if p.Height > 0 {
		return p, ""
	}
	tokens := min(mostPixels/side, int64(math.Sqrt(float64(room/p.Images))))
	if tokens < 1 {
		return arch.Pictures{}, ""
	}
	p.Height, p.Width = tokens*side, tokens*side
	return p, "the largest square that LLaMA-Factory shows (image_max_pixels), or that leaves a quarter of the sequence " +
		"to text"
}

// declareQwenVL lists the modules of Qwen2VLDecoderLayer, whose attention has a rotary embedding of its own.
func declareQwenVL(b *arch.Builder, l *blocks.DecoderLayer) {
	blocks.DeclareProjections(b, l)
	b.Frequencies("self_attn.rotary_emb.", b.A.RotaryWidth()/2)
	blocks.DeclareMLP(b, l)
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
}

// projectAhead is q_proj, k_proj and v_proj, all of which run before a result is taken by heads.
func projectAhead(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (q, k,
	v step.T) {
	c := m.Copies(t, w)
	q, k, v = l.Q.Forward(t, x), l.K.Forward(t, x), l.V.Forward(t, x)
	return t.Heads(q, c.Query), t.Heads(k, c.Key), t.Heads(v, c.Value)
}

// spatialParts are time, height and width.
const spatialParts = 3

// spatialTables are cosines and sines of three positions for every token of every sequence.
func spatialTables(t *step.Tape, dim int64, d step.DType) (cos, sin step.T) {
	n := spatialParts * t.Shape.N()
	positions, angles := t.Table(n, step.F32), t.Table(n*dim/2, step.F32)
	t.Workspace()
	both := t.Table(n*dim, step.F32)
	wave := func() step.T {
		raw := t.Table(n*dim, step.F32)
		scaled := t.Table(n*dim, step.F32)
		t.Drop(raw)
		return scaled
	}
	cos, sin = wave(), wave()
	if d != step.F32 {
		c, s := t.Table(n*dim, d), t.Table(n*dim, d)
		t.Drop(cos, sin)
		cos, sin = c, s
	}
	t.Drop(positions, angles, both)
	return cos, sin
}

// rotateSpatially puts sections of the three tables side by side, and turns queries and keys by these.
// Source: modeling_qwen2_vl.py (apply_multimodal_rotary_pos_emb), 4.57.
func rotateSpatially(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	cos := t.Table(w.Cos.Numel()/spatialParts, w.Cos.Dtype())
	sin := t.Table(w.Sin.Numel()/spatialParts, w.Sin.Dtype())
	qr, kr = t.Rotary(q, cos, sin), t.Rotary(k, cos, sin)
	t.Drop(cos, sin)
	return qr, kr
}
