package estimator

import (
	"strings"
	"testing"
)

// TestMomentsOfEmbeddings: the Trainer has bitsandbytes' optimizers of eight bits keep the moments of embeddings in
// float32, those of a tied head with them; frameworks without it, and frozen embeddings, have none of that.
func TestMomentsOfEmbeddings(t *testing.T) {
	const llama, tied = `{"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,` +
		`"num_attention_heads":4,"vocab_size":8192,"tie_word_embeddings":`, int64(8192 * 256)
	const positions = int64(1024 * 768) // of GPT-2
	for name, c := range map[string]struct {
		config, framework, optimizer string
		lora                         *LoRA
		wide                         int64 // the elements whose moments are float32
		moments                      int64
	}{
		"an embedding apart from its head": {llama + `false}`, "hf-trainer", "adamw-8bit", nil, tied, 2},
		"a tied one":                       {llama + `true}`, "trl", "adamw-8bit", nil, tied, 2},
		"one momentum":                     {llama + `true}`, "axolotl", "lion-8bit", nil, tied, 1},
		"words and positions": {`{"model_type":"gpt2","n_layer":2}`, "hf-trainer", "adamw-8bit", nil,
			50257*768 + positions, 2},
		"a frozen one": {llama + `true}`, "hf-trainer", "adamw-8bit", &LoRA{Rank: 8}, 0, 2},
		"a paged one":  {llama + `true}`, "hf-trainer", "paged-adamw-8bit", nil, tied, 2},
	} {
		state := func(framework string) (int64, string) {
			job := gpt2Job()
			job.Model = Model{HFConfig: []byte(c.config)}
			job.Training.SequenceLength = 128
			job.Training.Framework, job.Training.LoRA = framework, c.lora
			job.Training.Optimizer = &Optimizer{Name: c.optimizer}
			found := component(mustEstimate(t, Input{Job: job}), "optimizer_state")
			return found.Bytes, found.How
		}
		wide, how := state(c.framework)
		plain, before := state("torchtune")
		more := 3 * c.wide
		if strings.HasPrefix(c.optimizer, "paged") { // either lies in pages; only the scales were on the card
			more = 0
		}
		want := c.moments * (more - 4*c.wide/256)
		if got := wide - plain; got < want-2048 || got > want+2048 {
			t.Errorf("%s: the Trainer's moments take %d bytes more, not %d", name, got, want)
		}
		if strings.Contains(how, "embeddings") != (c.wide > 0) || strings.Contains(before, "embeddings") {
			t.Errorf("%s: %q, and without the Trainer %q", name, how, before)
		}
	}
}
