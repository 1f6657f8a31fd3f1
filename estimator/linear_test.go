package estimator

import (
	"fmt"
	"testing"
)

// layersReserved is what a Llama of 768 wide layers reserves, by their number from the first on.
func layersReserved(t *testing.T, from, to int64) []int64 {
	t.Helper()
	var reserved []int64
	for layers := from; layers <= to; layers++ {
		job := Job{
			Model: Model{HFConfig: fmt.Appendf(nil,
				`{"model_type":"llama","hidden_size":768,"intermediate_size":2304,"num_hidden_layers":%d,"num_attention_heads":12,"num_key_value_heads":12,"vocab_size":32000,"max_position_embeddings":8192}`, layers)},
			Training: Training{MicroBatch: 2, SequenceLength: 256, GradientAccumulation: 4, Precision: PrecisionAMPBF16,
				Optimizer: &Optimizer{Name: "adamw", Implementation: "fused"}},
		}
		reserved = append(reserved, mustEstimate(t, Input{Job: job}).Peak.ReservedBytes)
	}
	return reserved
}

// TestLayersDoNotReserveEvenly shows why every layer is played on the allocator although all of them ask for the same:
// what one more layer reserves neither stays the same nor comes again in turn.
func TestLayersDoNotReserveEvenly(t *testing.T) {
	reserved := layersReserved(t, 4, 60)
	more := make([]int64, len(reserved)-1)
	for i := range more {
		more[i] = reserved[i+1] - reserved[i]
	}
	last := more[len(more)/2:]
	for period := 1; period <= 6; period++ {
		even := true
		for i := period; i < len(last); i++ {
			even = even && last[i] == last[i-period]
		}
		if even {
			t.Errorf("from %d layers on what one more reserves repeats every %d: %v", 4+len(more)/2, period, last)
		}
	}
}
