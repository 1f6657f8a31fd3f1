package encoderdecoders

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// T5Family is T5 and its v1.1.
var T5Family = arch.Family{ModelType: "t5", Settled: settleT5,
	Classes: []string{arch.ClassConditional},
	Keys:    arch.FieldNames{Heads: "num_heads", Hidden: "d_model", KV: "num_heads", Dim: "d_kv"},
	Defaults: map[string]any{
		"vocab_size": 32128.0, "d_model": 512.0, "d_kv": 64.0, "d_ff": 2048.0, "num_layers": 6.0, "num_heads": 8.0,
		"relative_attention_num_buckets": 32.0, "dropout_rate": 0.1, "feed_forward_proj": "relu", "use_cache": true,
		"tie_word_embeddings": true,
		"n_positions":         512.0}, // no limit: the length that the published models were trained with
	Read:    ReadT5,
	Spelled: t5Spelled, Numbers: t5Numbers,
	Build: buildT5,
}

// Mt5Family is mT5, T5 with other defaults (modeling_mt5.py is a copy of modeling_t5.py).
var Mt5Family = arch.Family{ModelType: "mt5", Settled: settleT5,
	Classes: T5Family.Classes,
	Keys:    T5Family.Keys,
	Defaults: map[string]any{
		"vocab_size": 250112.0, "d_model": 512.0, "d_kv": 64.0, "d_ff": 1024.0, "num_layers": 8.0, "num_heads": 6.0,
		"relative_attention_num_buckets": 32.0, "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu",
		"use_cache": true, "tie_word_embeddings": false,
		"n_positions": 512.0},
	Read:    ReadT5,
	Spelled: t5Spelled, Numbers: t5Numbers,
	Build: buildT5,
}

// t5Spelled are the names of T5 and mT5.
var t5Spelled = map[string]string{"num_hidden_layers": "num_layers", "hidden_size": "d_model",
	"num_attention_heads": "num_heads", "head_dim": "d_kv", "intermediate_size": "d_ff",
	"max_position_embeddings": "n_positions", "residual_dropout": "dropout_rate"}

// t5Numbers are what a catalog entry says of both stacks.
func t5Numbers(p *arch.Preset, c map[string]any) {
	c["num_decoder_layers"] = float64(p.DecoderLayers)
	c["relative_attention_num_buckets"] = float64(p.RelativeAttentionBuckets)
	if c["feed_forward_proj"] = p.MLP; p.MLP == "geglu" {
		c["feed_forward_proj"] = "gated-gelu"
	}
}

// T5Options is what only T5 has.
type T5Options struct {
	buckets int64 // of relative positions
	gated   bool  // the feed-forward layer has a gate
	// scales says what releases that always tie the head do with the decoder's output.
	scales bool
}

var laysT5BiasOut = arch.Of(func(a *arch.Architecture, by arch.Use) bool {
	return isT5(a, by) && by.Attention != step.AttentionEager
}, release.Declare("lays-t5-bias-out", release.Change{
	Library: "transformers", After: "5.17", From: "5.20",
	What: "T5's sdpa has the positions' bias, laid out anew, as its mask; from 5.15 to 5.19 the bias is strided, " +
		"and sdpa writes the formula out, which is replayed as eager attention is (5 % low)",
	Source: "models/t5/modeling_t5.py (T5Attention), integrations/sdpa_attention.py " +
		"(create_position_bias_mask), 4.57.6, 5.14.0, 5.15.0, 5.19.0, 5.20.0 and 5.23.0",
	Shown: "traces of T5 and mT5 of 5.23, and a step of 5.17 on an H200",
}))

// What step.InterfacesT5 says is so of T5 alone.
var _ = arch.Of(isT5, step.InterfacesT5)

func isT5(a *arch.Architecture, _ arch.Use) bool {
	_, is := a.Own.(T5Options)
	return is
}

// settleT5 ties the head of T5 and mT5 to the embedding, as later releases do whatever the configuration says.
func settleT5(a *arch.Architecture) {
	own, is := a.Own.(T5Options)
	if !is || !a.Software.Has(tiesT5) {
		return
	}
	own.scales = a.Tied && a.Family == "t5"
	a.Own, a.Tied = own, true
}

// ReadT5 reads T5Config.
func ReadT5(c *arch.Config, a arch.Architecture) arch.Architecture {
	encoder := c.Integer("num_layers", arch.MaxLayers/2)
	if a.Decoder = c.Optional("num_decoder_layers", arch.MaxLayers/2); a.Decoder == 0 {
		a.Decoder = encoder
	}
	a.Layers = encoder + a.Decoder
	a.Hidden, a.HeadDim = c.Integer("d_model", arch.MaxWidth), c.Integer("d_kv", arch.MaxWidth)
	a.Heads = c.Integer("num_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	a.FFN, a.Vocabulary = c.Integer("d_ff", arch.MaxRows), c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("n_positions", arch.MaxRows)
	p := c.Probability("dropout_rate")
	a.EmbeddingDropout, a.AttentionDropout, a.ResidualDropout = p, p, p
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.CopiesConfig = true // modeling_t5.py (T5Model.__init__: copy.deepcopy(config)), transformers 5.23
	a.EagerOnly, a.Interfaced, a.FreeHeadDim, a.Irregular = true, laysT5BiasOut, true, true
	own := T5Options{buckets: c.Integer("relative_attention_num_buckets", arch.MaxRows)}
	own.gated, a.Activation = t5Activation(c)
	a.Own = own
	return a
}

// t5Activation reads feed_forward_proj, "relu" or "gated-gelu", where gelu with a gate means gelu_new.
func t5Activation(c *arch.Config) (gated bool, name string) {
	const key = "feed_forward_proj"
	v, _ := c.Value(key)
	s, _ := v.(string)
	name, gated = strings.CutPrefix(s, "gated-")
	switch {
	case gated && name == "gelu":
		return true, "gelu_new"
	case name == "relu", name == "gelu", name == "gelu_new", name == "silu":
		return gated, name
	}
	c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is %s; modelled are relu, gelu, gelu_new and silu, and "+
		"each behind gated-", key, arch.Describe(v))
	return false, ""
}

