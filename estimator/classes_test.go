package estimator

import (
	"strings"
	"testing"
)

// TestClassesOfReleases: a reward model of a family that has no class for it in the job's release is refused with
// that reason.
func TestClassesOfReleases(t *testing.T) {
	const lfm2 = `{"model_type":"lfm2","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
		"vocab_size":500,"layer_types":["conv","full_attention"]}`
	const olmo2 = `{"model_type":"olmo2","hidden_size":64,"intermediate_size":160,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":500}`
	for name, c := range map[string]struct{ config, torch, transformers, want string }{
		"in no release":      {lfm2, "2.15.0", "5.23.0", "transformers 5.23.0 has no class …ForSequenceClassification for models of type lfm2, nor"},
		"in a later release": {olmo2, "2.9.1", "4.57.6", "for models of type olmo2, which 5.10.0 has"},
		"in the release":     {olmo2, "2.15.0", "5.23.0", ""},
		"one that all have":  {llamaConfig, "2.9.1", "4.57.6", ""},
	} {
		job := Job{Model: Model{HFConfig: []byte(c.config)}, Training: Training{Framework: "trl", MicroBatch: 2, SequenceLength: 64,
			Objective: &Objective{Kind: "reward"}, Versions: map[string]string{"torch": c.torch, "transformers": c.transformers}}}
		_, err := Estimate(Input{Job: job})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
