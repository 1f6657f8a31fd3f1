package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// WhisperFamily is Whisper.
var WhisperFamily = arch.Family{ModelType: "whisper",
	Classes: []string{arch.ClassConditional},
	Keys: arch.FieldNames{Heads: "encoder_attention_heads", Hidden: "d_model", KV: "encoder_attention_heads",
		Dim: "d_model"},
	Defaults: map[string]any{
		"vocab_size": 51865.0, "num_mel_bins": 80.0, "encoder_layers": 4.0, "encoder_attention_heads": 6.0,
		"decoder_layers":          4.0,
		"decoder_attention_heads": 6.0, "decoder_ffn_dim": 1536.0, "encoder_ffn_dim": 1536.0, "encoder_layerdrop": 0.0,
		"decoder_layerdrop": 0.0, "use_cache": true, "activation_function": "gelu", "d_model": 384.0, "dropout": 0.0,
		"attention_dropout": 0.0, "activation_dropout": 0.0, "max_source_positions": 1500.0,
		"max_target_positions": 448.0,
		"apply_spec_augment":   false, "tie_word_embeddings": true},
	Read: readWhisper,
	Spelled: map[string]string{"num_hidden_layers": "encoder_layers", "hidden_size": "d_model",
		"num_attention_heads": "encoder_attention_heads", "intermediate_size": "encoder_ffn_dim",
		"max_position_embeddings": "max_target_positions", "residual_dropout": "dropout"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		decoderNumbers(p, c)
		c["num_mel_bins"], c["max_source_positions"] = float64(p.MelBins), float64(p.MaxSourcePositions)
	},
	Build: buildWhisper,
}

// whisperOptions is what only Whisper has.
type whisperOptions struct {
	bins              int64 // of the mel spectrogram
	encoder, decoder  stackSizes
	activationDropout float64
}

// speech completes an architecture of which the number of positions of the encoder is known: every window of sound has
// as many.
func speech(a arch.Architecture, own whisperOptions, positions int64) arch.Architecture {
	a.Own, a.FixedTokens = own, positions
	a.NeverReentrant =
		"the decoder's layers get the encoder's output as a keyword, and reentrant checkpointing would " +
			"go backward through its graph once for each layer"
	a = stacks(a, own.encoder, own.decoder)
	return a
}

// Limits on the shape of a spectrogram.
const (
	maxBins   = 1 << 16
	maxFrames = 1 << 20
)

func readWhisper(c *arch.Config, a arch.Architecture) arch.Architecture {
	own := whisperOptions{bins: c.Integer("num_mel_bins", maxBins)}
	own.encoder, own.decoder, own.activationDropout = twoStacks(c, &a)
	a.MaxPositions = c.Integer("max_target_positions", arch.MaxRows)
	if c.Boolean("apply_spec_augment") {
		c.Errs.Add(c.Pointer+"/apply_spec_augment", "unsupported",
			"masking the sound at random is not modelled; set apply_spec_augment to false")
	}
	a = speech(a, own, c.Integer("max_source_positions", maxFrames))
	return a
}

// whisper is transformers' WhisperForConditionalGeneration (modeling_whisper.py, 4.57).
type whisper struct {
	a                *arch.Architecture
	own              whisperOptions
	conv1, conv2     arch.Convolution
	sinusoids        step.Weight // the encoder's positions, which are not trained
	words, positions step.Weight
	head             step.Weight
	encoder, decoder whisperStack
}

// whisperStack is the layers of WhisperEncoder or of WhisperDecoder.
type whisperStack struct {
	m         *whisper
	decodes   bool
	transpose bool // the residual stream is a transposed view, as the convolutions left it
	heads     step.Heads
	layers    []whisperLayer
	final     arch.Norm
	mask      *step.T
	cache     []step.T
}

// whisperLayer is WhisperEncoderLayer or WhisperDecoderLayer.
type whisperLayer struct {
	self, cross         whisperAttention
	selfNorm, crossNorm arch.Norm
	fc1, fc2            arch.Linear
	final               arch.Norm
}

type whisperAttention struct{ k, v, q, out arch.Linear }

func buildWhisper(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &whisper{a: a, own: a.Own.(whisperOptions)}
	const taps = 3
	m.conv1, m.conv2 = b.Convolution("encoder.conv1", m.own.bins, d, 1, taps, true),
		b.Convolution("encoder.conv2", d, d, 1, taps, true)
	m.sinusoids = b.Parameter("encoder.embed_positions", a.FixedTokens, d)
	b.P.List[m.sinusoids.Index].Frozen = true
	m.encoder = m.declare(b, "encoder", m.own.encoder, false)
	m.words, m.positions = b.Embedding("decoder.embed_tokens", a.Vocabulary, d),
		b.Parameter("decoder.embed_positions", a.MaxPositions, d)
	b.Embeds(m.positions)
	m.decoder = m.declare(b, "decoder", m.own.decoder, true)
	m.head = m.words
	if !a.Tied {
		m.head = b.Parameter("proj_out", a.Vocabulary, d)
	}
	return m
}

func (m *whisper) declare(b *arch.Builder, name string, sizes stackSizes, decodes bool) whisperStack {
	d := m.a.Hidden
	s := whisperStack{m: m, decodes: decodes, layers: make([]whisperLayer, sizes.layers), transpose: !decodes &&
		m.a.FixedTokens > 1 && d > 1}
	if sizes.heads > 0 {
		s.heads = step.Heads{Query: sizes.heads, KV: sizes.heads, Dim: d / sizes.heads}
	}
	start := len(b.P.List)
	for i := range s.layers {
		l := &s.layers[i]
		l.self = buildWhisperAttention(b, name+".self_attn", d)
		l.selfNorm = b.Norm(name+".self_attn_layer_norm", d, true)
		if decodes {
			l.cross = buildWhisperAttention(b, name+".encoder_attn", d)
			l.crossNorm = b.Norm(name+".encoder_attn_layer_norm", d, true)
		}
		l.fc1, l.fc2 = b.Linear(name+".fc1", d, sizes.ffn, true), b.Linear(name+".fc2", sizes.ffn, d, true)
		l.final = b.Norm(name+".final_layer_norm", d, true)
	}
	b.InLayers(start)
	s.final = b.Norm(name+".layer_norm", d, true)
	return s
}

func buildWhisperAttention(b *arch.Builder, name string, d int64) whisperAttention {
	return whisperAttention{k: b.Linear(name+".k_proj", d, d, false), v: b.Linear(name+".v_proj", d, d, true),
		q: b.Linear(name+".q_proj", d, d, true), out: b.Linear(name+".out_proj", d, d, true)}
}
