package model

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/model/blocks"
)

// TestPartialRotaryDefaults reads files that say only what they are.
func TestPartialRotaryDefaults(t *testing.T) {
	for config, parameters := range map[string]int64{
		`{"model_type": "gpt_neox"}`:   20_554_567_680,
		`{"model_type": "phi"}`:        1_418_270_720,
		`{"model_type": "phi3"}`:       3_821_079_552,
		`{"model_type": "starcoder2"}`: 3_030_371_328,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		if got := a.ParameterCount(); got != parameters {
			t.Errorf("%s: %d parameters, want %d", config, got, parameters)
		}
	}
}

// TestRotaryWidth holds the number of elements that are turned against the modules' own: GPT-NeoX takes it from its
// tables, which round up.
func TestRotaryWidth(t *testing.T) {
	for _, c := range []struct {
		config string
		width  int64
	}{
		{`{"model_type": "gpt_neox"}`, 24},
		{`{"model_type": "gpt_neox", "hidden_size": 240, "num_attention_heads": 12}`, 6},
		{`{"model_type": "gpt_neox", "rotary_pct": 1}`, 96},
		{`{"model_type": "phi3", "partial_rotary_factor": 0.75}`, 72},
		{`{"model_type": "phi", "partial_rotary_factor": 0.4, "hidden_size": 2560}`, 32},
	} {
		a, err := read(t, c.config)
		if err != nil {
			t.Fatalf("%s: %v", c.config, err)
		}
		if blocks.Rotary(&a).Width != c.width {
			t.Errorf("%s: %d elements are turned, want %d", c.config, blocks.Rotary(&a).Width, c.width)
		}
	}
}

// TestRotaryFractionRefused names the key of a fraction that no module could be built with.
func TestRotaryFractionRefused(t *testing.T) {
	for config, key := range map[string]string{
		`{"model_type": "gpt_neox", "rotary_pct": 0}`:                                                        "rotary_pct",
		`{"model_type": "gpt_neox", "rotary_pct": 1.5}`:                                                      "rotary_pct",
		`{"model_type": "gpt_neox", "rotary_pct": "0.25"}`:                                                   "rotary_pct",
		`{"model_type": "gpt_neox", "rotary_pct": 0.001}`:                                                    "rotary_pct",
		`{"model_type": "gpt_neox", "rotary_pct": 1, "hidden_size": 60, "num_attention_heads": 4}`:           "rotary_pct",
		`{"model_type": "gpt_neox", "rotary_pct": 0.5, "hidden_size": 60, "num_attention_heads": 7}`:         "num_attention_heads",
		`{"model_type": "phi", "partial_rotary_factor": 0.3, "hidden_size": 320}`:                            "partial_rotary_factor",
		`{"model_type": "gpt_neox", "use_parallel_residual": "yes", "attention_bias": 1, "rotary_pct": 0.5}`: "use_parallel_residual",
	} {
		if _, err := read(t, config); err == nil || !strings.Contains(err.Error(), "/model/hf_config/"+key) {
			t.Errorf("%s: the error should name %s, got %v", config, key, err)
		}
	}
}
