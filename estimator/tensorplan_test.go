package estimator

import (
	"slices"
	"testing"
)

// planJob is a small Qwen2 of transformers on two GPUs that share its layers by tp_plan.
func planJob() Job {
	return Job{
		Model: Model{HFConfig: []byte(`{"model_type":"qwen2","hidden_size":512,"intermediate_size":1408,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":32000}`)},
		Training: Training{Framework: "pytorch", MicroBatch: 2, SequenceLength: 1024, Precision: PrecisionBF16,
			Versions:    map[string]string{"torch": "2.9.1"},
			Distributed: &Distributed{WorldSize: 2, TensorParallel: 2}},
	}
}

// TestPlanLeavesTheVocabularyWhole holds what a GPU has against one that has all.
func TestPlanLeavesTheVocabularyWhole(t *testing.T) {
	alone := planJob()
	alone.Training.Distributed = nil
	one, two := mustEstimate(t, Input{Job: alone}), mustEstimate(t, Input{Job: planJob()})
	if one.Model.Parameters != two.Model.Parameters {
		t.Errorf("a model of %d parameters has %d where GPUs share it", one.Model.Parameters, two.Model.Parameters)
	}
	const (
		embedding, head = 32000 * 512, 32000 * 512
		norms           = 9 * 512
	)
	want := 2 * ((one.Model.Parameters-embedding-head-norms)/2 + embedding + head + norms) // in bfloat16
	if got := component(two, "weights").Bytes; got < want || got > want+64<<10 {
		t.Errorf("weights of %d bytes on one of two GPUs, want %d", got, want)
	}
	if a, b := component(one, "logits_and_loss").Bytes, component(two, "logits_and_loss").Bytes; a != b {
		t.Errorf("logits and loss of %d bytes on one GPU, and of %d where two share the layers", a, b)
	}
}

// TestPlanRefuses lists what is not modelled together with it.
func TestPlanRefuses(t *testing.T) {
	yes := true
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"nothing", func(*Training) {}, nil},
		{"checkpointed", func(u *Training) { u.GradientCheckpointing = &Checkpointing{Mode: "full"} }, nil},
		{"the Trainer", func(u *Training) { u.Framework = "hf-trainer" }, []string{
			"/training/distributed/tensor_parallel"}},
		{"copies of it", func(u *Training) { u.Distributed.WorldSize = 4 }, []string{
			"/training/distributed/tensor_parallel"}},
		{"tokens dealt out", func(u *Training) { u.Distributed.SequenceParallel = true }, []string{
			"/training/distributed/sequence_parallel"}},
		{"heads that do not divide", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.WorldSize = 8, 8
		}, []string{"/training/distributed/tensor_parallel"}},
		{"a vocabulary that is dealt out", func(u *Training) { u.Loss = &Loss{VocabParallel: &yes} }, []string{
			"/training/loss"}},
		{"autocast", func(u *Training) { u.Precision = PrecisionAMPBF16 }, []string{"/training/precision"}},
		{"another optimizer", func(u *Training) { u.Optimizer = &Optimizer{Name: "lion"} }, []string{
			"/training/optimizer/name"}},
		{"compiled", func(u *Training) { u.Compile = &Compile{Model: true} }, []string{"/training/compile"}},
		{"adapters", func(u *Training) { u.LoRA = &LoRA{Rank: 8, TargetModules: Targets{"q_proj"}} }, []string{
			"/training/distributed/tensor_parallel"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := planJob()
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}

// TestPlanOfTransformers5: with the embedding and the head whole, as they are replayed, more is said than ranks of
// transformers 5 take, and the bounds reach what two of them took.
func TestPlanOfTransformers5(t *testing.T) {
	const model = `"hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,"num_attention_heads":8,"num_key_value_heads":4,
		"head_dim":32,"vocab_size":4000,"max_position_embeddings":8192,"tie_word_embeddings":false`
	for precision, traced := range map[Precision]int64{"bf16": 77594624, "fp32": 113246208} {
		job := Job{Model: Model{HFConfig: []byte(`{"model_type":"llama",` + model + `}`)}, Training: Training{
			Framework: "pytorch", MicroBatch: 2, SequenceLength: 256, Precision: precision,
			Distributed: &Distributed{WorldSize: 2, Data: "ddp", TensorParallel: 2},
			Versions:    map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}}}
		later := mustEstimate(t, Input{Job: job})
		job.Training.Versions = map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}
		former := mustEstimate(t, Input{Job: job})
		context := later.Peak.DeviceBytes - later.Peak.ReservedBytes
		if later.Peak.LowBytes-context > traced || later.Peak.HighBytes-context < traced {
			t.Errorf("%s: %d traced is not between %d and %d", precision, traced, later.Peak.LowBytes-context,
				later.Peak.HighBytes-context)
		}
		width := func(r *Result) float64 { return float64(r.Peak.HighBytes) / float64(r.Peak.LowBytes) }
		if width(later) <= width(former) {
			t.Errorf("%s: the bounds are no wider than those of a release that is replayed", precision)
		}
	}
}
