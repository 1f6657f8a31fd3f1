package model

import (
	"strings"
	"testing"
)

// TestOPTParameters counts OPT's variants; 350M is the one with its own embedding width and its norms behind.
func TestOPTParameters(t *testing.T) {
	for config, want := range map[string]int64{
		`{"model_type": "opt"}`: 125_239_296,
		`{"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
			"word_embed_proj_dim": 512, "do_layer_norm_before": false}`: 331_196_416,
		`{"model_type": "opt", "hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100,
			"max_position_embeddings": 30, "enable_bias": false, "_remove_final_layer_norm": true, "tie_word_embeddings": false}`: 2*6_400 + 32*64 + 4*4_096 + 2*6_144 + 2*128,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if got := a.ParameterCount(); got != want {
			t.Errorf("%s: %d parameters, want %d", config, got, want)
		}
	}
}

// TestOPTRefusals names what OPT's configuration can ask for and nobody can train or replay.
func TestOPTRefusals(t *testing.T) {
	for key, value := range map[string]string{"layerdrop": "0.1", "layer_norm_elementwise_affine": "false",
		"word_embed_proj_dim": "0",
		"activation_function": `"tanh"`, "enable_bias": "1", "num_attention_heads": "7"} {
		_, err := read(t, `{"model_type": "opt", "`+key+`": `+value+`}`)
		if err == nil || !strings.Contains(err.Error(), "/model/hf_config/"+key) {
			t.Errorf("%s = %s: %v", key, value, err)
		}
	}
}
