package estimator

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
)

// TestEvaluationFindsTables evaluates more sequences than training has, on a model that makes a table in its first
// forward and keeps it: at the peak, which falls into the evaluation, the table is there once.
func TestEvaluationFindsTables(t *testing.T) {
	in := Input{Job: Job{
		Model: Model{
			HFConfig: []byte(`{"model_type":"gptj","n_layer":1,"n_head":1,"n_embd":64,"rotary_dim":64,"vocab_size":3}`),
		},
		Training: Training{MicroBatch: 1, SequenceLength: 1, Evaluation: &Evaluation{MicroBatch: 5}},
	}}
	r, err := resolve.Resolve(&in)
	if err != nil {
		t.Fatal(err)
	}
	peak := session.PlayerOf(
		r,
		&in,
		nil,
	).Session(
		&replay.Workspace{},
		session.Hardware(r.Recipe, nil),
		false,
	).Account(
		false,
		false,
	).Peak
	sum := int64(0)
	for _, bytes := range peak.Components {
		sum += bytes
	}
	if answer.PhaseOf(&peak) != "evaluation" || sum != peak.Bytes {
		t.Errorf("the components add up to %d, the peak in %s is %d", sum, answer.PhaseOf(&peak), peak.Bytes)
	}
}

// The Trainer joins the logits of all batches of an evaluation where they are kept, and nobody says how many there are.
// Source: transformers/trainer.py 5.23.0 (evaluation_loop: all_preds.add, whose nested_concat stays on the device).
func TestEvaluationsThatKeepWords(t *testing.T) {
	for _, tt := range []struct {
		framework, model string
		refused          bool
	}{
		{"hf-trainer", `{"hf_config":{"model_type":"llama"}}`, true},
		{"axolotl", `{"hf_config":{"model_type":"gpt2"}}`, true},
		{"hf-trainer", `{"hf_config":{"model_type":"bert","architectures":["BertForMaskedLM"]}}`, true},
		{"hf-trainer", `{"hf_config":{"model_type":"bert","architectures":["BertForSequenceClassification"]}}`, false},
		{"pytorch", `{"hf_config":{"model_type":"llama"}}`, false},
		{"nanogpt", `{"nanogpt":{"n_layer":2,"n_head":4,"n_embd":64,"block_size":256,"vocab_size":500}}`, false},
	} {
		_, err := Estimate(Input{Job: jobOf(t, tt.model, `"framework":"`+tt.framework+
			`","evaluation":{"keep_logits":true}`)})
		if refused := err != nil; refused != tt.refused || refused && !strings.Contains(err.Error(), "keep_logits") {
			t.Errorf("%s, %s: %v", tt.framework, tt.model, err)
		}
	}
}
