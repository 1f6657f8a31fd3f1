package estimator

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// rotaryDecoders draws what decoders with partial rotary positions or LayerNorms read besides the usual keys, by model
// type, and says what their linear layers are called.
var rotaryDecoders = map[string]func(t *rapid.T, config map[string]any, dropout float64) []string{
	"gpt_neox": func(t *rapid.T, config map[string]any, dropout float64) []string {
		config["rotary_pct"] = rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(t, "rotary_pct")
		config["use_parallel_residual"] = rapid.Bool().Draw(t, "parallel")
		config["attention_bias"] = rapid.Bool().Draw(t, "attention_bias")
		config["hidden_dropout"] = dropout
		return []string{"query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"}
	},
	"nemotron": func(t *rapid.T, config map[string]any, _ float64) []string {
		config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "part")
		config["attention_bias"], config["mlp_bias"] = rapid.Bool().Draw(t, "attention_bias"),
			rapid.Bool().Draw(t, "mlp_bias")
		return []string{"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"}
	},
	"granitemoehybrid": func(t *rapid.T, config map[string]any, _ float64) []string {
		delete(config, "head_dim")
		config["shared_intermediate_size"], config["num_local_experts"] = config["intermediate_size"], 0
		config["position_embedding_type"] = rapid.SampledFrom([]any{"rope", "nope", nil}).Draw(t,
			"position_embedding_type")
		config["layer_types"] = slices.Repeat([]string{"attention"}, int(config["num_hidden_layers"].(int64)))
		return []string{"q_proj", "k_proj", "v_proj", "o_proj", "input_linear", "output_linear"}
	},
	"glm":  randomGLM,
	"glm4": randomGLM,
	"phi": func(t *rapid.T, config map[string]any, dropout float64) []string {
		delete(config, "head_dim")
		config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "partial_rotary_factor")
		config["qk_layernorm"] = rapid.Bool().Draw(t, "qk_layernorm")
		config["resid_pdrop"], config["embd_pdrop"] = dropout, dropout
		return []string{"q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"}
	},
	"phi3": func(t *rapid.T, config map[string]any, dropout float64) []string {
		config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.75, 1}).Draw(t, "partial_rotary_factor")
		config["sliding_window"] = rapid.SampledFrom([]any{nil, 100, 700}).Draw(t, "window")
		config["resid_pdrop"] = dropout
		return []string{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
	},
	"stablelm": func(t *rapid.T, config map[string]any, dropout float64) []string {
		delete(config, "head_dim")
		config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "partial_rotary_factor")
		config["qk_layernorm"] = rapid.Bool().Draw(t, "qk_layernorm")
		config["use_qkv_bias"] = rapid.Bool().Draw(t, "use_qkv_bias")
		config["use_parallel_residual"] = rapid.Bool().Draw(t, "parallel")
		config["hidden_dropout"] = dropout
		return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
	},
	"lfm2": func(t *rapid.T, config map[string]any, _ float64) []string {
		config["conv_bias"], config["block_multiple_of"] = rapid.Bool().Draw(t, "conv_bias"), 8
		layers := config["num_hidden_layers"].(int64)
		kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"conv", "full_attention"}), int(layers),
			int(layers)).Draw(t, "layers")
		config["layer_types"] = kinds
		targets := []string{"w1", "w2", "w3"}
		if slices.Contains(kinds, "conv") {
			targets = append(targets, "in_proj")
		}
		if slices.Contains(kinds, "full_attention") {
			targets = append(targets, "q_proj", "k_proj", "v_proj")
		}
		return targets
	},
	"qwen3_5_text": func(t *rapid.T, config map[string]any, _ float64) []string {
		drawDeltaNets(t, config)
		return []string{"gate_proj", "up_proj", "down_proj"}
	},
	"starcoder2": func(t *rapid.T, config map[string]any, dropout float64) []string {
		config["use_bias"] = rapid.Bool().Draw(t, "use_bias")
		config["sliding_window"] = rapid.SampledFrom([]any{nil, 100, 700}).Draw(t, "window")
		config["residual_dropout"], config["embedding_dropout"] = dropout, dropout
		return []string{"q_proj", "k_proj", "v_proj", "o_proj", "c_fc", "c_proj"}
	},
}

func randomGLM(t *rapid.T, config map[string]any, _ float64) []string {
	config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "partial_rotary_factor")
	config["attention_bias"] = rapid.Bool().Draw(t, "attention_bias")
	return []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"}
}

// TestRotaryDecoderPresets counts the parameters of every preset of these families.
func TestRotaryDecoderPresets(t *testing.T) {
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
		if rotaryDecoders[p.Family] == nil {
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
	want := map[string]int{"glm": 1, "glm4": 2, "granitemoehybrid": 3, "gpt_neox": 11, "lfm2": 5, "nemotron": 1,
		"phi": 2, "phi3": 6, "stablelm": 2, "starcoder2": 3}
	if diff := cmp.Diff(want, checked); diff != "" {
		t.Errorf("presets by family (-want +got):\n%s", diff)
	}
}

// drawDeltaNets draws the sizes of gated delta nets, and which layers have one in place of attention.
func drawDeltaNets(t *rapid.T, config map[string]any) {
	config["partial_rotary_factor"] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "partial_rotary_factor")
	keys := rapid.Int64Range(1, 3).Draw(t, "key_heads")
	config["linear_num_key_heads"] = keys
	config["linear_num_value_heads"] = keys * rapid.Int64Range(1, 3).Draw(t, "values")
	config["linear_key_head_dim"] = rapid.Int64Range(1, 40).Draw(t, "key_dim")
	config["linear_value_head_dim"] = rapid.Int64Range(1, 40).Draw(t, "value_dim")
	layers := config["num_hidden_layers"].(int64)
	config["layer_types"] = rapid.SliceOfN(rapid.SampledFrom([]string{"linear_attention", "full_attention"}), int(layers),
		int(layers)).Draw(t, "layers")
}
