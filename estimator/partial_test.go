package estimator

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// partialRotary draws what the decoders that turn a part of every head read besides the usual keys, by model type, and
// says what their linear layers are called.
var partialRotary = map[string]func(t *rapid.T, config map[string]any, dropout float64) []string{
	"gpt_neox": func(t *rapid.T, config map[string]any, dropout float64) []string {
		config["rotary_pct"] = rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(t, "rotary_pct")
		config["use_parallel_residual"] = rapid.Bool().Draw(t, "parallel")
		config["attention_bias"] = rapid.Bool().Draw(t, "attention_bias")
		config["hidden_dropout"] = dropout
		return []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}
	},
}

// TestPartialRotaryPresets counts the parameters of every preset of these families.
func TestPartialRotaryPresets(t *testing.T) {
	data, err := os.ReadFile("../migrations/data/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets []model.Preset
	if err := json.Unmarshal(data, &presets); err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for i := range presets {
		p := &presets[i]
		if partialRotary[p.Family] == nil {
			continue
		}
		var errs invalid.List
		a := model.FromPreset(p, "/model/preset", &errs)
		if err := errs.Err(); err != nil {
			t.Errorf("%s: %v", p.ID, err)
			continue
		}
		if got := a.ParameterCount(); got != p.ParametersTotal {
			t.Errorf("%s: %d parameters, published %d", p.ID, got, p.ParametersTotal)
		}
		checked[p.Family]++
	}
	want := map[string]int{"gpt_neox": 11}
	if diff := cmp.Diff(want, checked); diff != "" {
		t.Errorf("presets by family (-want +got):\n%s", diff)
	}
}
