package launch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// TestMegatronsModelIsSaidWhole prints a model's flags where they say all of it, and none where they cannot.
func TestMegatronsModelIsSaidWhole(t *testing.T) {
	for keys, said := range map[string]bool{
		``:                         true,
		`, "attention_bias": true`: false, // queries, keys, values and the output alone
		`, "mlp_bias": true`:       false,
		`, "attention_bias": true, "mlp_bias": true`: true,
		`, "hidden_act": "gelu"`:                     false, // a gate that has no flag
	} {
		var wrong invalid.List
		a := model.FromHF(json.RawMessage(`{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
			"intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 256`+keys+`}`), "", &wrong)
		if err := wrong.Err(); err != nil {
			t.Fatal(keys, err)
		}
		w := Of(Job{Framework: "megatron", Nodes: 1, PerNode: 2, Data: 1, Architecture: &a,
			Training: estimator.Training{MicroBatch: 1, Distributed: &estimator.Distributed{WorldSize: 2,
				TensorParallel: 2}}})
		if got := strings.Contains(w.Command, "--num-layers 2 "); got != said {
			t.Errorf("with %q the model is said: %t, want %t: %s", keys, got, said, w.Command)
		}
	}
}
