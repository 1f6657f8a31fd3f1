package model

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/step"
)

var t5Family = family{modelType: "t5",
	classes: []string{classConditional},
	keys:    fieldNames{heads: "num_heads", hidden: "d_model", kv: "num_heads", dim: "d_kv"},
	defaults: map[string]any{
		"vocab_size": 32128.0, "d_model": 512.0, "d_kv": 64.0, "d_ff": 2048.0, "num_layers": 6.0, "num_heads": 8.0,
		"relative_attention_num_buckets": 32.0, "dropout_rate": 0.1, "feed_forward_proj": "relu", "use_cache": true,
		"tie_word_embeddings": true,
		"n_positions":         512.0}, // no limit: the length that the published models were trained with
	read:    (*config).t5,
	spelled: t5Spelled, numbers: t5Numbers,
	build: buildT5,
}

// mT5 is T5 with other defaults (modeling_mt5.py is a copy of modeling_t5.py).
var mt5Family = family{modelType: "mt5",
	classes: t5Family.classes,
	keys:    t5Family.keys,
	defaults: map[string]any{
		"vocab_size": 250112.0, "d_model": 512.0, "d_kv": 64.0, "d_ff": 1024.0, "num_layers": 8.0, "num_heads": 6.0,
		"relative_attention_num_buckets": 32.0, "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu",
		"use_cache": true, "tie_word_embeddings": false,
		"n_positions": 512.0},
	read:    (*config).t5,
	spelled: t5Spelled, numbers: t5Numbers,
	build: buildT5,
}

// t5Spelled are the names of T5 and mT5.
var t5Spelled = map[string]string{"num_hidden_layers": "num_layers", "hidden_size": "d_model",
	"num_attention_heads": "num_heads", "head_dim": "d_kv", "intermediate_size": "d_ff",
	"max_position_embeddings": "n_positions", "residual_dropout": "dropout_rate"}

// t5Numbers are what a catalog entry says of both stacks.
func t5Numbers(p *Preset, c map[string]any) {
	c["num_decoder_layers"] = float64(p.DecoderLayers)
	c["relative_attention_num_buckets"] = float64(p.RelativeAttentionBuckets)
	if c["feed_forward_proj"] = p.MLP; p.MLP == "geglu" {
		c["feed_forward_proj"] = "gated-gelu"
	}
}

// t5Options is what only T5 has.
type t5Options struct {
	buckets int64 // of relative positions
	gated   bool  // the feed-forward layer has a gate
	// scales says what releases that always tie the head do with the decoder's output.
	scales bool
}

// TieT5 ties the head of T5 and mT5 to the embedding, as later releases do whatever the configuration says.
func (a *Architecture) TieT5() {
	own, is := a.own.(t5Options)
	if !is {
		return
	}
	own.scales = a.Tied && a.Family == "t5"
	a.own, a.Tied = own, true
}

func (c *config) t5(a *Architecture) {
	encoder := c.integer("num_layers", maxLayers/2)
	if a.Decoder = c.optional("num_decoder_layers", maxLayers/2); a.Decoder == 0 {
		a.Decoder = encoder
	}
	a.Layers = encoder + a.Decoder
	a.Hidden, a.HeadDim = c.integer("d_model", maxWidth), c.integer("d_kv", maxWidth)
	a.Heads = c.integer("num_heads", maxWidth)
	a.KVHeads = a.Heads
	a.FFN, a.Vocabulary = c.integer("d_ff", maxRows), c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("n_positions", maxRows)
	p := c.probability("dropout_rate")
	a.EmbeddingDropout, a.AttentionDropout, a.ResidualDropout = p, p, p
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.CopiesConfig = true // modeling_t5.py (T5Model.__init__: copy.deepcopy(config)), transformers 5.23
	a.EagerOnly, a.InterfacesLater, a.FreeHeadDim, a.Irregular = true, true, true, true
	own := t5Options{buckets: c.integer("relative_attention_num_buckets", maxRows)}
	own.gated, a.Activation = c.t5Activation()
	a.own = own
}

// t5Activation reads feed_forward_proj, "relu" or "gated-gelu", where gelu with a gate means gelu_new.
func (c *config) t5Activation() (gated bool, name string) {
	const key = "feed_forward_proj"
	v, _ := c.value(key)
	s, _ := v.(string)
	name, gated = strings.CutPrefix(s, "gated-")
	switch {
	case gated && name == "gelu":
		return true, "gelu_new"
	case name == "relu", name == "gelu", name == "gelu_new", name == "silu":
		return gated, name
	}
	c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is %s; modelled are relu, gelu, gelu_new and silu, and "+
		"each behind gated-", key, describe(v))
	return false, ""
}

