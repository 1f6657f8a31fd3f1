package model

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// TestKeysThatClassesIgnore holds what a published file says besides against what is taken for unread: what a class
// does anyway is not, and what may mean another model is.
func TestKeysThatClassesIgnore(t *testing.T) {
	for _, c := range []struct {
		config string
		unread []string
	}{
		{`{"model_type":"qwen3_5_text","attn_output_gate":true,"full_attention_interval":4,"mamba_ssm_dtype":"float32",
			"mlp_only_layers":[],"mtp_num_hidden_layers":1,"mtp_use_dedicated_embeddings":false}`, nil},
		{`{"model_type":"qwen3_5_moe_text","attn_output_gate":true,"mtp_num_hidden_layers":1}`, nil},
		{`{"model_type":"qwen3_5_text","gate_dim":7}`, []string{"gate_dim"}},
		{`{"model_type":"glm4_moe_lite","first_k_dense_replace":1}`, nil},
		{`{"model_type":"glm4_moe_lite","first_k_dense_replace":3}`, []string{"first_k_dense_replace"}},
		{`{"model_type":"llama","attn_output_gate":true}`, []string{"attn_output_gate"}},
	} {
		var errs invalid.List
		a := FromHF(json.RawMessage(c.config), "", &errs)
		if err := errs.Err(); err != nil {
			t.Errorf("%s: %v", c.config, err)
		}
		if !slices.Equal(a.Unread, c.unread) {
			t.Errorf("%s: unread %v, want %v", c.config, a.Unread, c.unread)
		}
	}
}
