package estimator

import (
	"testing"
)

// TestEmbeddingStates: under the Trainer and 8-bit optimizers the upper bound has room for float32 states of trained
// embeddings, a tied head's among them; frameworks without it, frozen embeddings and paged states have no such doubt.
func TestEmbeddingStates(t *testing.T) {
	const llama, words = `{"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,` +
		`"num_attention_heads":4,"vocab_size":8192,"tie_word_embeddings":`, int64(8192 * 256)
	for name, c := range map[string]struct {
		config, framework, optimizer string
		lora                         *LoRA
		more                         int64
	}{
		"an embedding apart from its head": {llama + `false}`, "hf-trainer", "adamw-8bit", nil,
			2 * (3*words - words/64)},
		"a tied one":   {llama + `true}`, "trl", "adamw-8bit", nil, 2 * (3*words - words/64)},
		"one momentum": {llama + `true}`, "axolotl", "lion-8bit", nil, 3*words - words/64},
		"words and positions": {`{"model_type":"gpt2","n_layer":2}`, "hf-trainer", "adamw-8bit", nil,
			2 * (3*(50257+1024)*768 - (50257+1024)*12)},
		"a frozen one":        {llama + `true}`, "hf-trainer", "adamw-8bit", &LoRA{Rank: 8}, 0},
		"a paged one":         {llama + `true}`, "hf-trainer", "paged-adamw-8bit", nil, 0},
		"without the Trainer": {llama + `true}`, "torchtune", "adamw-8bit", nil, 0},
		"states of float32":   {llama + `true}`, "hf-trainer", "adamw", nil, 0},
	} {
		job := gpt2Job()
		job.Model = Model{HFConfig: []byte(c.config)}
		job.Training.SequenceLength, job.Training.Framework, job.Training.LoRA = 128, c.framework, c.lora
		job.Training.Optimizer = &Optimizer{Name: c.optimizer}
		res := mustEstimate(t, Input{Job: job})
		got := int64(0)
		for _, d := range res.Doubts {
			if d.Source == "embedding-states" {
				got = d.AboveBytes
			}
		}
		// What is reserved is more than what is alive at the peak, to which the doubt is relative.
		if c.more == 0 && got != 0 || c.more > 0 && (got < c.more || got > c.more*5/4) {
			t.Errorf("%s: %d bytes are allowed for, not %d", name, got, c.more)
		}
		if high := res.Peak.HighBytes - res.Peak.DeviceBytes; high < c.more {
			t.Errorf("%s: the upper bound lies %d bytes above, less than %d", name, high, c.more)
		}
	}
}