// t5 is transformers' T5ForConditionalGeneration (modeling_t5.py, 4.57).
type t5 struct {
	a                *Architecture
	own              t5Options
	shared           step.Weight
	head             linear
	encoder, decoder t5Stack
}

// t5Stack is T5Stack: the encoder or the decoder.
type t5Stack struct {
	m       *t5
	decodes bool
	first   int // unit of its first block
	blocks  []t5Block
	final   norm
	// cachePosition are the places of the tokens.
	cachePosition step.T
	cache         []step.T
}

type t5Block struct {
	self, cross         t5Attention
	selfNorm, crossNorm norm
	gate, up, down      linear
	mlpNorm             norm
}

// t5Attention is T5Attention; only a stack's first block has a table of position biases.
type t5Attention struct {
	q, k, v, o linear
	positions  step.Weight
}

func buildT5(b *builder) step.Network {
	a := b.a
	own := a.own.(t5Options)
	m := &t5{a: a, own: own}
	m.shared = b.embedding("shared", a.Vocabulary, a.Hidden)
	m.encoder = m.declare(b, "encoder", a.Layers-a.Decoder, false)
	m.decoder = m.declare(b, "decoder", a.Decoder, true)
	m.decoder.first = int(a.Layers - a.Decoder)
	m.head = b.head("lm_head", a.Hidden, false)
	return m
}

func (m *t5) declare(b *builder, name string, layers int64, decodes bool) t5Stack {
	d, ffn := m.a.Hidden, m.a.FFN
	s := t5Stack{m: m, decodes: decodes, blocks: make([]t5Block, layers)}
	start := len(b.p.List)
	for i := range s.blocks {
		l := &s.blocks[i]
		l.self = m.declareAttention(b, name+".SelfAttention", i == 0)
		l.selfNorm = b.norm(name+".layer_norm", d, false)
		if decodes {
			l.cross = m.declareAttention(b, name+".EncDecAttention", false)
			l.crossNorm = b.norm(name+".layer_norm", d, false)
		}
		up := name + ".wi"
		if m.own.gated {
			l.gate, up = b.linear(name+".wi_0", d, ffn, false), name+".wi_1"
		}
		l.up, l.down = b.linear(up, d, ffn, false), b.linear(name+".wo", ffn, d, false)
		l.mlpNorm = b.norm(name+".layer_norm", d, false)
	}
	b.inLayers(start)
	s.final = b.norm(name+".final_layer_norm", d, false)
	return s
}

func (m *t5) declareAttention(b *builder, name string, positions bool) t5Attention {
	d, width := m.a.Hidden, m.a.Heads*m.a.HeadDim
	at := t5Attention{q: b.linear(name+".q", d, width, false), k: b.linear(name+".k", d, width, false),
		v: b.linear(name+".v", d, width, false), o: b.linear(name+".o", width, d, false), positions: step.NoWeight}
	if positions {
		at.positions = b.embedding(name+".relative_attention_bias", m.own.buckets, m.a.Heads)
	}
	return at
}

// Batch is input_ids, attention_mask and labels.
func (m *t5) Batch(t *step.Tape) []step.T {
	n, target := t.Shape.N(), t.Shape.Batch*t.Shape.Target
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(target, step.I64)}
}

func (m *t5) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	encoded := m.encoder.forward(t, ids, step.T{})
	shifted := shiftRight(t)
	decoded := m.decoder.forward(t, shifted, encoded)
	t.EndLayers()

	scaled := t.Hold(decoded)
	scales := m.a.Tied
	if t.Recipe.Software.TiesT5 {
		scales = m.own.scales
	}
	if scales {
		t.Drop(scaled)
		scaled = t.MulScalar(decoded, step.LabelNormOutput)
	}
	logits := m.head.logits(t, scaled)
	loss := t.CrossEntropy(logits, labels)
	t.Drop(scaled, decoded, shifted)
	outputs := []step.T{logits, t.Hold(loss), encoded}
	return loss, append(outputs, m.decoder.cache...)
}

// shiftRight is _shift_right: the labels moved by one are the decoder's input.
func shiftRight(t *step.Tape) step.T {
	b, n := t.Shape.Batch, t.Shape.Target
	shifted := t.Input(b*n, step.I64)
	rest := t.Input(b*(n-1), step.I64)
	t.Drop(rest)
	ignored := t.Input(b*n, step.Bool)
	t.Drop(ignored)
	return shifted
}
