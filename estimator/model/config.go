package model

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// Limits on what a description may say; beyond them no arithmetic is tried. The replay plays every layer once for the
// allocator, so that layers cost time; the deepest published models have about 1,000.
const (
	maxLayers = 1024
	maxWidth  = 1 << 24
	maxRows   = 1 << 30
)

// family is how a model_type of transformers is read: the class's own defaults, which hold where a
// config.json is silent, and how its blocks differ from the one they are written like.
type family struct {
	block    Block
	defaults map[string]any
	finish   func(c *config, a *Architecture)
}

// families are the model types that are described.
// Defaults: the configuration classes of transformers 4.57.
var families = map[string]family{
	"gpt2": {block: BlockGPT2, defaults: map[string]any{
		"vocab_size": 50257.0, "n_positions": 1024.0, "n_embd": 768.0, "n_layer": 12.0, "n_head": 12.0,
		"activation_function": "gelu_new", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
		"use_cache": true, "tie_word_embeddings": true}},
	"llama": {block: BlockLlama, defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
		finish: func(c *config, a *Architecture) {
			a.QKVBias = c.boolean("attention_bias")
			a.OutBias = a.QKVBias
			a.MLPBias = c.boolean("mlp_bias")
		}},
	"mistral": {block: BlockLlama, defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu", "max_position_embeddings": 131072.0,
		"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "sliding_window": 4096.0},
		finish: func(c *config, a *Architecture) { a.SlidingWindow = c.optional("sliding_window", maxRows) }},
	"qwen2": {block: BlockLlama, defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
		"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "use_sliding_window": false},
		finish: func(c *config, a *Architecture) {
			a.QKVBias = true
			c.refuseSlidingWindow()
		}},
	"qwen3": {block: BlockLlama, defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "use_sliding_window": false},
		finish: func(c *config, a *Architecture) {
			a.QKNorm = true
			a.QKVBias = c.boolean("attention_bias")
			a.OutBias = a.QKVBias
			c.refuseSlidingWindow()
		}},
	"smollm3": {block: BlockLlama, defaults: map[string]any{
		"vocab_size": 128256.0, "hidden_size": 2048.0, "intermediate_size": 11008.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
		"use_cache": true, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
		"no_rope_layer_interval": 4.0, "use_sliding_window": false},
		finish: func(c *config, a *Architecture) {
			a.QKVBias = c.boolean("attention_bias")
			a.OutBias = a.QKVBias
			a.MLPBias = c.boolean("mlp_bias")
			a.NoRotaryEvery = c.optional("no_rope_layer_interval", maxLayers)
			c.refuseSlidingWindow()
		}},
}

