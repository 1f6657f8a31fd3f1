package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// BART and mBART: an encoder and a decoder with learned positions; mBART's norms stand before what they are of.
// Source: transformers/models/bart/modeling_bart.py, models/mbart/modeling_mbart.py and their configuration classes,
// 4.57 and 5.23.
var (
	BARTFamily  = likeBART("bart", false)
	MBARTFamily = likeBART("mbart", true)
)

func likeBART(modelType string, normFirst bool) arch.Family {
	return arch.Family{ModelType: modelType,
		Classes: []string{arch.ClassConditional},
		Keys:    WhisperFamily.Keys,
		Defaults: map[string]any{
			"vocab_size": 50265.0, "max_position_embeddings": 1024.0, "d_model": 1024.0,
			"encoder_layers": 12.0, "encoder_ffn_dim": 4096.0, "encoder_attention_heads": 16.0,
			"decoder_layers": 12.0, "decoder_ffn_dim": 4096.0, "decoder_attention_heads": 16.0,
			"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu", "dropout": 0.1,
			"attention_dropout": 0.0, "activation_dropout": 0.0, "use_cache": true, "tie_word_embeddings": true},
		Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
			own := bartOptions{normFirst: normFirst}
			own.encoder, own.decoder, own.activationDropout = twoStacks(c, &a)
			a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
			a = bartOf(a, own)
			return a
		},
		Spelled: map[string]string{"num_hidden_layers": "encoder_layers", "hidden_size": "d_model",
			"num_attention_heads": "encoder_attention_heads", "intermediate_size": "encoder_ffn_dim",
			"residual_dropout": "dropout"},
		Numbers:    decoderNumbers,
		Uncompiled: "compiled BART is not modelled: no trace has shown it",
		Build:      buildBART,
	}
}

// bartOptions is what only BART and mBART have.
type bartOptions struct {
	encoder, decoder  stackSizes
	activationDropout float64
	normFirst         bool
}

// bartOf completes an architecture. With labels there is no cache, whatever the configuration says.
func bartOf(a arch.Architecture, own bartOptions) arch.Architecture {
	a.Own, a.UseCache = own, false
	a = stacks(a, own.encoder, own.decoder)
	return a
}

// bart is transformers' BartForConditionalGeneration or MBartForConditionalGeneration.
type bart struct {
	a                *arch.Architecture
	own              bartOptions
	words            step.Weight
	encoder, decoder bartStack
	head             arch.Linear
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
	norm      arch.Norm // of the embeddings
	layers    []bartLayer
	final     arch.Norm // mBART's
}

type bartLayer struct {
	self, cross                    bartAttention
	selfNorm, crossNorm, finalNorm arch.Norm
	fc1, fc2                       arch.Linear
}

type bartAttention struct{ k, v, q, out arch.Linear }

// bartOffset is how many rows of the tables of positions no token uses.
const bartOffset = 2

func buildBART(b *arch.Builder) step.Network {
	m := &bart{a: b.A, own: b.A.Own.(bartOptions)}
	m.words = b.Embedding("shared", b.A.Vocabulary, b.A.Hidden)
	b.P.List[m.words.Index].Unreached = m.apart()
	m.encoder = m.declare(b, "encoder", m.own.encoder, false)
	m.decoder = m.declare(b, "decoder", m.own.decoder, true)
	m.decoder.first = len(m.encoder.layers)
	m.head = b.Head("lm_head", b.A.Hidden, false)
	m.biasType = b.Loaded()
	b.Buffer("final_logits_bias", b.A.Vocabulary, m.biasType)
	return m
}

// apart says that encoder and decoder have a table of tokens each, and that none is looked up in the shared one.
func (m *bart) apart() bool { return !m.a.Tied && m.a.Software.Has(interfacesBART) }

func (m *bart) declare(b *arch.Builder, name string, sizes stackSizes, decodes bool) bartStack {
	d := m.a.Hidden
	s := bartStack{m: m, decodes: decodes, layers: make([]bartLayer, sizes.layers)}
	if sizes.heads > 0 {
		s.heads = step.Heads{Query: sizes.heads, KV: sizes.heads, Dim: d / sizes.heads,
			Drops: m.a.AttentionDropout > 0}
	}
	if s.words = m.words; m.apart() {
		s.words = b.Embedding(name+".embed_tokens", m.a.Vocabulary, d)
	}
	s.positions = b.Embedding(name+".embed_positions", m.a.MaxPositions+bartOffset, d)
	start := len(b.P.List)
	for i := range s.layers {
		l := &s.layers[i]
		l.self, l.selfNorm = buildBARTAttention(b, name+".self_attn", d), b.Norm(name+".self_attn_layer_norm", d, true)
		if decodes {
			l.cross = buildBARTAttention(b, name+".encoder_attn", d)
			l.crossNorm = b.Norm(name+".encoder_attn_layer_norm", d, true)
		}
		l.fc1, l.fc2 = b.Linear(name+".fc1", d, sizes.ffn, true), b.Linear(name+".fc2", sizes.ffn, d, true)
		l.finalNorm = b.Norm(name+".final_layer_norm", d, true)
	}
	b.InLayers(start)
	s.norm = b.Norm(name+".layernorm_embedding", d, true)
	if m.own.normFirst {
		s.final = b.Norm(name+".layer_norm", d, true)
	}
	return s
}

func buildBARTAttention(b *arch.Builder, name string, d int64) bartAttention {
	return bartAttention{k: b.Linear(name+".k_proj", d, d, true), v: b.Linear(name+".v_proj", d, d, true),
		q: b.Linear(name+".q_proj", d, d, true), out: b.Linear(name+".out_proj", d, d, true)}
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
	logits := m.head.ScaledLogits(t, decoded, func(t *step.Tape, logits step.T) step.T {
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
