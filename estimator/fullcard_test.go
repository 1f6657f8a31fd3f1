package estimator

import (
	"testing"
)

// TestFullCard: on a card that has less than is reserved without a limit, but not less than the smallest limit, a job
// shows at most what the card has, and elsewhere what the peak says.
func TestFullCard(t *testing.T) {
	of := func(cards ...GPU) *Result {
		t.Helper()
		gpt2 := Model{HFConfig: []byte(`{"model_type": "gpt2"}`)}
		res, err := Estimate(Input{Job: Job{Model: gpt2, Training: Training{Framework: "hf-trainer", MicroBatch: 1,
			SequenceLength: 1024, Precision: PrecisionAMPBF16}}, GPUs: cards})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	job := of()
	context := job.Peak.DeviceBytes - job.Peak.ReservedBytes
	between := (job.Peak.MinimumLimitBytes + job.Peak.ReservedBytes) / 2
	for _, c := range []struct {
		name   string
		usable int64
		full   bool
	}{
		{"less than the smallest limit", job.Peak.MinimumLimitBytes + context - 1<<20, false},
		{"less than is reserved", between + context, true},
		{"as much as is reserved", job.Peak.DeviceBytes, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fit := of(GPU{ID: "card", UsableBytes: c.usable}).GPUs[0]
			if got := fit.DeviceBytes > 0; got != c.full {
				t.Errorf("the process on the card takes %d, a figure of its own: %v", fit.DeviceBytes, c.full)
			}
			if fit.DeviceBytes > c.usable {
				t.Errorf("the process takes %d on a card of %d", fit.DeviceBytes, c.usable)
			}
		})
	}
}
