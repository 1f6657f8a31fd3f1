package models

import (
	"encoding/json"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
)

// Type is model_type of the model's config.json, "" where nobody knows it.
func Type(l *launch.Launch, d *draft.Draft) string {
	if text, given := d.Fields["/model/hf_config"].Value.(json.RawMessage); given {
		var c struct {
			Type string `json:"model_type"`
		}
		if json.Unmarshal(text, &c) != nil {
			return ""
		}
		return c.Type
	}
	if name := d.Text("/model/preset"); name != "" && l.Files.Source.ModelType != nil {
		return l.Files.Source.ModelType(name)
	}
	return ""
}

// ligers are the types of models that Liger patches, by what it patches of them unless it is told otherwise. All other
// types are left as they are, and nothing stops (liger-kernel 0.8.5 transformers/monkey_patch.py
// MODEL_TYPE_TO_APPLY_LIGER_FN and the defaults of its functions, _apply_liger_kernel_to_instance).
var ligers = map[string]string{
	"rope rms_norm swiglu fused_linear_cross_entropy": "llama ministral mistral mixtral olmo2 olmo3 qwen2 qwen3 qwen3_moe " +
		"qwen2_5_vl qwen2_5_vl_text qwen3_vl_moe qwen3_vl_moe_text smollm3 phi3 falcon_h1 hunyuan_v1_dense " +
		"hunyuan_v1_moe exaone4 llama4_text llama4 mllama mllama_text_model muse_glimmer qwen2_vl qwen2_vl_text",
	"rope rms_norm geglu fused_linear_cross_entropy": "gemma gemma2 gemma3_text gemma3 paligemma",
	"rms_norm geglu fused_linear_cross_entropy":      "gemma4_text gemma4",
	"rms_norm swiglu fused_linear_cross_entropy": "deepseek_v2 deepseek_v3 glm4 glm4v glm4v_moe qwen3_next qwen3_5 " +
		"qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
	"rope rms_norm fused_linear_cross_entropy": "gpt_oss qwen3_vl qwen3_vl_text",
	"rms_norm fused_linear_cross_entropy":      "deepseek_v4 internvl smolvlm",
	"rope rms_norm swiglu cross_entropy":       "granite",
	"rope rms_norm swiglu":                     "pixtral",
	"fused_linear_cross_entropy":               "llava nemotron",
}

// Liger are the parts that Liger patches of a type of model, by the names of its switches; nil where it patches none.
func Liger(kind string) map[string]bool {
	for parts, kinds := range ligers {
		for of := range strings.FieldsSeq(kinds) {
			if of != kind {
				continue
			}
			on := map[string]bool{}
			for part := range strings.FieldsSeq(parts) {
				on[part] = true
			}
			return on
		}
	}
	return nil
}

// LigerKernels are the job document's words for the kernels among parts that Liger patches.
func LigerKernels(on map[string]bool) []any {
	var kernels []any
	for _, k := range []struct{ part, kernel string }{{"rope", "rope"}, {"rms_norm", "rmsnorm"}, {"swiglu", "swiglu"},
		{"geglu", "swiglu"}} {
		if on[k.part] {
			kernels = append(kernels, k.kernel)
		}
	}
	return kernels
}
