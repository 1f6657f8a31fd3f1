package estimator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// frozenJob is a small Llama of which what patterns name is not trained.
func frozenJob(patterns ...string) Job {
	return Job{
		Model: Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":256,"intermediate_size":704,"num_hidden_layers":4,
			"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":4000,"tie_word_embeddings":false}`)},
		Training: Training{MicroBatch: 2, SequenceLength: 256, Precision: PrecisionBF16, Freeze: patterns},
	}
}

// TestFreezeCounts: what is left to train is what is named by no pattern, and only that has optimizer states.
func TestFreezeCounts(t *testing.T) {
	const width, ffn, layers = 256, 704, 4
	parts := map[string]int64{"embed_tokens": 4000 * width, "lm_head": 4000 * width, "model.norm": width,
		"q_proj": layers * width * width, "k_proj": layers * width * width / 2, "gate_proj": layers * width * ffn,
		"down_proj": layers * width * ffn, "input_layernorm": layers * width}
	names := slices.Sorted(maps.Keys(parts))
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID[string]).Draw(t, "frozen")
		r, err := Estimate(Input{Job: frozenJob(chosen...)})
		if err != nil {
			t.Fatal(err)
		}
		want := r.Model.Parameters
		for _, name := range chosen {
			want -= parts[name]
		}
		if r.Model.TrainableParameters != want {
			t.Errorf("with %v frozen %d parameters are trained, want %d", chosen, r.Model.TrainableParameters, want)
		}
		states := component(r, "optimizer_state").Bytes
		if least := 4 * want; states < least || states > least+100<<10 { // two moments in bfloat16
			t.Errorf("with %v frozen the optimizer keeps %d bytes, want about %d", chosen, states, least)
		}
	})
}

// TestFreezeByLayer: a layer is named by its number, which is a whole part, and several by a range.
func TestFreezeByLayer(t *testing.T) {
	trained := func(patterns ...string) int64 {
		return mustEstimate(t, Input{Job: frozenJob(patterns...)}).Model.TrainableParameters
	}
	all := trained("norm")
	layer := all - trained("norm", "layers.1")
	if layer <= 0 || trained("norm", "layers.0-2") != all-3*layer || trained("norm", "model.layers.3") != all-layer {
		t.Errorf("a layer has %d parameters; three leave %d of %d", layer, trained("norm", "layers.0-2"), all)
	}
	if trained("norm", "layers.1", "layers.0-2") != trained("norm", "layers.0-2") {
		t.Error("a layer that is named twice is counted twice")
	}
}

// TestFreezeRefuses lists what is not modelled together with it, and patterns that mean nothing.
func TestFreezeRefuses(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name   string
		change func(*Training)
		want   string
	}{
		{"nothing", func(*Training) {}, ""},
		{"adapters", func(u *Training) { u.LoRA = &LoRA{Rank: 8} }, "lora"},
		{"several GPUs", func(u *Training) { u.Distributed = &Distributed{WorldSize: 2} }, "several GPUs"},
		{"compiled", func(u *Training) { u.Compile = &Compile{Model: true} }, "torch.compile"},
		{"a name that no parameter has", func(u *Training) { u.Freeze = []string{"layer.1"} }, "whole part"},
		{"a layer that there is not", func(u *Training) { u.Freeze = []string{"layers.4"} }, "whole part"},
		{"an expression", func(u *Training) { u.Freeze = []string{"layers.(?!1)"} }, "layers.0-15"},
		{"everything", func(u *Training) { u.Freeze = []string{"model", "lm_head"} }, "nothing is left"},
		{"checkpoints", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "full", Reentrant: &no}
			u.Freeze = []string{"layers.0"}
		}, ""},
		{"checkpoints behind a frozen embedding", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "full", Reentrant: &no}
		}, "frozen embedding"},
		{"reentrant checkpoints", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "full", Reentrant: &yes}
		}, "reentrant"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := frozenJob("embed_tokens")
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			var refused *InvalidJobError
			switch errors.As(err, &refused); {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (refused == nil || !strings.Contains(err.Error(), tt.want) ||
				!slices.ContainsFunc(refusedPointers(err), func(p string) bool {
					return strings.HasPrefix(p, "/training/freeze")
				})):
				t.Errorf("%q is not in %s", tt.want, fmt.Sprint(err))
			}
		})
	}
}

// TestFreezeWithoutExperts: no trace has shown a mixture of which a part is frozen.
func TestFreezeWithoutExperts(t *testing.T) {
	job := frozenJob("embed_tokens")
	job.Model.HFConfig = []byte(`{"model_type":"mixtral","hidden_size":256,"intermediate_size":352,"num_hidden_layers":2,
		"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":4000,"num_local_experts":4,"num_experts_per_tok":2}`)
	var refused *InvalidJobError
	if _, err := Estimate(Input{Job: job}); !errors.As(err, &refused) || !strings.Contains(err.Error(), "experts") {
		t.Errorf("answered, or refused for another reason: %v", err)
	}
}
