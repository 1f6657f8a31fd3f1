package estimator

import (
	"slices"
	"testing"
)

// titanJob is a small Llama in torchtitan on so many GPUs, of which tensor share each layer.
func titanJob(world, tensor int64) Job {
	return Job{
		Model: Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":512,"intermediate_size":1408,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":32000}`)},
		Training: Training{Framework: "torchtitan", MicroBatch: 2, SequenceLength: 1024, Precision: PrecisionBF16,
			States:      &States{Weights: "fp32"},
			Optimizer:   &Optimizer{Name: "adamw", Implementation: "fused"},
			Versions:    map[string]string{"torch": "2.9.1"},
			Distributed: &Distributed{WorldSize: world, Data: "fsdp", FSDPVersion: 2, TensorParallel: tensor}},
	}
}

// TestTensorParallelSharesLayers holds what GPUs share against one that has all of it.
func TestTensorParallelSharesLayers(t *testing.T) {
	alone, shared := titanJob(1, 1), titanJob(4, 4)
	alone.Training.Precision = PrecisionFP32 // as torchtitan computes without FSDP
	one, four := mustEstimate(t, Input{Job: alone}), mustEstimate(t, Input{Job: shared})
	if one.Model.Parameters != four.Model.Parameters {
		t.Errorf("a model of %d parameters has %d where GPUs share it", one.Model.Parameters, four.Model.Parameters)
	}
	const norms = 9 * 512 // are whole everywhere
	if got, want := component(four, "optimizer_state").Bytes, (one.Model.Parameters-norms)/4+norms; got < 8*want ||
		got > 8*want+64<<10 {
		t.Errorf("moments of %d bytes on one of four GPUs, want those of %d parameters", got, want)
	}
	if got, most := four.Peak.AllocatedBytes, one.Peak.AllocatedBytes; got > most/2 {
		t.Errorf("%d bytes on one of four GPUs, %d on one alone", got, most)
	}
	if !slices.ContainsFunc(four.Notes, func(n Note) bool { return n.Code == "no-mixed-precision" }) {
		t.Error("no note says that half precision is not computed in")
	}
}

// TestTensorParallelRefuses lists what is not modelled together with shared layers.
func TestTensorParallelRefuses(t *testing.T) {
	yes := true
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"nothing", func(*Training) {}, nil},
		{"whole logits", func(u *Training) { no := false; u.Loss = &Loss{VocabParallel: &no} }, nil},
		{"another framework", func(u *Training) {
			u.Framework = "pytorch"
		}, []string{"/training/distributed/tensor_parallel"}},
		{"heads that do not divide", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.WorldSize = 8, 16
		}, []string{"/training/distributed/tensor_parallel"}},
		{"too few GPUs", func(u *Training) {
			u.Distributed.WorldSize = 6
		}, []string{"/training/distributed/world_size"}},
		{"compiled", func(u *Training) {
			u.Compile = &Compile{Model: true}
		}, []string{"/training/compile"}},
		{"selective", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "selective-op"}
		}, []string{"/training/gradient_checkpointing"}},
		{"copies", func(u *Training) { u.Distributed.Data = "ddp" }, []string{"/training/distributed/data"}},
		{"a vocabulary that nobody shares", func(u *Training) {
			u.Distributed.TensorParallel, u.Loss = 1, &Loss{VocabParallel: &yes}
		}, []string{"/training/loss/vocab_parallel"}},
		{"tokens that nobody shares", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.SequenceParallel = 1, true
		}, []string{"/training/distributed/sequence_parallel"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := titanJob(8, 4)
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}
