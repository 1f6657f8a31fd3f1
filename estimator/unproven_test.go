package estimator

import (
	"slices"
	"strings"
	"testing"
)

// TestUnprovenCrosses: a cross that no trace has shown says so and widens the bounds; one that a trace has shown does
// not.
func TestUnprovenCrosses(t *testing.T) {
	llama := `{"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8, "vocab_size": 1000}`
	falcon := `{"model_type": "falcon", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 1000}`
	stablelm := strings.Replace(llama, `"llama"`, `"stablelm", "num_key_value_heads": 8`, 1)
	for _, c := range []struct {
		name, config string
		change       func(*Training)
		says         string
	}{
		{"proven", llama, func(*Training) {}, ""},
		{"proven adapters", llama, func(u *Training) {
			u.LoRA = &LoRA{Rank: 8, TargetModules: []string{"q_proj"}}
		}, ""},
		{"first adapters", stablelm, func(u *Training) {
			u.LoRA = &LoRA{Rank: 8, TargetModules: []string{"q_proj"}}
		}, "stablelm with lora adapters"},
		{"mask", `{"model_type": "gemma2", "num_hidden_layers": 2}`, func(u *Training) {
			u.AttentionMask = "explicit"
		}, "gemma2 with mask explicit"},
		{"two", falcon, func(u *Training) {
			u.Optimizer, u.Evaluation = &Optimizer{Name: "lion"}, &Evaluation{MicroBatch: 1}
		},
			"optimizer lion, evaluation between steps"},
	} {
		job := Job{Model: Model{HFConfig: []byte(c.config)}, Training: Training{MicroBatch: 1, SequenceLength: 128}}
		c.change(&job.Training)
		res, err := Estimate(Input{Job: job})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		at := slices.IndexFunc(res.Doubts, func(d DoubtSource) bool { return d.Source == "no-trace" })
		switch {
		case c.says == "" && at >= 0:
			t.Errorf("%s: doubted: %s", c.name, res.Doubts[at].How)
		case c.says != "" && at < 0:
			t.Errorf("%s: not doubted", c.name)
		case c.says != "":
			if d := res.Doubts[at]; !strings.Contains(d.How, c.says) || d.AboveBytes <= 0 ||
				res.Peak.HighBytes < res.Peak.DeviceBytes+d.AboveBytes {
				t.Errorf("%s: %+v, high_bytes %d of %d", c.name, d, res.Peak.HighBytes, res.Peak.DeviceBytes)
			}
		}
	}
}
