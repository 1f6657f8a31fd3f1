package model

import "github.com/vramplan/vramplan/estimator/step"

// BART and mBART: an encoder and a decoder with learned positions; mBART's norms stand before what they are of.
// Source: transformers/models/bart/modeling_bart.py, models/mbart/modeling_mbart.py and their configuration classes,
// 4.57 and 5.23.
var (
	bartFamily  = likeBART("bart", false)
	mbartFamily = likeBART("mbart", true)
)

func likeBART(modelType string, normFirst bool) family {
	return family{modelType: modelType,
		classes: []string{classConditional},
		keys:    whisperFamily.keys,
		defaults: map[string]any{
			"vocab_size": 50265.0, "max_position_embeddings": 1024.0, "d_model": 1024.0,
			"encoder_layers": 12.0, "encoder_ffn_dim": 4096.0, "encoder_attention_heads": 16.0,
			"decoder_layers": 12.0, "decoder_ffn_dim": 4096.0, "decoder_attention_heads": 16.0,
			"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu", "dropout": 0.1,
			"attention_dropout": 0.0, "activation_dropout": 0.0, "use_cache": true, "tie_word_embeddings": true},
		read: func(c *config, a *Architecture) {
			own := bartOptions{normFirst: normFirst}
			own.encoder, own.decoder, own.activationDropout = c.twoStacks(a)
			a.MaxPositions = c.integer("max_position_embeddings", maxRows)
			a.bart(own)
		},
		spelled: map[string]string{"num_hidden_layers": "encoder_layers", "hidden_size": "d_model",
			"num_attention_heads": "encoder_attention_heads", "intermediate_size": "encoder_ffn_dim",
			"residual_dropout": "dropout"},
		numbers:    decoderNumbers,
		uncompiled: "compiled BART is not modelled: no trace has shown it",
		build:      buildBART,
	}
}

// bartOptions is what only BART and mBART have.
type bartOptions struct {
	encoder, decoder  stackSizes
	activationDropout float64
	normFirst         bool
}

// bart completes an architecture. With labels there is no cache, whatever the configuration says.
func (a *Architecture) bart(own bartOptions) {
	a.own, a.UseCache = own, false
	a.stacks(own.encoder, own.decoder)
}

// bart is transformers' BartForConditionalGeneration or MBartForConditionalGeneration.
type bart struct {
	a                *Architecture
	own              bartOptions
	words            step.Weight
	encoder, decoder bartStack
	head             linear
	biasType         step.DType // of what is added to the logits
}

// bartStack is BartEncoder or BartDecoder.
type bartStack struct {
	m         *bart
	decodes   bool
	first     int // unit of its first layer
	heads     step.Heads
	words     step.Weight // the table of its tokens
	positions step.Weight
	norm      norm // of the embeddings
	layers    []bartLayer
	final     norm // mBART's
}

type bartLayer struct {
	self, cross                    bartAttention
	selfNorm, crossNorm, finalNorm norm
	fc1, fc2                       linear
}

type bartAttention struct{ k, v, q, out linear }

// bartOffset is how many rows of the tables of positions no token uses.
const bartOffset = 2

func buildBART(b *builder) step.Network {
	m := &bart{a: b.a, own: b.a.own.(bartOptions)}
	m.words = b.embedding("shared", b.a.Vocabulary, b.a.Hidden)
	b.p.List[m.words.Index].Unreached = m.apart()
	m.encoder = m.declare(b, "encoder", m.own.encoder, false)
	m.decoder = m.declare(b, "decoder", m.own.decoder, true)
	m.decoder.first = len(m.encoder.layers)
	m.head = b.head("lm_head", b.a.Hidden, false)
	m.biasType = b.loaded()
	b.buffer("final_logits_bias", b.a.Vocabulary, m.biasType)
	return m
}

// apart says that encoder and decoder have a table of tokens each, and that none is looked up in the shared one.
func (m *bart) apart() bool { return !m.a.Tied && m.a.Software.InterfacesBART }

func (m *bart) declare(b *builder, name string, sizes stackSizes, decodes bool) bartStack {
	d := m.a.Hidden
	s := bartStack{m: m, decodes: decodes, layers: make([]bartLayer, sizes.layers)}
	if sizes.heads > 0 {
		s.heads = step.Heads{Query: sizes.heads, KV: sizes.heads, Dim: d / sizes.heads,
			Drops: m.a.AttentionDropout > 0}
	}
	if s.words = m.words; m.apart() {
		s.words = b.embedding(name+".embed_tokens", m.a.Vocabulary, d)
	}
	s.positions = b.embedding(name+".embed_positions", m.a.MaxPositions+bartOffset, d)
	start := len(b.p.List)
	for i := range s.layers {
		l := &s.layers[i]
		l.self, l.selfNorm = b.bartAttention(name+".self_attn", d), b.norm(name+".self_attn_layer_norm", d, true)
		if decodes {
			l.cross = b.bartAttention(name+".encoder_attn", d)
			l.crossNorm = b.norm(name+".encoder_attn_layer_norm", d, true)
		}
		l.fc1, l.fc2 = b.linear(name+".fc1", d, sizes.ffn, true), b.linear(name+".fc2", sizes.ffn, d, true)
		l.finalNorm = b.norm(name+".final_layer_norm", d, true)
	}
	b.inLayers(start)
	s.norm = b.norm(name+".layernorm_embedding", d, true)
	if m.own.normFirst {
		s.final = b.norm(name+".layer_norm", d, true)
	}
	return s
}

func (b *builder) bartAttention(name string, d int64) bartAttention {
	return bartAttention{k: b.linear(name+".k_proj", d, d, true), v: b.linear(name+".v_proj", d, d, true),
		q: b.linear(name+".q_proj", d, d, true), out: b.linear(name+".out_proj", d, d, true)}
}

// Batch is input_ids, attention_mask and labels.
func (m *bart) Batch(t *step.Tape) []step.T {
	n, target := t.Shape.N(), t.Shape.Batch*t.Shape.Target
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(target, step.I64)}
}

func (m *bart) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	var shifted step.T
	if m.own.normFirst {
		shifted = wrapRight(t)
	} else {
		shifted = shiftRight(t)
	}
	encoded := m.encode(t, ids)
	decoded := m.decode(t, shifted, encoded)
	bias := t.Buffered(m.a.Vocabulary, m.biasType)
	logits := m.head.scaledLogits(t, decoded, func(t *step.Tape, logits step.T) step.T {
		moved := t.Add(logits, bias, step.LabelLogits)
		t.Drop(logits)
		return moved
	})
	loss := t.CrossEntropy(logits, labels)
	t.Drop(decoded, shifted)
	return loss, []step.T{logits, t.Hold(loss), encoded}
}

// wrapRight is mBART's shift_tokens_right: the last token that is no padding, the language, comes first.
func wrapRight(t *step.Tape) step.T {
	b, n := t.Shape.Batch, t.Shape.Target
	shifted := t.Input(b*n, step.I64)
	t.Drop(t.Input(b*n, step.Bool)) // those that the loss ignores
	kept := t.Input(b*n, step.Bool)
	counted := t.Input(b, step.I64)
	t.Drop(t.Input(b*n, step.I64)) // as integers
	t.Drop(kept)
	last := t.Input(b, step.I64)
	t.Drop(counted)
	language := t.Input(b, step.I64)
	t.Drop(t.Input(b*(n-1), step.I64))
	t.Drop(last, language)
	return shifted
}
