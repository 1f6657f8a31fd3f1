package estimator

import (
	"strings"
	"testing"
)

// TestEvaluationFillsCache: Gemma 3 fills a key/value cache in evaluation mode, checkpointed or not and in releases
// that fill none in training. Traces of the evaluation allocate 546,379,264 bytes over the weights with transformers
// 4.57.6 and torch 2.9.1, of which 8,323,072 are the batch and cuBLAS's workspace, which a training step has made
// before.
func TestEvaluationFillsCache(t *testing.T) {
	const traced, before = 546379264, 8323072
	config := []byte(`{"model_type":"gemma3_text","architectures":["Gemma3ForCausalLM"],"num_hidden_layers":12,
		"hidden_size":256,"num_attention_heads":8,"num_key_value_heads":4,"intermediate_size":640,"vocab_size":5000,
		"max_position_embeddings":512,"head_dim":32,"sliding_window":128}`)
	for _, mode := range []string{"none", "full"} {
		job := recipeJob(t, `{"gradient_checkpointing":{"mode":"`+mode+`"},"evaluation":{"micro_batch":32},
			"versions":{"torch":"2.9.1","transformers":"4.57.6"}}`)
		events, err := Events(Input{Job: withModel(job, Model{HFConfig: config})}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var live, most int64
		for _, e := range events {
			if !strings.HasPrefix(e.What, "evaluation") {
				continue
			}
			if e.Bytes > 0 {
				live += (e.Bytes + 511) / 512 * 512
			} else {
				live -= (-e.Bytes + 511) / 512 * 512
			}
			most = max(most, live)
		}
		if want := int64(traced - before); most != want {
			t.Errorf("%s: the evaluation allocates %d bytes, want %d", mode, most, want)
		}
	}
}