// T5 is transformers' T5ForConditionalGeneration (modeling_t5.py, 4.57).
type T5 struct {
	A                *arch.Architecture
	Own              T5Options
	Shared           step.Weight
	head             arch.Linear
	Encoder, decoder t5Stack
}

// t5Stack is T5Stack: the encoder or the decoder.
type t5Stack struct {
	M       *T5
	decodes bool
	First   int // unit of its first block
	blocks  []t5Block
	final   arch.Norm
	// cachePosition are the places of the tokens.
	cachePosition step.T
	cache         []step.T
}

type t5Block struct {
	self, cross         t5Attention
	selfNorm, crossNorm arch.Norm
	gate, up, down      arch.Linear
	mlpNorm             arch.Norm
}

// t5Attention is T5Attention; only a stack's first block has a table of position biases.
type t5Attention struct {
	q, k, v, o arch.Linear
	positions  step.Weight
}

func buildT5(b *arch.Builder) step.Network {
	a := b.A
	own := a.Own.(T5Options)
	m := &T5{A: a, Own: own}
	m.Shared = b.Embedding("shared", a.Vocabulary, a.Hidden)
	m.Encoder = m.Declare(b, "encoder", a.Layers-a.Decoder, false)
	m.decoder = m.Declare(b, "decoder", a.Decoder, true)
	m.decoder.First = int(a.Layers - a.Decoder)
	m.head = b.Head("lm_head", a.Hidden, false)
	return m
}

// Declare lists the modules of a T5Stack.
func (m *T5) Declare(b *arch.Builder, name string, layers int64, decodes bool) t5Stack {
	d, ffn := m.A.Hidden, m.A.FFN
	s := t5Stack{M: m, decodes: decodes, blocks: make([]t5Block, layers)}
	start := len(b.P.List)
	for i := range s.blocks {
		l := &s.blocks[i]
		l.self = m.declareAttention(b, name+".SelfAttention", i == 0)
		l.selfNorm = b.Norm(name+".layer_norm", d, false)
		if decodes {
			l.cross = m.declareAttention(b, name+".EncDecAttention", false)
			l.crossNorm = b.Norm(name+".layer_norm", d, false)
		}
		up := name + ".wi"
		if m.Own.gated {
			l.gate, up = b.Linear(name+".wi_0", d, ffn, false), name+".wi_1"
		}
		l.up, l.down = b.Linear(up, d, ffn, false), b.Linear(name+".wo", ffn, d, false)
		l.mlpNorm = b.Norm(name+".layer_norm", d, false)
	}
	b.InLayers(start)
	s.final = b.Norm(name+".final_layer_norm", d, false)
	return s
}

func (m *T5) declareAttention(b *arch.Builder, name string, positions bool) t5Attention {
	d, width := m.A.Hidden, m.A.Heads*m.A.HeadDim
	at := t5Attention{q: b.Linear(name+".q", d, width, false), k: b.Linear(name+".k", d, width, false),
		v: b.Linear(name+".v", d, width, false), o: b.Linear(name+".o", width, d, false), positions: step.NoWeight}
	if positions {
		at.positions = b.Embedding(name+".relative_attention_bias", m.Own.buckets, m.A.Heads)
	}
	return at
}

// Batch is input_ids, attention_mask and labels.
func (m *T5) Batch(t *step.Tape) []step.T {
	n, target := t.Shape.N(), t.Shape.Batch*t.Shape.Target
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(target, step.I64)}
}

// tiesT5 is T5 and mT5 whose head is always the embedding, whatever the configuration says.
var tiesT5 = arch.Of(func(a *arch.Architecture, _ arch.Use) bool {
	_, is := a.Own.(T5Options)
	return is && !a.Tied
}, release.Declare("ties-t5", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "the head of T5 and mT5 in transformers 5.10 is the embedding, also where the configuration says " +
		"tie_word_embeddings false (Flan-T5); mT5 does not scale what enters it",
	Source: "models/t5/configuration_t5.py (__post_init__), models/mt5/configuration_mt5.py, 4.57.6 and 5.23.0",
	Shown:  "traces of T5 and mT5 with tie_word_embeddings false",
}))

// Forward runs the encoder, the decoder and the head.
func (m *T5) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	encoded := m.Encoder.Forward(t, ids, step.T{})
	shifted := shiftRight(t)
	decoded := m.decoder.Forward(t, shifted, encoded)
	t.EndLayers()

	scaled := t.Hold(decoded)
	scales := m.A.Tied
	if t.Recipe.Software.Has(tiesT5) {
		scales = m.Own.scales
	}
	if scales {
		t.Drop(scaled)
		scaled = t.MulScalar(decoded, step.LabelNormOutput)
	}
	logits := m.head.Logits(t, scaled)
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
