package estimator

import (
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
