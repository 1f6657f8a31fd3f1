package estimator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestDropoutIsTheConfigurations holds that a job's dropout is what a configuration with these probabilities has: no
// less, and nothing that the model does not have.
func TestDropoutIsTheConfigurations(t *testing.T) {
	for family, names := range map[string]string{
		"albert": "hidden_dropout_prob", "bart": "dropout", "deberta-v2": "hidden_dropout_prob", "distilbert": "dropout",
		"electra": "hidden_dropout_prob", "gptj": "embd_pdrop resid_pdrop", "roberta": "hidden_dropout_prob",
		"stablelm": "hidden_dropout", "gpt_bigcode": "embd_pdrop resid_pdrop",
		"bert": "hidden_dropout_prob", "bloom": "hidden_dropout", "falcon": "hidden_dropout",
		"gpt2": "embd_pdrop resid_pdrop", "gpt_neo": "embed_dropout resid_dropout", "gpt_neox": "hidden_dropout",
		"arcee": "", "llama": "", "mistral": "", "nemotron": "",
		"modernbert": "embedding_dropout mlp_dropout", "olmo2": "", "opt": "dropout",
		"phi": "embd_pdrop resid_pdrop", "phi3": "resid_pdrop", "seed_oss": "residual_dropout",
		"starcoder2": "embedding_dropout residual_dropout", "vit": "hidden_dropout_prob",
	} {
		t.Run(family, func(t *testing.T) {
			peak := func(config float64, override string) int64 {
				given := map[string]any{"model_type": family, "hidden_size": 256, "num_hidden_layers": 3,
					"num_attention_heads": 8, "vocab_size": 1000}
				if family == "stablelm" {
					given["num_key_value_heads"] = 8
				}
				for _, name := range strings.Fields(names) {
					given[name] = config
				}
				data, err := json.Marshal(given)
				if err != nil {
					t.Fatal(err)
				}
				tokens := `, "sequence_length": 256`
				if family == "vit" {
					tokens = ""
				}
				var job Job
				document := fmt.Sprintf(`{"model": {"hf_config": %s}, "training": {"micro_batch": 4%s,
					"precision": "amp-bf16", "optimizer": "sgd"%s}}`, data, tokens, override)
				if err := json.Unmarshal([]byte(document), &job); err != nil {
					t.Fatal(err)
				}
				return mustEstimate(t, Input{Job: job}).Peak.AllocatedBytes
			}
			const hidden = `, "dropout": {"hidden": %g}`
			with, without := peak(0.1, ""), peak(0, "")
			if got := peak(0, fmt.Sprintf(hidden, 0.1)); got != with {
				t.Errorf("the job's dropout makes %d bytes, the configuration's %d", got, with)
			}
			if got := peak(0.1, fmt.Sprintf(hidden, 0.0)); got != without {
				t.Errorf("no dropout of the job makes %d bytes, none of the configuration %d", got, without)
			}
			if has := names != ""; has != (with > without) {
				t.Errorf("with dropout %d bytes, without %d", with, without)
			}
		})
	}
}
