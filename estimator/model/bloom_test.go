package model

import (
	"strings"
	"testing"
)

// TestBloomParameters counts Bloom by each of the names that its files use for the same number.
func TestBloomParameters(t *testing.T) {
	for config, want := range map[string]int64{
		`{"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16}`:                    559_214_592,
		`{"model_type": "bloom", "n_embed": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}`: 559_214_592,
		`{"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32}`:           7_069_016_064,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if got := a.ParameterCount(); got != want {
			t.Errorf("%s: %d parameters, want %d", config, got, want)
		}
	}
	_, err := read(t, `{"model_type": "bloom", "pretraining_tp": 2, "slow_but_exact": true}`)
	if err == nil || !strings.Contains(err.Error(), "slow_but_exact") {
		t.Errorf("products in slices: %v", err)
	}
}