// Families lists the model types that FromHF understands.
func Families() []string {
	names := make([]string, 0, len(families))
	for n := range families {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// config reads one config.json: values as they are given, else the class's defaults.
type config struct {
	given    map[string]any
	defaults map[string]any
	errs     *invalid.List
	pointer  string
}

// FromHF reads the object of a Hugging Face config.json. Keys that do not matter are ignored, absent ones mean
// the class's default. Problems go to errs under pointer; the architecture is then not usable.
func FromHF(raw json.RawMessage, pointer string, errs *invalid.List) Architecture {
	c := &config{errs: errs, pointer: pointer}
	if err := json.Unmarshal(raw, &c.given); err != nil {
		errs.Add(pointer, "wrong_type", "hf_config is the object of a config.json: %v", err)
		return Architecture{}
	}
	kind, ok := c.given["model_type"].(string)
	if !ok || kind == "" {
		errs.Add(pointer+"/model_type", "required", "model_type is missing: it names the family, such as %q", "llama")
		return Architecture{}
	}
	f, ok := families[strings.ToLower(kind)]
	if !ok {
		errs.Add(pointer+"/model_type", "unsupported", "model_type %.60q is not modelled yet; modelled are %s", kind, strings.Join(Families(), ", "))
		return Architecture{}
	}
	c.defaults = f.defaults
	a := Architecture{Name: kind, Family: strings.ToLower(kind), Block: f.block}
	if name, ok := c.given["_name_or_path"].(string); ok && name != "" && len(name) <= 200 {
		a.Name = name
	}
	c.head()
	if f.block == BlockGPT2 {
		c.gpt2(&a)
	} else {
		c.llama(&a)
	}
	if f.finish != nil {
		f.finish(c, &a)
	}
	a.check(pointer, errs, names[f.block])
	return a
}

// names are what the checks call an architecture's numbers, by the keys that the user wrote.
var names = map[Block]fieldNames{
	BlockGPT2:    {heads: "n_head", hidden: "n_embd", kv: "n_head", dim: "n_embd"},
	BlockLlama:   {heads: "num_attention_heads", hidden: "hidden_size", kv: "num_key_value_heads", dim: "head_dim"},
	BlockNanoGPT: {heads: "n_head", hidden: "n_embd", kv: "n_head", dim: "n_embd"},
}

type fieldNames struct{ heads, hidden, kv, dim string }

// head refuses what is not a causal language model with weights of the stored type.
func (c *config) head() {
	if c.given["quantization_config"] != nil {
		c.errs.Add(c.pointer+"/quantization_config", "unsupported", "quantized weights are not modelled yet; leave quantization_config out to train the weights unquantized")
	}
	list, ok := c.given["architectures"].([]any)
	if !ok || len(list) == 0 {
		return
	}
	name, _ := list[0].(string)
	if !strings.HasSuffix(name, "ForCausalLM") && !strings.HasSuffix(name, "LMHeadModel") {
		c.errs.Add(c.pointer+"/architectures", "unsupported", "%.80q is not modelled yet; a causal language model (…ForCausalLM, GPT2LMHeadModel) is", name)
	}
}

func (c *config) gpt2(a *Architecture) {
	a.Layers = c.integer("n_layer", maxLayers)
	a.Hidden = c.integer("n_embd", maxWidth)
	a.Heads = c.integer("n_head", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	if a.FFN = c.optional("n_inner", maxRows); a.FFN == 0 {
		a.FFN = 4 * a.Hidden
	}
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("n_positions", maxRows)
	a.Activation = c.activation("activation_function", "gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu")
	a.EmbeddingDropout, a.AttentionDropout, a.ResidualDropout = c.probability("embd_pdrop"), c.probability("attn_pdrop"), c.probability("resid_pdrop")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, true, true, true
	a.BufferSide = a.MaxPositions
	for _, key := range []string{"add_cross_attention", "reorder_and_upcast_attn"} {
		if on, _ := c.given[key].(bool); on {
			c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is not modelled", key)
		}
	}
}

func (c *config) llama(a *Architecture) {
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
	a.Activation = c.activation("hidden_act", "silu", "swish", "gelu", "gelu_pytorch_tanh", "relu")
	a.AttentionDropout = c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
}

func (c *config) refuseSlidingWindow() {
	if c.boolean("use_sliding_window") {
		c.errs.Add(c.pointer+"/use_sliding_window", "unsupported", "sliding windows in some of the layers are not modelled yet; set it to false")
	}
}

// value is what the file or the class says; a null counts as absent from the file and, where null says "derived", from the class.
func (c *config) value(key string) (any, bool) {
	if v, ok := c.given[key]; ok {
		return v, v != nil
	}
	v, ok := c.defaults[key]
	return v, ok
}

func (c *config) integer(key string, limit float64) int64 {
	v, ok := c.value(key)
	if !ok {
		c.errs.Add(c.pointer+"/"+key, "required", "%s is missing or null and the family has no default for it", key)
		return 0
	}
	return c.whole(key, v, limit)
}

func (c *config) optional(key string, limit float64) int64 {
	v, ok := c.value(key)
	if !ok {
		return 0
	}
	return c.whole(key, v, limit)
}

func (c *config) whole(key string, v any, limit float64) int64 {
	f, ok := v.(float64)
	if !ok {
		c.errs.Add(c.pointer+"/"+key, "wrong_type", "%s is a whole number, not %s", key, describe(v))
		return 0
	}
	if f != math.Trunc(f) || f < 1 || f > limit {
		c.errs.Add(c.pointer+"/"+key, "out_of_range", "%s is %g; it is a whole number from 1 to %.0f", key, f, limit)
		return 0
	}
	return int64(f)
}

func (c *config) boolean(key string) bool {
	v, ok := c.value(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		c.errs.Add(c.pointer+"/"+key, "wrong_type", "%s is true or false, not %s", key, describe(v))
	}
	return b
}

func (c *config) probability(key string) float64 {
	v, ok := c.value(key)
	if !ok {
		return 0
	}
	p, ok := v.(float64)
	if !ok {
		c.errs.Add(c.pointer+"/"+key, "wrong_type", "%s is a number, not %s", key, describe(v))
		return 0
	}
	if !(p >= 0 && p < 1) {
		c.errs.Add(c.pointer+"/"+key, "out_of_range", "%s is %g; it is from 0 to below 1", key, p)
	}
	return p
}

func (c *config) activation(key string, known ...string) string {
	v, _ := c.value(key)
	s, _ := v.(string)
	for _, k := range known {
		if s == k {
			if s == "swish" {
				return "silu"
			}
			return s
		}
	}
	c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is %s; modelled are %s", key, describe(v), strings.Join(known, ", "))
	return ""
}

// describe shows a JSON value in an error, shortened.
func describe(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}

// String names the architecture in a sentence.
func (a *Architecture) String() string {
	return fmt.Sprintf("%s: %d layers of %d, %d heads, vocabulary %d", a.Name, a.Layers, a.Hidden, a.Heads, a.Vocabulary)
}
