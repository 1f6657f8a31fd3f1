package model

import (
	"math"

	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen2-VL: a tower that takes pictures of any size as one row of patches, turns queries and keys by their places, and
// attends within each picture; a layer that merges four patches into a token; and a text model whose rotary positions
// have three parts, for time, height and width. Source: transformers/models/qwen2_vl/modeling_qwen2_vl.py,
// configuration_qwen2_vl.py, 4.57.
var qwen2VLFamily = family{modelType: "qwen2_vl",
	classes: []string{classConditional},
	keys:    qwenSeeingKeys,
	defaults: map[string]any{
		"vision_start_token_id": 151652.0, "vision_end_token_id": 151653.0, "image_token_id": 151655.0},
	read:          (*config).qwen2VL,
	uncompiled:    uncompiledSeeing,
	pictureTokens: mergedTokens,
	usualPictures: usualQwenPictures,
	build:         buildQwenVL,
}

// qwenSeeingKeys are where older files, which have no text_config, say the numbers of the text model.
var qwenSeeingKeys = fieldNames{heads: "num_attention_heads", hidden: "hidden_size", kv: "num_key_value_heads",
	dim: "head_dim"}

var qwenVLTextDefaults = map[string]any{
	"vocab_size": 152064.0, "hidden_size": 8192.0, "intermediate_size": 29568.0, "num_hidden_layers": 80.0,
	"num_attention_heads": 64.0, "num_key_value_heads": 8.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
	"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "use_sliding_window": false,
	"sliding_window": 4096.0, "max_window_layers": 80.0}

var qwen2VLVisionDefaults = map[string]any{
	"depth": 32.0, "embed_dim": 1280.0, "hidden_size": 3584.0, "hidden_act": "quick_gelu", "mlp_ratio": 4.0,
	"num_heads": 16.0, "in_channels": 3.0, "patch_size": 14.0, "spatial_merge_size": 2.0, "temporal_patch_size": 2.0}

// qwenVLText is the text model, which is built as a part of these models alone.
var qwenVLText = family{modelType: "qwen2", build: func(b *builder) step.Network {
	with := likeLlama()
	with.declare, with.project = declareQwenVL, (*decoder).projectAhead
	with.makeTable, with.rotate = spatialTables, rotateSpatially
	return b.decoder(with)
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

func (c *config) qwen2VL(a *Architecture) {
	vision := c.part("vision_config", qwen2VLVisionDefaults)
	own := qwenVision{out: vision.integer("hidden_size", maxWidth)}
	sizes := vision.qwenTower("embed_dim", &own)
	const mostWider = 64
	ratio, _ := vision.factor("mlp_ratio", mostWider)
	sizes.ffn = int64(ratio * float64(sizes.hidden))
	c.qwenVL(a, vision, sizes, own)
}

// qwenTower reads what both towers have; width is the key of the tower's width.
func (c *config) qwenTower(width string, own *qwenVision) clipSizes {
	const mostSide = 64
	own.merge = max(c.integer("spatial_merge_size", mostSide), 1)
	own.deep = max(c.integer("temporal_patch_size", mostSide), 1)
	s := clipSizes{layers: c.integer("depth", maxLayers/2), hidden: c.integer(width, maxWidth),
		heads:      c.integer("num_heads", maxWidth),
		activation: c.activation("hidden_act", "quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu")}
	if s.heads > 0 && (s.hidden%s.heads != 0 || s.hidden/s.heads%4 != 0) {
		c.errs.Add(c.pointer+"/num_heads", "not_divisible",
			"num_heads is %d and the width %d; a head has a multiple of four elements", s.heads, s.hidden)
	}
	return s
}

// qwenVL completes the architecture with the text model, whose keys older files have at the top.
func (c *config) qwenVL(a *Architecture, vision *config, sizes clipSizes, own qwenVision) {
	text := c.part("text_config", qwenVLTextDefaults)
	if text.given == nil {
		text.given, text.read, text.pointer = c.given, c.read, c.pointer
	}
	text.llama(a)
	a.QKVBias = true
	text.windows(a, text.afterFirst())
	const maxSide = 1 << 14
	picture := patches{patch: max(vision.integer("patch_size", maxSide), 1),
		channels: vision.integer("in_channels", maxSide)}
	if own.out != a.Hidden {
		c.errs.Add(vision.pointer, "conflict", "the tower gives features of %d elements, and the text model reads %d",
			own.out, a.Hidden)
	}
	a.seen(&qwenVLText, seeing{picture: picture, vision: sizes, own: own})
}

// mergedTokens is how many tokens a picture becomes.
func mergedTokens(a *Architecture, height, width int64) (int64, string) {
	own := a.own.(seeing)
	side := own.picture.patch * own.own.(qwenVision).merge
	if height%side != 0 || width%side != 0 {
		return 0, "image_size is " + size(height, width) + "; the processor makes both sides multiples of " +
			size(side, side) + ", and image_size is what reaches the model"
	}
	return height / side * (width / side), ""
}

// usualQwenPictures are pictures as LLaMA-Factory bounds them, of up to 768 × 768 pixels (hparams/data_args.py,
// image_max_pixels): the processor itself leaves them as large as they are, up to 12.8 million pixels.
func usualQwenPictures(a *Architecture, p Pictures, room int64) (Pictures, string) {
	const mostPixels = 768
	own := a.own.(seeing)
	side := own.picture.patch * own.own.(qwenVision).merge
	p.Images = max(p.Images, 1)
	if p.Height > 0 {
		return p, ""
	}
	tokens := min(mostPixels/side, int64(math.Sqrt(float64(room/p.Images))))
	if tokens < 1 {
		return Pictures{}, ""
	}
	p.Height, p.Width = tokens*side, tokens*side
	return p, "the largest square that LLaMA-Factory shows (image_max_pixels), or that leaves a quarter of the sequence " +
		"to text"
}

// declareQwenVL lists the modules of Qwen2VLDecoderLayer, whose attention has a rotary embedding of its own.
func declareQwenVL(b *builder, l *decoderLayer) {
	b.projections(l)
	b.frequencies("self_attn.rotary_emb.", b.a.rotaryWidth()/2)
	b.mlp(l)
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}

// projectAhead is q_proj, k_proj and v_proj, all of which run before a result is taken by heads.
func (m *decoder) projectAhead(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	q, k, v = l.q.forward(t, x), l.k.forward(t, x), l.v.forward(t, x)
	return t.Heads(q, c.query), t.Heads(k, c.key), t.Heads(v, c.value)
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
func rotateSpatially(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	cos := t.Table(w.cos.Numel()/spatialParts, w.cos.Dtype())
	sin := t.Table(w.sin.Numel()/spatialParts, w.sin.Dtype())
	qr, kr = t.Rotary(q, cos, sin), t.Rotary(k, cos, sin)
	t.Drop(cos, sin)
	return qr, kr
}
