package model

import "testing"

// TestGPTBigCodeParameters counts the class's own defaults, a model in the dimensions of StarCoder, and one whose
// queries all have keys and values of their own.
func TestGPTBigCodeParameters(t *testing.T) {
	for config, want := range map[string]int64{
		`{"model_type": "gpt_bigcode"}`: 124_439_808 - 12*2*(768+1)*(768-64),
		`{"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_positions": 8192, "n_inner": 24576,
			"vocab_size": 49152}`: 15_517_456_384,
		`{"model_type": "gpt_bigcode", "multi_query": false}`: 124_439_808,
	} {
		a, err := read(t, config)
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if got := a.ParameterCount(); got != want {
			t.Errorf("%s: %d parameters, want %d", config, got, want)
		}
	}
}
