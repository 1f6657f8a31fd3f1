package model

import (
	"strings"
	"testing"
)

// TestFalconParameters counts the first Falcon, the newer decoder, and the one with three biases and two norms.
func TestFalconParameters(t *testing.T) {
	for config, want := range map[string]int64{
		`{"model_type": "falcon"}`: 6_921_720_704,
		`{"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
			"new_decoder_architecture": true}`: 41_303_293_952,
		`{"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100, "bias": true,
			"multi_query": false, "parallel_attn": false, "tie_word_embeddings": false}`: 2*6_400 + 12*64*64 + (3+1+4+1)*64 + 2*128 + 128,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if got := a.ParameterCount(); got != want {
			t.Errorf("%s: %d parameters, want %d", config, got, want)
		}
	}
}

// TestFalconRefusals names the switches that are not modelled together.
func TestFalconRefusals(t *testing.T) {
	for config, key := range map[string]string{
		`"new_decoder_architecture": true, "parallel_attn": false`: "parallel_attn",
		`"new_decoder_architecture": true, "num_kv_heads": 1`:      "num_kv_heads",
		`"num_ln_in_parallel_attn": 2`:                             "num_ln_in_parallel_attn",
		`"new_decoder_architecture": true, "num_kv_heads": 3`:      "num_kv_heads",
		`"multi_query": "no"`:                                      "multi_query",
	} {
		_, err := read(t, `{"model_type": "falcon", `+config+`}`)
		if err == nil || !strings.Contains(err.Error(), "/model/hf_config/"+key) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
