package model

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// borealis is the config.json of a family that nobody described.
const borealis = `{"model_type":"borealis","architectures":["BorealisForCausalLM"],"n_layer":4,"d_model":256,"n_heads":8,"n_kv_heads":2,
	"intermediate_size":640,"vocab_size":1000,"hidden_act":"silu","rms_norm_eps":1e-6,"rope_theta":1e4,"tie_word_embeddings":false`

// TestUnknownFamily: what a decoder of an undescribed family is made of, by its parameters.
func TestUnknownFamily(t *testing.T) {
	const llama = 2*1000*256 + 256 + 4*(2*256*256+2*256*64+3*256*640+2*256)
	for _, c := range []struct {
		more       string
		parameters int64
	}{
		{``, llama},
		{`,"attention_bias":true`, llama + 4*(256+64+64+256)},
		{`,"qkv_bias":true`, llama + 4*(256+64+64)},
		{`,"tie_word_embeddings":true`, llama - 1000*256},
		{`,"use_qk_norm":true`, llama + 4*(32+32)},
		{`,"hidden_act":"relu2","layer_norm_eps":1e-5,"attention_bias":false,"mlp_bias":false`, llama - 4*256*640 + 256 + 4*2*256},
		{`,"hidden_act":"geglu"`, llama},
		{`,"hidden_act":"gelu_new","layer_norm_eps":1e-5,"use_bias":true`, llama +
			256 + 4*(2*256-256*640+640+256+256+64+64+256)},
		{`,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":128,"n_shared_experts":1`, llama +
			4*(5*3*256*128+4*256-3*256*640)},
		{`,"partial_rotary_factor":0.5,"parallel_attn":true`, llama},
	} {
		var errs invalid.List
		a := FromHF([]byte(borealis+c.more+"}"), "/model/hf_config", &errs)
		if err := errs.Err(); err != nil || !a.Generic || a.Family != "borealis" {
			t.Errorf("%s: %v, generic %v, family %q", c.more, err, a.Generic, a.Family)
			continue
		}
		if got := a.ParameterCount(); got != c.parameters {
			t.Errorf("%s: %d parameters, want %d", c.more, got, c.parameters)
		}
	}
}

// TestUnknownFamilyRefused: what cannot be understood is refused with the key that says so.
func TestUnknownFamilyRefused(t *testing.T) {
	for more, pointer := range map[string]string{
		`,"kv_lora_rank":64`:                                "/kv_lora_rank",
		`,"mamba_d_state":16`:                               "/mamba_d_state",
		`,"is_encoder_decoder":true`:                        "/is_encoder_decoder",
		`,"hidden_act":"xielu"`:                             "/hidden_act",
		`,"n_heads":[8,4]`:                                  "/n_heads",
		`,"n_heads":7`:                                      "/n_heads",
		`,"vocab_size":null`:                                "/model_type",
		`,"partial_rotary_factor":"half"`:                   "/partial_rotary_factor",
		`,"architectures":["BorealisForMaskedLM"]`:          "/architectures",
		`,"sliding_window":8,"layer_types":["linear"]`:      "/layer_types",
		`,"num_experts":4,"hidden_act":"relu"`:              "/hidden_act",
		`,"hidden_act":"relu2"`:                             "/hidden_act",
		`,"hidden_act":"gelu"`:                              "/hidden_act",
		`,"hidden_act":"gelu_fast","layer_norm_eps":1e-5`:   "/hidden_act",
		`,"vision_config":{},"quantization_config":{"a":1}`: "/vision_config",
	} {
		var errs invalid.List
		FromHF([]byte(borealis+more+"}"), "/model/hf_config", &errs)
		if err := errs.Err(); err == nil || !strings.Contains(err.Error(), pointer+":") {
			t.Errorf("%s: %v", more, err)
		}
	}
}
