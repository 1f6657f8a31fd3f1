package traits

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

func TestShapeFromEveryKindOfModel(t *testing.T) {
	llama := `{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
		"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}`
	gpt2 := Shape{Layers: 12, Hidden: 768, Heads: 12, KVHeads: 12, HeadDim: 64, FFN: 3072, Vocabulary: 50304,
		Context: 1024, Causal: true}
	tests := []struct {
		name       string
		model      estimator.Model
		parameters int64
		want       Shape
	}{
		{"nanoGPT", samples.Story().Job.Model, 0, gpt2},
		{"config.json", estimator.Model{HFConfig: []byte(llama)}, 8e9,
			Shape{Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336, Gated: true,
				Vocabulary: 128256, Context: 131072, Causal: true}},
		// 85 M parameters outside the embeddings are GPT-2's.
		{"not understood", estimator.Model{HFConfig: []byte(`[1]`)}, 85e6,
			Shape{Layers: 12, Hidden: 768, Heads: 12, KVHeads: 12, HeadDim: 64, FFN: 3072}},
		{"nothing", estimator.Model{}, 0, Shape{Layers: 1, Hidden: 64, Heads: 1, KVHeads: 1, HeadDim: 64, FFN: 256,
			Causal: true}},
	}
	for _, tt := range tests {
		if got := ShapeOf(estimator.Input{Job: estimator.Job{Model: tt.model}}, tt.parameters); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
