package estimator

import (
	"slices"
	"testing"
)

// TestContextParallelSharesSequences holds two GPUs that share sequences of 2,048 tokens against two that have 1,024
// each: what the first have besides is the ring's.
func TestContextParallelSharesSequences(t *testing.T) {
	apart, shared := titanJob(2, 1), titanJob(2, 1)
	shared.Training.Distributed.ContextParallel = 2
	shared.Training.SequenceLength *= 2
	one, two := mustEstimate(t, Input{Job: apart}), mustEstimate(t, Input{Job: shared})
	if a, b := component(one, "optimizer_state").Bytes, component(two, "optimizer_state").Bytes; a != b {
		t.Errorf("moments of %d and %d bytes on one of two GPUs", a, b)
	}
	if a, b := one.Peak.AllocatedBytes, two.Peak.AllocatedBytes; b < a || b > a+a/50 {
		t.Errorf("%d bytes with 1,024 tokens, %d with half of 2,048", a, b)
	}
	if two.Assumed.SequenceLength != 2048 {
		t.Errorf("the answer is about sequences of %d tokens, want 2048", two.Assumed.SequenceLength)
	}
	if !slices.ContainsFunc(two.Notes, func(n Note) bool { return n.Code == "context-parallel" }) {
		t.Error("no note says what each GPU has of a sequence")
	}
}

// TestContextParallelRefuses lists what is not modelled where GPUs share sequences.
func TestContextParallelRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"nothing", func(*Training) {}, nil},
		{"handed on", func(u *Training) { u.Distributed.ContextParallelKind = "alltoall" }, nil},
		{"with tensor parallelism", func(u *Training) { u.Distributed.TensorParallel = 2 }, nil},
		{"Ulysses", func(u *Training) {
			u.Distributed.ContextParallelKind = "ulysses"
		}, []string{"/training/distributed/context_parallel_kind"}},
		{"copies", func(u *Training) {
			u.Distributed.Data, u.States = "ddp", nil
		}, []string{"/training/distributed/data"}},
		{"odd pieces", func(u *Training) { u.SequenceLength = 1022 }, []string{"/training/sequence_length"}},
		{"another framework", func(u *Training) {
			u.Framework, u.States = "pytorch", nil
		}, []string{"/training/distributed/context_parallel"}},
		{"float32", func(u *Training) { u.Precision = PrecisionFP32 }, []string{"/training/precision"}},
		{"a long ring", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.ContextParallel, u.SequenceLength = 1024, 1024, 4096
		}, []string{"/training/distributed/context_parallel"}},
		{"selective", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "selective-op"}
		}, []string{"/training/gradient_checkpointing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := titanJob(8, 1)
			job.Training.Distributed.ContextParallel = 4
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}
