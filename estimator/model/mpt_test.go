package model

import (
	"strings"
	"testing"
)

// TestMPTParameters counts the class's own defaults, MPT-7B by either of the names of its numbers, and one whose head
// is its own.
func TestMPTParameters(t *testing.T) {
	for config, want := range map[string]int64{
		`{"model_type": "mpt"}`: 50_368*2_048 + 24*(12*2_048*2_048+2*2_048) + 2_048,
		`{"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432}`:                                               6_649_286_656,
		`{"model_type": "mpt", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 50432}`:                      6_649_286_656,
		`{"model_type": "mpt", "d_model": 64, "n_heads": 2, "n_layers": 1, "vocab_size": 100, "tie_word_embeddings": false, "expansion_ratio": 2}`: 2*6_400 + 12*64*64 + 3*64,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if got := a.ParameterCount(); got != want {
			t.Errorf("%s: %d parameters, want %d", config, got, want)
		}
	}
}

// TestMPTAttentionConfig holds what is inside attn_config to its types.
func TestMPTAttentionConfig(t *testing.T) {
	for attention, key := range map[string]string{
		`7`:                   "attn_config",
		`{"clip_qkv": "yes"}`: "attn_config/clip_qkv",
		`{"clip_qkv": -1}`:    "attn_config/clip_qkv",
		`{"attn_pdrop": 1.5}`: "attn_config/attn_pdrop",
	} {
		_, err := read(t, `{"model_type": "mpt", "attn_config": `+attention+`}`)
		if err == nil || !strings.Contains(err.Error(), "/model/hf_config/"+key) {
			t.Errorf("%s: %v", attention, err)
		}
	}
}
