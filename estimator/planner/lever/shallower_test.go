package lever

import "testing"

// TestShallower cuts layers off a config.json and keeps the rest of it.
func TestShallower(t *testing.T) {
	for _, c := range []struct {
		config string
		want   []string
	}{
		{`{"model_type":"llama","num_hidden_layers":8,"rope_scaling":{"factor":2.0}}`, []string{
			`{"model_type":"llama","num_hidden_layers":6,"rope_scaling":{"factor":2.0}}`,
			`{"model_type":"llama","num_hidden_layers":4,"rope_scaling":{"factor":2.0}}`,
			`{"model_type":"llama","num_hidden_layers":2,"rope_scaling":{"factor":2.0}}`}},
		{`{"model_type":"gpt2","n_layer":2}`, []string{`{"model_type":"gpt2","n_layer":1}`}},
		{`{"model_type":"gpt2"}`, nil},
		{`{"num_hidden_layers":"many"}`, nil},
		{`[`, nil},
		{``, nil},
	} {
		got := shallower([]byte(c.config))
		if len(got) != len(c.want) {
			t.Errorf("%s: %d configs, want %d", c.config, len(got), len(c.want))
			continue
		}
		for i := range got {
			if string(got[i].config) != c.want[i] {
				t.Errorf("%s: %s, want %s", c.config, got[i].config, c.want[i])
			}
		}
	}
}
