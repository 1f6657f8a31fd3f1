package estimator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/result"
	"pgregory.net/rapid"
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

// TestPlanOfTransformers5: between two releases that are replayed the head alone is dealt out, which is doubted.
// What ranks of 5.23 allocate is held by accuracy/testdata/ranks/plans.jsonl, and here that no doubt is left of it.
func TestPlanOfTransformers5(t *testing.T) {
	for transformers, want := range map[string]bool{"4.57.6": false, "5.6.0": true, "5.20.0": true, "5.23.0": false} {
		job := planJob()
		job.Training.Versions = map[string]string{"torch": "2.15.0", "transformers": transformers}
		r := mustEstimate(t, Input{Job: job})
		doubted := slices.ContainsFunc(r.Doubts, func(d result.DoubtSource) bool { return d.Source == "shared-vocabulary" })
		if doubted != want {
			t.Errorf("transformers %s: a doubt of the vocabulary is %t, want %t", transformers, doubted, want)
		}
	}
}

// TestPlanSharesVocabulary draws vocabularies and numbers of GPUs: each has its share of every matrix, rounded up, and
// all together the model's parameters; no GPU has fewer logits than one alone.
func TestPlanSharesVocabulary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const hidden, layers = 512, 2
		vocabulary := rapid.Int64Range(1000, 40000).Draw(t, "vocabulary")
		gpus := rapid.SampledFrom([]int64{2, 4}).Draw(t, "GPUs")
		tied := rapid.Bool().Draw(t, "tied")
		job := planJob()
		job.Model.HFConfig = fmt.Appendf(nil, `{"model_type":"llama","hidden_size":%d,"intermediate_size":1408,
			"num_hidden_layers":%d,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":%d,
			"tie_word_embeddings":%t}`, hidden, layers, vocabulary, tied)
		job.Training.Versions = map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}
		job.Training.Distributed = nil
		one, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		job.Training.Distributed = &Distributed{WorldSize: gpus, TensorParallel: gpus}
		shared, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		if one.Model.Parameters != shared.Model.Parameters {
			t.Errorf("a model of %d parameters has %d where GPUs share it", one.Model.Parameters, shared.Model.Parameters)
		}
		tables, norms := int64(2), int64((2*layers+1)*hidden)
		if tied {
			tables = 1
		}
		inLayers := one.Model.Parameters - tables*vocabulary*hidden - norms
		rows := (vocabulary + gpus - 1) / gpus
		want := 2 * (inLayers/gpus + tables*rows*hidden + norms) // in bfloat16
		if got := component(shared, "weights").Bytes; got < want || got > want+64<<10 {
			t.Errorf("weights of %d bytes on one of %d GPUs, want %d", got, gpus, want)
		}
		if a, b := component(one, "logits_and_loss").Bytes, component(shared, "logits_and_loss").Bytes; b < a {
			t.Errorf("logits and loss of %d bytes on one GPU, and of %d where GPUs share the rows", a, b)
		}
	})
}
