package model

import "github.com/vramplan/vramplan/estimator/step"

// llama reads the keys that most decoders share.
func (c *config) llama(a *Architecture) { c.decoder(a, "hidden_act") }

// decoder is llama for a family that calls its activation by another name, or has others than most.
func (c *config) decoder(a *Architecture, activation string, others ...string) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	if a.KVHeads = c.optional("num_key_value_heads", maxWidth); a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	if a.HeadDim = c.optional("head_dim", maxWidth); a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation(activation, append([]string{"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh",
		"relu", "relu2"}, others...)...)
	a.AttentionDropout = c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.Gated, a.Rotary = true, true
}

// biased is llama for a family whose attention_bias puts a bias on all four projections.
func (c *config) biased(a *Architecture) {
	c.llama(a)
	a.QKVBias = c.boolean("attention_bias")
	a.OutBias = a.QKVBias
}

var llamaFamily = family{keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.MLPBias = c.boolean("mlp_bias")
	}}

var mistralFamily = family{keys: commonKeys, classes: classifyingLM, build: buildLlama,
	numbers: noWindow,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"sliding_window": 4096.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.SlidingWindow = c.optional("sliding_window", maxRows)
	}}

// noWindow is what an entry without a window says where the class has one by default.
func noWindow(p *Preset, c map[string]any) {
	if p.SlidingWindow == 0 {
		c["sliding_window"] = nil
	}
}

var qwen2Family = family{keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"use_sliding_window": false,
		"sliding_window":     4096.0, "max_window_layers": 28.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = true
		c.windows(a, c.afterFirst())
	}}

var qwen3Family = family{keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "use_sliding_window": false, "sliding_window": 4096.0, "max_window_layers": 28.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = true
		c.windows(a, c.afterFirst())
	}}

var smolLM3Family = family{keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 128256.0, "hidden_size": 2048.0, "intermediate_size": 11008.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
		"attention_dropout":      0.0,
		"no_rope_layer_interval": 4.0, "use_sliding_window": false},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.MLPBias = c.boolean("mlp_bias")
		a.NoRotaryEvery = c.optional("no_rope_layer_interval", maxLayers)
		c.windows(a, func(i int64) bool { return a.NoRotaryEvery > 0 && (i+1)%a.NoRotaryEvery == 0 })
	}}

func buildLlama(b *builder) step.Network {
	return b.decoder(likeLlama())
}

// declareLlama lists the modules of LlamaDecoderLayer.
func declareLlama(b *builder, l *decoderLayer) {
	b.projections(l)
	if a := b.a; a.QKNorm {
		l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	}
	b.mlp(l)
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}

// preNorm is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
func (m *decoder) preNorm(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attend := (*decoder).attention
	if m.attend != nil {
		attend = m.attend
	}
	attn, probabilities := attend(m, t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addBranch(t, x, attn)

	h = m.normalize(l.postAttentionNorm, t, middle)
	t.In(step.PartMLP)
	var mlp step.T
	second := probabilities // what the variable for a module's second result refers to
	if l.experts == nil {
		mlp = m.mlp(t, l, h)
	} else {
		var router step.T
		mlp, router = l.experts.forward(t, h)
		if m, ok := l.experts.(interface{ leaves() []step.T }); ok {
			defer func() { t.Drop(m.leaves()...) }()
		}
		if router != step.NoTensor {
			switch {
			case probabilities == nil:
			case m.keepsProbabilities:
				defer t.Drop(*probabilities)
			default:
				t.Drop(*probabilities)
			}
			second = &router
		}
	}
	t.Drop(h)
	t.In(step.PartNorm)
	y := m.addBranch(t, middle, mlp)
	t.Drop(middle)
	if second != nil {
		t.Drop(*second)
	}
	return y
}

// addBranch adds what attention or MLP made to the residual stream. It takes over the branch.
func (m *decoder) addBranch(t *step.Tape, residual, branch step.T) step.T {
	scaled := t.Hold(branch)
	if m.scaleBranches {
		t.Drop(scaled)
		scaled = t.MulScalar(branch, step.LabelResidual)
	}
	y := t.Add(residual, scaled, step.LabelResidual)
	t.Drop(scaled, branch)
	return y
}
